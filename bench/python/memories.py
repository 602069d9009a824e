"""Models over the memories of targets: cost over the proved bound, and three greedy assignments over the cost.

usage: python3 bench/python/memories.py [--berth FILE] [--targets LIST] MODEL...

A MODEL is a file or builtin:NAME. Columns: cost over its bound, with copies and without; access time in the slowest
memories over the cost with copies; greedy assignments by size, by density and by birth over the cost without copies;
seconds of the call with copies. Pairs without a plan are listed with the reason. The last lines are medians and extremes.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "tool"))
from greedy import ORDERS, greedy_costs


def plan(berth, *args):
    before = time.time()
    got = subprocess.run([berth, "plan", *args, "--json"], capture_output=True, text=True)
    answer = json.loads(got.stdout) if got.stdout else {"reason": got.stderr.strip()}
    return answer, time.time() - before


def cost_of(answer):
    return answer["access_time"] + answer["stall_time"]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--berth", default="build/bin/berth")
    options.add_argument("--targets", default="stm32h743,ethos_u85,ascend_910b")
    options.add_argument("models", nargs="+")
    call = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        problem = os.path.join(folder, "problem.json")
        for model in call.models:
            for target in call.targets.split(","):
                moved, seconds = plan(call.berth, model, "--memories", target)
                still, _ = plan(call.berth, model, "--memories", target, "--no-copies", "--problem", problem)
                label = f"{os.path.basename(model):24} {target:12}"
                reason = moved.get("reason") or still.get("reason")
                if reason:
                    print(label, reason)
                    continue
                greedy = greedy_costs(json.load(open(problem)))
                rows.append([cost_of(moved) / moved["cost_bound"], cost_of(still) / still["cost_bound"],
                             moved["slowest_time"] / cost_of(moved), *(greedy[o] / cost_of(still) for o in ORDERS), seconds])
                print(label, " ".join(f"{x:6.3f}" for x in rows[-1]), flush=True)
    for name, of in (("median", statistics.median), ("least", min), ("most", max)):
        print(f"{name:37}", " ".join(f"{of(column):6.3f}" for column in zip(*rows)))
    print(f"{'best greedy, least':37} {min(min(row[3:6]) for row in rows):6.3f}")


main()
