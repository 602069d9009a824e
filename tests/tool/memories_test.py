#!/usr/bin/env python3
"""Plans over the memories of a target: `berth memories`, `berth plan --memories`. usage: memories_test.py BERTH MODEL.tflite"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

from greedy import greedy_costs
from protobuf import field

TFLITE = sys.argv.pop()
BERTH = sys.argv.pop(1)


def chain(sizes, weights):
    """An ONNX file: concatenations of x with a weight each, then their halves. Operators by name and declared shapes."""
    def floats(n):
        return field(2, field(1, field(1, 1) + field(2, field(1, field(1, n)))))

    def node(ins, out):
        return field(1, b"".join(field(1, i) for i in ins) + field(2, out) + field(4, "Frob"))

    graph, before = field(2, "g"), "x"
    for k, (size, weight) in enumerate(zip(sizes, weights)):
        graph += node([before, f"w{k}"], f"v{k}") + field(13, field(1, f"v{k}") + floats(size))
        graph += field(5, field(1, weight) + field(2, 1) + field(8, f"w{k}") + field(9, bytes(4 * weight)))
        before = f"v{k}"
    graph += field(11, field(1, "x") + floats(64)) + field(12, field(1, before) + floats(sizes[-1]))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


class Memories(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def file(self, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def text(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def run_berth(self, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)

    def plan(self, *args):
        got = self.run_berth("plan", *args, "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""), args)
        return json.loads(got.stdout)

    def expect_wrong(self, says, *args):
        got = self.run_berth("plan", *args)
        self.assertEqual((got.returncode, got.stdout), (2, ""), (args, got.stderr))
        self.assertEqual(got.stderr.count("\n"), 1, got.stderr)
        self.assertIn(says, got.stderr)

    def same_plan(self, one, other):
        keys = ("buffers", "moves", "pools", "access_time", "stall_time", "slowest_time", "cost_bound", "arena_bytes")
        self.assertEqual([one[k] for k in keys], [other[k] for k in keys])

    def model(self, name="m.onnx", sizes=(64, 5000, 3000, 900, 64), weights=(400, 2000, 4000, 100, 10)):
        return self.file(name, chain(sizes, weights))

    def test_the_table_lists_every_target_and_marks_what_is_assumed(self):
        targets = json.loads(self.run_berth("memories", "--json").stdout)["targets"]
        self.assertGreaterEqual(len(targets), 12)
        table = self.run_berth("memories").stdout
        for target in targets:
            self.assertIn("\n" + target["name"] + " ", "\n" + table)
            for memory in target["memories"]:
                for key in ("size_bytes", "alignment", "bandwidth_gb_s", "latency_ns"):
                    figure = memory[key]
                    if figure is None:  # of a memory that copies do not reach
                        self.assertEqual((key, memory["holds"]), ("latency_ns", "nothing"))
                        continue
                    self.assertEqual(figure["assumed"], figure["document"] is None)
                    if figure["document"]:
                        self.assertIn(figure["document"], table)
        self.assertIn("32 MiB (assumed)", table.split("sdram")[1].split("\n")[0])

    def test_models_are_planned_over_the_memories_of_a_target(self):
        for model in (self.model(), TFLITE):
            for target in ("stm32h743", "ethos_u85", "ascend_910b"):
                got = self.plan(model, "--memories", target)
                self.assertLessEqual(got["cost_bound"], got["access_time"] + got["stall_time"])
                self.assertLessEqual(got["access_time"] + got["stall_time"], got["unmoved_time"])
                self.assertLessEqual(got["unmoved_time"], got["slowest_time"])
                self.assertTrue(got["verified"])
        table = self.run_berth("plan", self.model(), "--memories", "stm32h743").stdout
        for says in ("axi_sram", "of 128 KiB", "alive at once", "all in the slowest memories", "are at least"):
            self.assertIn(says, table)

    def test_uses_are_the_bytes_that_nodes_touch(self):
        memory = ("--memory", "all=1MiB,cost=2")
        got = self.plan(self.model(), *memory)
        values, weights = (64, 64, 5000, 3000, 900, 64), (400, 2000, 4000, 100, 10)
        touched = sum(4 * n for n in values[:-1]) + sum(4 * n for n in values[1:]) + sum(4 * n for n in weights)
        self.assertEqual((got["access_time"], got["slowest_time"], got["cost_bound"]), (2 * touched,) * 3)
        csv = self.file("p.csv", "id,lower,upper,size\nx,0,3,10\ny,1,2,4\n")  # y lives for one tick
        self.assertEqual(self.plan(csv, *memory)["access_time"], 2 * (10 + 10 + 4))

    def test_weights_come_by_copies(self):
        # The last node's weight is copied while the second node runs.
        slow = ("--memory", "fast=40000,bandwidth=10", "--memory", "flash=1MiB,cost=1,bandwidth=2,holds=weights")
        got = self.plan(self.model(sizes=(64, 5000, 64), weights=(1, 1, 1000)), *slow)
        self.assertIn(("w2", "flash", "fast"), [(m["id"], m["from"], m["to"]) for m in got["moves"]])
        self.assertLess(got["stall_time"], 10)  # the second node takes longer than the copy, and no memory is full
        self.assertLess(got["access_time"], got["unmoved_time"])
        still = self.plan(self.model(sizes=(64, 5000, 64), weights=(1, 1, 1000)), *slow, "--no-copies")
        self.assertEqual((still["moves"], still["access_time"]), ([], got["unmoved_time"]))

    def test_the_problem_that_is_written_has_the_same_plan(self):
        problem = self.path("p.json")
        for model, options in ((self.model(), ("--memories", "rp2350")), (TFLITE, ("--memories", "esp32s3")),
                               (self.model(), ("--memories", "ethos_u65", "--no-copies")),
                               (self.model(), ("--memories", "ascend_310p", "--rules", "ascend_310p"))):
            got = self.plan(model, *options, "--problem", problem)
            self.same_plan(got, self.plan(problem))
            plan = self.file("plan.json", json.dumps(got))
            self.assertEqual(self.run_berth("verify", problem, plan).returncode, 0)
        plain = self.plan(self.model(), "--problem", problem)  # of one memory too
        self.assertEqual(self.plan(problem)["buffers"], plain["buffers"])

    def test_a_plan_without_copies_is_written_as_any_other(self):
        model = self.model()
        for name in ("a.json", "a.csv", "a.h", "a.html"):
            got = self.run_berth("plan", model, "--memories", "ethos_u85", "--no-copies", "--out", self.path(name))
            self.assertEqual((got.returncode, got.stderr), (0, ""), name)
            self.assertIn("v1" if name != "a.h" else "V1_POOL", self.text(name))
        for name in ("b.csv", "b.h"):
            self.expect_wrong("--no-copies", model, "--memories", "ethos_u85", "--out", self.path(name))
            self.assertFalse(os.path.exists(self.path(name)))

    def test_what_fits_no_memory_is_named(self):
        for options in ((), ("--json",)):
            got = self.run_berth("plan", self.model(), "--memory", "a=16KiB,cost=1", "--memory", "b=19999,cost=2", *options)
            self.assertEqual((got.returncode, got.stderr), (1, ""))
            self.assertIn("buffer 'v1' takes 20000 B, and the largest memory that it may use, 'b', has 19999 B", got.stdout)

    def test_never_above_the_best_of_three_greedy_assignments(self):
        rng = random.Random(7)
        for _ in range(6):
            sizes = [rng.randrange(16, 4000) for _ in range(8)]
            model = self.model(sizes=sizes, weights=[1] * 8)
            capacity = 4 * rng.randrange(500, 5000)
            got = self.plan(model, "--memory", f"fast={capacity},cost=1", "--memory", "slow=1MiB,cost=7", "--no-copies",
                            "--problem", self.path("p.json"))
            self.assertLessEqual(got["access_time"], min(greedy_costs(json.loads(self.text("p.json"))).values()) * (1 + 1e-12))

    def test_bad_input_is_one_line(self):
        model = self.model()
        for says, args in (("stm32h743", ("--memories", "pdp11")),
                           ("size: is 0", ("--memory", "a=0,cost=1")),
                           ("up to 2^62", ("--memory", "a=16EiB,cost=1")),
                           ("up to 2^62", ("--memory", "a=many,cost=1")),
                           ("expected NAME=BYTES", ("--memory", "=4,cost=1")),
                           ("expected NAME=BYTES", ("--memory", "a,cost=1")),
                           ("unknown key 'speed'", ("--memory", "a=4KiB,speed=1")),
                           ("'cost' is there twice", ("--memory", "a=4KiB,cost=1,cost=2")),
                           ("'-1' is not a number from 0", ("--memory", "a=4KiB,cost=-1")),
                           ("'nan' is not a number", ("--memory", "a=4KiB,cost=nan")),
                           ("'0' is not a number above 0", ("--memory", "a=4KiB,bandwidth=0")),
                           ("align: is 0", ("--memory", "a=4KiB,cost=1,align=0")),
                           ("'tiles' is not everything or weights", ("--memory", "a=4KiB,cost=1,holds=tiles")),
                           ("neither a cost nor a bandwidth", ("--memory", "a=4KiB")),
                           ("two memories are called 'sram'", ("--memories", "rp2350", "--memory", "sram=4KiB,cost=1")),
                           ("anything but weights", ("--memory", "a=4KiB,cost=1,holds=weights")),
                           ("--no-copies: with", ("--no-copies",)),
                           ("the problem has pools", ("--memories", "rp2350", "--capacity", "4KiB")),
                           ("--reorder: with", ("--memories", "rp2350", "--reorder")),
                           ("--keep: not for", ("--memories", "rp2350", "--keep", model)),
                           ("--problem: is standard output", ("--problem", "-")),
                           ("is what was read", ("--problem", model))):
            with self.subTest(says):
                self.expect_wrong(says, model, *args)
        pools = self.file("pools.json", '{"format":"berth-problem/1","pools":[{"id":"a"}],"buffers":[]}')
        self.expect_wrong("pools of its own", pools, "--memories", "rp2350")
        self.expect_wrong("a folder", self.folder.name, "--memories", "rp2350")


if __name__ == "__main__":
    unittest.main()
