"""What a plan cache saves when the same problems come again: with entries that prove themselves, with a key, trusted.

usage: PYTHONPATH=build/python python3 bench/python/second_pass.py FOLDER

FOLDER has problem files (JSON), also in folders below. The first pass fills the cache. Five second passes give the
least, the middle and the most CPU seconds of the process, and how many plans came from the cache.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

import berth

problems = [berth.read(file) for file in sorted(pathlib.Path(sys.argv[1]).rglob("*.json"))]
with tempfile.TemporaryDirectory() as folder:
    key = pathlib.Path(folder, "key")
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    for name, seal in (("without a key", {}), ("with a key", {"key": key}), ("trusted", {"trusted": True})):
        store = {}
        start = time.process_time()
        berth.plan_many(problems, cache=berth.PlanCache(store, **seal))
        first = time.process_time() - start
        times = []
        for _ in range(5):
            cache = berth.PlanCache(dict(store), **seal)
            start = time.process_time()
            berth.plan_many(problems, cache=cache)
            times.append(time.process_time() - start)
        print(f"{name:14} first {first:6.2f} s, second {min(times):.3f} {statistics.median(times):.3f} {max(times):.3f} s, "
              f"{cache.hits} of {len(problems)} from the cache")
