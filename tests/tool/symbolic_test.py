#!/usr/bin/env python3
"""Problems with dimensions, from file to offsets: the tool's own evaluation, one written here from the order in the
plan's JSON, and the C header compiled by the compilers there are, must agree. usage: symbolic_test.py BERTH"""
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)

MAIN = """#include "plan.h"
#include <stdio.h>
int main(void) {
  static const uint64_t values[][PLAN_DIMENSION_COUNT + 1] = {%s};
  static uint64_t offsets[PLAN_BUFFER_COUNT + 1];
  size_t k, i;
  for (k = 0; k < sizeof values / sizeof values[0]; ++k) {
    uint64_t arena = 7;
    const int ok = plan_evaluate(values[k], offsets, &arena);
    printf("%%d %%llu", ok, (unsigned long long)arena);
    for (i = 0; ok && i < PLAN_BUFFER_COUNT; ++i) printf(" %%llu", (unsigned long long)offsets[i]);
    printf("\\n");
  }
  return 0;
}
"""


def random_problem(rng):
    names = rng.sample(["batch", "seq", "and", "int", "N", "n", "defined", "at", "arena"], rng.randint(1, 3))
    dimensions = [{"name": n, "least": rng.choice([0, 1, 3]), "most": rng.choice([3, 64, 2**20])} for n in names]

    def size():
        terms = ["*".join([str(rng.randint(0, 300))] + rng.choices(names, k=rng.randint(0, 2)) if names else ["5"])
                 for _ in range(rng.randint(1, 3))]
        return rng.choice([" + ", "+"]).join(terms)

    buffers = []
    for k in range(rng.randint(0, 24)):
        lower = rng.randint(-3, 20)
        buffers.append({"id": rng.choice(["x", "x ", "/*\\", '"'])[: 1 + k % 3] + str(k), "size": size(), "lower": lower,
                        "upper": lower + rng.randint(1, 6), "alignment": rng.choice([None, 48, 256]),
                        "rules": rng.choice([None, None, None, "ascend_310p"])})
    return {"format": "berth-problem/1", "alignment": rng.choice([1, 64]), "size_granularity": rng.choice([1, 32]),
            "dimensions": dimensions, "buffers": buffers}


