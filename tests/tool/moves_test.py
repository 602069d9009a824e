#!/usr/bin/env python3
"""Runs `berth plan` and `berth verify` on problems whose buffers move. usage: moves_test.py BERTH"""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)
# x is used at both ends of its life, and the small memory is needed for y in between.
PROBLEM = {
    "format": "berth-problem/1",
    "pools": [{"id": "sram", "capacity": 10}, {"id": "dram", "cost": 1}],
    "transfers": [{"from": "sram", "to": "dram", "bandwidth": 2},
                  {"from": "dram", "to": "sram", "bandwidth": 2, "latency": 0.5}],
    "steps": [[k, 4] for k in range(8)],
    "buffers": [{"id": "x", "size": 8, "lower": 0, "upper": 8, "uses": [{"at": 0, "write": True}, {"at": 7}]},
                {"id": "y", "size": 8, "lower": 3, "upper": 5, "uses": [{"at": 3, "write": True}, {"at": 4}]}]}


class Moves(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as f:
            f.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def run_berth(self, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)

    def changed(self, change):
        problem = copy.deepcopy(PROBLEM)
        change(problem)
        return self.file("changed.json", problem)

    def expect_wrong(self, says, *args):
        got = self.run_berth(*args)
        self.assertEqual((got.returncode, got.stdout), (2, ""), got.stderr)
        self.assertEqual(got.stderr.count("\n"), 1, got.stderr)
        self.assertIn(says, got.stderr)

    def test_there_are_no_values_of_dimensions(self):
        problem, plan = self.file("p.json", PROBLEM), os.path.join(self.folder.name, "plan.json")
        self.assertEqual(self.run_berth("plan", problem, "--out", plan).returncode, 0)
        got = self.run_berth("verify", problem, plan, "--at", "n=1")
        self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1))

    def test_a_plan_with_moves_is_written_and_verified(self):
        problem = self.file("p.json", PROBLEM)
        got = self.run_berth("plan", problem, "--json", "--out", os.path.join(self.folder.name, "plan.json"))
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        plan = json.loads(got.stdout)
        self.assertEqual((plan["access_time"], plan["stall_time"], plan["unmoved_time"]), (0, 0, 16))
        self.assertEqual((plan["copied_bytes"], plan["cost_bound"], plan["verified"]), (16, 0, True))
        self.assertEqual(plan["no_reuse_bytes"], 32)  # of the stays, as the arena is
        self.assertIn("  without reuse 32 B\n", self.run_berth("plan", problem).stdout)
        self.assertEqual([(b["id"], b["pool"]) for b in plan["buffers"]],
                         [("x", "sram"), ("x", "dram"), ("x", "sram"), ("y", "sram")])
        self.assertEqual([(m["id"], m["from"], m["to"]) for m in plan["moves"]],
                         [("x", "sram", "dram"), ("x", "dram", "sram")])
        for move, takes in zip(plan["moves"], (4, 4.5)):
            self.assertEqual(move["done_time"] - move["begin_time"], takes)
        written = os.path.join(self.folder.name, "plan.json")
        with open(written) as f:
            self.assertEqual(json.load(f)["moves"], plan["moves"])
        self.assertTrue(json.loads(self.run_berth("verify", problem, written, "--json").stdout)["ok"])
        page = os.path.join(self.folder.name, "page.html")
        self.assertEqual(self.run_berth("view", written, "-o", page).returncode, 0)

        for change, says in ((lambda p: p["buffers"][3].update(offset=4), "ends beyond the capacity"),
                             (lambda p: p["moves"][0].update(done_time=7), "does not take the time of its link"),
                             (lambda p: p["moves"].pop(), "into which nothing is copied"),
                             (lambda p: p.update(stall_time=1), "the stall is not"),
                             (lambda p: p["buffers"].pop(), "has no stay: 'y'")):
            bad = copy.deepcopy(plan)
            change(bad)
            got = self.run_berth("verify", problem, self.file("bad.json", bad))
            self.assertEqual(got.returncode, 1, got)
            self.assertIn(says, got.stdout)
        del plan["moves"]
        self.expect_wrong("no key 'moves'", "verify", problem, self.file("bad.json", plan))

    def test_the_table_names_the_moves(self):
        got = self.run_berth("plan", self.file("p.json", PROBLEM))
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("without moves 16", got.stdout)
        self.assertIn("sram -> dram", got.stdout)

    def test_without_transfers_uses_decide_the_pool(self):
        def change(p):
            del p["transfers"], p["steps"]
            p["buffers"][1]["uses"][0]["bytes"] = 800
        plan = json.loads(self.run_berth("plan", self.changed(change), "--json").stdout)
        self.assertEqual([(b["id"], b["pool"]) for b in plan["buffers"]], [("x", "dram"), ("y", "sram")])
        self.assertEqual((plan["access_time"], plan["moves"]), (16, []))

    def test_what_no_plan_can_serve_is_refused(self):
        def change(p):
            p["transfers"].pop()
            p["buffers"][0]["uses"][0]["pool"] = "dram"
            p["buffers"][0]["uses"][1]["pool"] = "sram"
        got = self.run_berth("plan", self.changed(change), "--json")
        self.assertEqual((got.returncode, json.loads(got.stdout)["feasible"]), (1, None))

    def test_bad_input_is_one_line(self):
        for change, says in (
                (lambda p: p["transfers"][0].update(bandwidth=0), "'sram' to 'dram': its bandwidth is not a number from 1e-100 to 1e100"),
                (lambda p: p["transfers"][0].update(to="l2"), "transfers[0].to: no pool has the id 'l2'"),
                (lambda p: p["transfers"][0].update(speed=1), "transfers[0]: unknown key 'speed'"),
                (lambda p: p["transfers"][0].pop("bandwidth"), "transfers[0]: no key 'bandwidth'"),
                (lambda p: p["transfers"].append(p["transfers"][0]), "a second one between the same memories"),
                (lambda p: p["steps"].append([7, 1]), "step at 7: not after the one before it"),
                (lambda p: p["steps"].append([7]), "steps[8]: is not a tick and a duration"),
                (lambda p: p["steps"][3].__setitem__(1, -1), "step at 3: its duration is not a number from 0 to 1e100"),
                (lambda p: p["buffers"][0]["uses"][1].update(at=8), "buffer 'x': is used outside of its lifetime"),
                (lambda p: p["buffers"][0]["uses"][1].update(bytes=-1), "touches are not a number from 0 to 1e100"),
                (lambda p: p["buffers"][0]["uses"][1].update(pool="l2"), "buffers[0].uses[1].pool: no pool"),
                (lambda p: p["buffers"][0].update(pools=["sram"], uses=[{"at": 0, "pool": "dram"}]),
                 "buffer 'x': a use is in a memory in which it may not live"),
                (lambda p: p["buffers"][0]["uses"][1].update(written=True), "unknown key 'written'"),
                (lambda p: p.update(conflicts=[]), "moves need lifetimes"),
                (lambda p: p.update(pools=None, transfers=[]), "moves without memories")):
            with self.subTest(says):
                self.expect_wrong(says, "plan", self.changed(change))
        problem = self.file("p.json", PROBLEM)
        self.expect_wrong("--out", "plan", problem, "--out", os.path.join(self.folder.name, "plan.csv"))
        self.expect_wrong("--keep", "plan", problem, "--keep", problem)


if __name__ == "__main__":
    unittest.main()
