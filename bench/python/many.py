"""What plan_many costs beside solving, and what a second process and a plan cache are worth.

usage: PYTHONPATH=build/python python3 bench/python/many.py [PROBLEMS [BUFFERS [PROCESSES]]]

Problems are made up by seed: BUFFERS buffers that live for one to eight of as many ticks as there are buffers, with
sizes of 1 to 1000. Each figure is the least and the middle one of five runs, by turns. The
overhead a problem is the time of one process less the time that its solving takes, which the loop beside it measures.
"""

import concurrent.futures
import importlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import berth

importlib.import_module("berth.many")
count, buffers, processes = (int(sys.argv[i]) if len(sys.argv) > i else usual for i, usual in ((1, 2000), (2, 100), (3, 2)))


def problem(seed):
    make = random.Random(seed)
    p = berth.Problem()
    for _ in range(buffers):
        start = make.randrange(buffers)
        p.add(make.randrange(1, 1000), (start, start + make.randrange(1, 9)))
    return p


problems = [problem(seed) for seed in range(count)]
folder = tempfile.TemporaryDirectory()
cache = berth.PlanCache(folder.name)
friend = berth.PlanCache(folder.name, trusted=True)
pools = {n: concurrent.futures.ProcessPoolExecutor(n) for n in {1, processes}}
for pool in pools.values():
    berth.plan_many(problems[:64], executor=pool)  # the workers are there
berth.plan_many(problems, cache=cache)

ways = {
    "a loop over solve()": lambda: [p.solve() for p in problems],
    "plan_many, no executor": lambda: berth.plan_many(problems),
    "plan_many, 1 process": lambda: berth.plan_many(problems, executor=pools[1]),
    f"plan_many, {processes} processes": lambda: berth.plan_many(problems, executor=pools[processes]),
    "plan_many, cache": lambda: berth.plan_many(problems, cache=cache),
    "plan_many, trusted cache": lambda: berth.plan_many(problems, cache=friend),
}
took = {name: [] for name in ways}
for _ in range(5):
    for name, way in ways.items():
        start = time.perf_counter()
        way()
        took[name].append(time.perf_counter() - start)

print(f"{count} problems of {buffers} buffers, berth {berth.__version__}")
loop = min(took["a loop over solve()"])
for name, times in took.items():
    least, middle = min(times), statistics.median(times)
    over = (least - loop) / count * 1e3
    print(f"{name:26} {least:8.3f} s least {middle:8.3f} s median {over:+9.4f} ms a problem beside the loop")
one, several = took["plan_many, 1 process"], took[f"plan_many, {processes} processes"]
print(f"{processes} processes against one: {min(one) / min(several):.2f} times (least), "
      f"{statistics.median(one) / statistics.median(several):.2f} (median)")

sizes, starts = list(range(1, 1_000_001)), range(1_000_000)
try:
    import numpy
except ImportError:
    numpy = None
if numpy is not None:
    columns = [numpy.array(sizes), numpy.array(starts), numpy.array(starts) + 5]
    made = []
    for _ in range(5):
        start, busy = time.perf_counter(), time.process_time()
        million = berth.Problem.from_arrays(*columns)
        made.append((time.perf_counter() - start, time.process_time() - busy))
        del million
    print(f"from_arrays, 1,000,000 buffers: {min(m[0] for m in made) * 1e3:.1f} ms "
          f"(of the processor {min(m[1] for m in made) * 1e3:.1f})")
imports = []
for _ in range(9):
    said = subprocess.run([sys.executable, "-X", "importtime", "-c", "import berth"], stderr=subprocess.PIPE, text=True)
    imports.append(int(said.stderr.splitlines()[-1].split("|")[1]))
print(f"import berth: {min(imports) / 1e3:.1f} ms least, {statistics.median(imports) / 1e3:.1f} ms median")