def evaluate(plan, values):
    """As docs/plan.md says that another runtime may."""
    def up(n, step):
        return -(-n // step) * step

    def end(b):
        size = sum(math.prod(int(f) if f.isdigit() else values[f] for f in term.split("*"))
                   for term in b["size_formula"].split(" + "))
        return (offsets[b["id"]] + up(size, b.get("size_granularity", plan["size_granularity"])) +
                b.get("tail_pad", plan["tail_pad"]))

    buffers, offsets = {b["id"]: b for b in plan["buffers"]}, {}
    for name in plan["order"]:
        below = max((end(buffers[s]) for s in buffers[name]["supports"]), default=0)
        offsets[name] = up(below, buffers[name]["alignment"])
    return [offsets[b["id"]] for b in plan["buffers"]], max((end(b) for b in plan["buffers"]), default=0)


class Symbolic(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def file(self, name, content):
        with open(self.path(name), "w") as f:
            f.write(content)
        return self.path(name)

    def run_berth(self, *args, status=0):
        got = subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)
        self.assertEqual(got.returncode, status, (args, got.stdout, got.stderr))
        return got.stdout if status != 2 else got.stderr

    def test_three_evaluations_agree(self):
        compilers = [(c, flags) for c, flags in (("cc", ["-std=c99"]), ("cc", ["-std=c11"]),
                                                 ("c++", ["-xc++", "-std=c++11"]), ("clang", ["-std=c99"]))
                     if shutil.which(c)]
        self.assertTrue(compilers)
        for seed in range(2 if "BERTH_SANITIZED" in os.environ else 8):
            rng = random.Random(seed)
            made = random_problem(rng)
            problem = self.file("p.json", json.dumps(made))
            plan = json.loads(self.run_berth("plan", problem, "--json", "--out", self.path("plan.h")))
            self.assertEqual(self.run_berth("verify", problem, self.file("plan.json", json.dumps(plan))), "ok\n")
            self.assertEqual(json.loads(self.run_berth("plan", problem, "--json"))["order"], plan["order"])
            points = [{d["name"]: rng.choice([d["least"], d["most"], rng.randint(d["least"], d["most"])])
                       for d in made["dimensions"]} for _ in range(5)]
            points.append({d["name"]: d["most"] for d in made["dimensions"]})
            with open(self.path("plan.h")) as f:
                macros = dict(re.findall(r"^#define (\w+_(?:OFFSET|INDEX)) (\d+)", f.read(), re.M))
            fixed = {int(macros[m[:-6] + "INDEX"]): int(at) for m, at in macros.items() if m.endswith("OFFSET")}
            expected = []
            for values in points:
                offsets, arena = evaluate(plan, values)
                self.assertEqual({i: offsets[i] for i in fixed}, fixed)
                self.assertLessEqual(arena, plan["arena_bytes"])
                expected.append(" ".join(map(str, [1, arena, *offsets])))
                if not values:
                    continue
                at = ["--at", ",".join(f"{k}={v}" for k, v in values.items())]
                there = json.loads(self.run_berth("plan", problem, "--json", *at))
                self.assertEqual((there["arena_bytes"], [b["offset"] for b in there["buffers"]]), (arena, offsets))
                self.assertEqual((there["at"], there["most_bytes"]), (values, plan["arena_bytes"]))
                self.assertEqual(self.run_berth("verify", problem, self.file("at.json", json.dumps(there)), *at), "ok\n")
            rows = [[*v.values(), 0] for v in points]
            for k, d in enumerate(made["dimensions"]):
                rows.append([e["least"] for e in made["dimensions"]] + [0])
                rows[-1][k] = d["most"] + 1
                expected.append("0 7")
            self.file("main.c", MAIN % ",".join("{" + ",".join(f"{v}ull" for v in row) + "}" for row in rows))
            for compiler, flags in compilers:
                subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
                                self.path("main.c"), "-o", self.path("main")], check=True)
                got = subprocess.run([self.path("main")], capture_output=True, text=True, check=True)
                self.assertEqual(got.stdout.splitlines(), expected, (seed, compiler, flags))

    def test_a_plan_that_fails_somewhere_is_refused(self):
        # x and y may lie either way round at the largest values; the order says which.
        problem = self.file("p.json", json.dumps({
            "format": "berth-problem/1", "dimensions": [{"name": "n", "least": 0, "most": 4}], "buffers": [
                {"id": "x", "size": "8*n", "lower": 0, "upper": 2}, {"id": "y", "size": 8, "lower": 1, "upper": 3}]}))
        plan = json.loads(self.run_berth("plan", problem, "--json"))
        top = next(b for b in plan["buffers"] if b["supports"])
        top["supports"] = []  # the offsets at the largest values are still right
        bad = self.file("bad.json", json.dumps(plan))
        self.assertIn("no chain of supports orders two buffers", self.run_berth("verify", problem, bad, status=1))
        plain = self.run_berth("plan", problem, "--at", "n=002", "--json")
        self.assertIn("no key 'order'", self.run_berth("verify", problem, self.file("q.json", plain), status=2))

    def test_capacity_counts_at_the_largest_values_or_those_given(self):
        problem = self.file("p.json", json.dumps({
            "format": "berth-problem/1", "capacity": 64, "dimensions": [{"name": "n", "least": 0, "most": 9}],
            "buffers": [{"id": "x", "size": "8*n", "lower": 0, "upper": 2}]}))
        answer = json.loads(self.run_berth("plan", problem, "--json", status=1))
        self.assertEqual((answer["status"], answer["lower_bound"]), ("infeasible", 72))
        self.assertEqual(json.loads(self.run_berth("plan", problem, "--at", "n=8", "--json"))["arena_bytes"], 64)
        self.run_berth("plan", problem, "--at", "n=9", status=1)

    def test_wrong_calls(self):
        problem = self.file("p.json", json.dumps({
            "format": "berth-problem/1", "dimensions": [{"name": "n", "least": 1, "most": 9}, {"name": "m", "least": 0, "most": 2}],
            "buffers": [{"id": "x", "size": "8*n*m", "lower": 0, "upper": 2}]}))
        plain = self.file("p.csv", "id,lower,upper,size\nx,0,1,4\n")
        for at, says in (("n=1", "no value for 'm'"), ("n=10,m=1", "from 1 to 9"), ("n=1,m=1,n=2", "a value already"),
                         ("n=1,q=1", "no dimension is called 'q'"), ("n", "expected NAME=N"), ("n=1x,m=1", "whole number"),
                         ("n=,m=1", "whole number"), ("n=-1,m=1", "whole number"), ("n=99999999999999999999,m=1", "whole")):
            self.assertIn(says, self.run_berth("plan", problem, "--at", at, status=2))
        self.assertIn("has no dimensions", self.run_berth("plan", plain, "--at", "n=1", status=2))
        self.assertIn("has no dimensions", self.run_berth("verify", plain, plain, "--at", "n=1", status=2))
        self.assertIn("--keep", self.run_berth("plan", problem, "--keep", plain, status=2))
        self.assertIn("CSV has no place", self.run_berth("plan", problem, "--out", self.path("o.csv"), status=2))


if __name__ == "__main__":
    unittest.main()
