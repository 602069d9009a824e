#!/usr/bin/env python3
"""`berth run` on a model written here: one Relu over [n, 8]. usage: run_test.py BERTH"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, value):
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def relu(width=8):
    shape = field(1, field(2, "n")) + field(1, field(1, width))
    floats = field(2, field(1, field(1, 1) + field(2, shape)))
    node = field(1, "x") + field(2, "y") + field(3, "relu") + field(4, "Relu")
    graph = field(1, node) + field(2, "g") + field(11, field(1, "x") + floats) + field(12, field(1, "y") + floats)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = os.path.join(self.folder.name, "relu.onnx")
        with open(self.model, "wb") as f:
            f.write(relu())

    def run_berth(self, *args):
        return subprocess.run([BERTH, "run", self.model, *args], capture_output=True, text=True, timeout=60)

    def test_a_dimension_is_bound(self):
        got = self.run_berth("--dim", "n=4", "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        self.assertEqual((answer["outputs"][0]["shape"], answer["arena_bytes"], answer["leaks"]), ([4, 8], 128, 0))

    def test_what_is_too_large_says_how_much_and_what_for(self):
        with open(self.model, "wb") as f:
            f.write(relu(1000))
        for dim, says in [("1000000000", "input 'x' of shape 1000000000x1000 takes 4000000000000 bytes, this machine has"),
                          ("1000000000000", "input 'x': a dimension exceeds 2^30: 1000000000000")]:
            got = self.run_berth("--dim", "n=" + dim)
            self.assertEqual((got.returncode, got.stderr.count("\n"), got.stdout), (2, 1, ""), got.stderr)
            self.assertIn(says, got.stderr)


if __name__ == "__main__":
    unittest.main()
