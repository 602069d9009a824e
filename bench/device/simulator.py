#!/usr/bin/env python3
"""The suites of devices and pools on every chip, version of CANN and schedule of Ascend's simulator, and what the
simulator costs: the suite of devices on it and on the host's device, by turns.

usage: bench/device/simulator.py [BUILD [ROUNDS]]   (build, 7; no rounds: the suites alone)
"""
import itertools
import os
import resource
import statistics
import subprocess
import sys
import time

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
simulator = {"LD_LIBRARY_PATH": os.path.join(build, "simulator/ascend/ascend_simulator"),
             "ASCEND_SIMULATOR_MEMORY": "1G", "BERTH_DEVICE": "ascend:0"}


def run(program, only, **settings):
    """Exit status, seconds, and seconds of the processor."""
    def spent():
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        return now.ru_utime + now.ru_stime

    start, before = time.perf_counter(), spent()
    done = subprocess.run([os.path.join(build, "bin", program), f"--gtest_filter={only}"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, **simulator, **settings})
    if done.returncode != 0:
        print(done.stdout[-2000:], file=sys.stderr)
    return done.returncode, time.perf_counter() - start, spent() - before


passed = failed = 0
for chip, cann, schedule in itertools.product(("310", "310P", "910", "A2", "A3", "950"), ("8.0", "8.5"),
                                              ("eager", "random:9", "latest")):
    settings = {"ASCEND_SIMULATOR_PROFILE": f"{chip}:{cann}", "ASCEND_SIMULATOR_SCHEDULE": schedule}
    suites = [run(*s, **settings)[0] for s in (("device_test", "ascend/*"),
                                               ("device_driver_pool_test", "-driver_pool_chunks*"))]
    if any(suites):
        failed += 1
        print(f"{chip} with CANN {cann}, {schedule}: failed")
    else:
        passed += 1
print(f"{passed} of {passed + failed} profiles and schedules pass")

if rounds:
    wall, processor = [], []
    for _ in range(rounds):
        host, chip = run("device_test", "host/*"), run("device_test", "ascend/*")
        wall.append(chip[1] / host[1])
        processor.append(chip[2] / host[2])
    for name, ratios in (("time", wall), ("processor time", processor)):
        print(f"{name} beside the host's device: {statistics.median(ratios):.1f} times "
              f"({min(ratios):.1f} to {max(ratios):.1f}, {rounds} rounds by turns)")
sys.exit(failed != 0)
