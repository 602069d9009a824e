#!/usr/bin/env python3
"""`berth plan MODEL.tflite --out PLANNED.tflite`. usage: micro_test.py BERTH MODEL"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

MODEL = sys.argv.pop()
BERTH = sys.argv.pop()


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def field(data, table, i):
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * i >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * i)[0]
    return table + offset if offset else 0


def follow(data, at):
    return at + u32(data, at)


def tables(data, table, i):
    at = follow(data, field(data, table, i))
    return [follow(data, at + 4 + 4 * k) for k in range(u32(data, at))]


def plan_in(data):
    """The offsets in a model, as TFLM finds them."""
    root = follow(data, 0)
    for entry in tables(data, root, 6):
        name = follow(data, field(data, entry, 0))
        if data[name + 4:name + 4 + u32(data, name)] == b"OfflineMemoryAllocation":
            buffer = tables(data, root, 4)[u32(data, field(data, entry, 1))]
            at = follow(data, field(data, buffer, 0))
            words = struct.unpack_from(f"<{u32(data, at) // 4}i", data, at + 4)
            assert words[2] == len(words) - 3
            return list(words[3:])
    return None


class Micro(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, "planned.tflite")

    def run_berth(self, *args):
        return subprocess.run([BERTH, "plan", *args], capture_output=True, text=True, timeout=60)

    def refused(self, what, *args):
        got = self.run_berth(*args)
        self.assertEqual((got.returncode, got.stdout), (2, ""), got.stderr)
        self.assertIn(what, got.stderr)
        self.assertEqual(got.stderr.count("\n"), 1)
        self.assertFalse(os.path.exists(self.out))

    def test_the_plan_is_in_the_model(self):
        got = self.run_berth(MODEL, "--out", self.out, "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        self.assertTrue(answer["written"])
        self.assertLessEqual(answer["lower_bound"], answer["arena_bytes"])
        self.assertLessEqual(answer["arena_bytes"], answer["own_arena_bytes"])
        with open(self.out, "rb") as f:
            after = f.read()
        with open(MODEL, "rb") as f:
            before = f.read()
        self.assertTrue(after.endswith(before))
        self.assertEqual(plan_in(after), answer["offsets"])
        self.assertEqual(json.loads(self.run_berth(self.out, "--json").stdout)["buffers"],
                         json.loads(self.run_berth(MODEL, "--json").stdout)["buffers"])
        self.assertIn("written to", self.run_berth(self.out, "--out", os.path.join(self.folder.name, "again.tflite")).stdout)

    def test_scratch(self):
        got = json.loads(self.run_berth(MODEL, "--out", self.out, "--json", "--scratch", "0=1KiB", "--scratch", "0=8").stdout)
        self.assertEqual(got["scratch"][:2], [{"operator": 0, "size": 1024}, {"operator": 0, "size": 8}])

    def test_bad_calls(self):
        problem = os.path.join(self.folder.name, "p.csv")
        with open(problem, "w") as f:
            f.write("id,lower,upper,size\nx,0,2,8\n")
        self.refused("not a TFLite model", problem, "--out", self.out)
        self.refused("--scratch", MODEL, "--scratch", "0=8")
        for bad in ("8", "x=8", "0=", "=8", "0=x", "-1=8"):
            self.refused("is not OPERATOR=BYTES", MODEL, "--out", self.out, f"--scratch={bad}")
        self.refused("scratch of operator 99", MODEL, "--out", self.out, "--scratch", "99=8")
        self.refused("--out FILE.tflite: with one FILE", MODEL, "--out", self.out, "--rules", "host")


if __name__ == "__main__":
    unittest.main()
