#!/usr/bin/env python3
"""Runs `berth fit` on a problem with dimensions, whose answer is plain. usage: fit_test.py BERTH"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tflite

BERTH = sys.argv.pop(1)

# x is 100 bytes an n, y 50 an m, and they live together: no plan is below n * 100 + m * 50.
PROBLEM = {
    "format": "berth-problem/1",
    "dimensions": [{"name": "n", "least": 1, "most": 1000}, {"name": "m", "least": 1, "most": 10}],
    "buffers": [
        {"id": "x", "size": "100*n", "lower": 0, "upper": 2},
        {"id": "y", "size": "50*m", "lower": 1, "upper": 3},
    ],
}


class Fitting(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = pathlib.Path(place.name) / "p.json"
        self.file.write_text(json.dumps(PROBLEM))

    def fit(self, *args, status=0):
        done = subprocess.run([BERTH, "fit", str(self.file), *args], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_the_largest_value_that_fits(self):
        for memory in (150, 191, 192, 3210, 4096, 99999, 100499, 100608, 10**6):
            right = [n for n in range(1, 1001) if (100 * n + 50 + 63) // 64 * 64 <= memory]
            args = ("--memory", str(memory), "--dim", "n=1:1000", "--dim", "m=1", "--json")
            answer = json.loads(self.fit(*args, status=0 if right else 1).stdout)
            self.assertEqual(answer["value"], max(right, default=None), memory)
            self.assertTrue(answer["proved"])
            self.assertLessEqual(len(answer["tried"]), 12)
            for p in answer["tried"]:
                self.assertEqual(p["activations_bytes"], 100 * p["value"] + 50)
                self.assertEqual(p["fits"], p["total_bytes"] <= memory)
                parts = ("weights", "states", "workspace", "activations", "rounding")
                self.assertEqual(p["total_bytes"], sum(p[part + "_bytes"] for part in parts))

    def test_tables(self):
        self.assertIn("n is at most 39 in 4 KiB", self.fit("--memory", "4KiB", "--dim", "n=1:100", "--dim", "m=2").stdout)
        self.assertIn("the range ends", self.fit("--memory", "4KiB", "--dim", "n=1:3", "--dim", "m=2").stdout)
        self.assertIn("not even n=1", self.fit("--memory", "100", "--dim", "n=1:3", "--dim", "m=2", status=1).stdout)

    def test_a_range_up_to_the_largest_number(self):
        most = 2**63 - 1
        self.file.write_text(json.dumps({"format": "berth-problem/1", "buffers": [
            {"id": "x", "size": 64, "lower": 0, "upper": 1}], "dimensions": [{"name": "n", "least": 1, "most": most}]}))
        answer = json.loads(self.fit("--memory", "4KiB", "--dim", f"n=1:{most}", "--json").stdout)
        self.assertEqual((answer["value"], answer["proved"]), (most, True))

    def test_wrong_calls(self):
        memory = ("--memory", "4KiB")
        for what, dims in (
            ("which dimension", ["n=3"]),
            ("one range only", ["n=1:3", "m=1:2"]),
            ("expected NAME", ["n=0:3"]),
            ("expected NAME", ["n=a:3"]),
            ("expected NAME", ["=1:3"]),
            ("expected NAME", ["n=1:"]),
            ("not a range", ["n=3:1", "m=1"]),
            ("no value for 'm'", ["n=1:3"]),
            ("no dimension is called 'k'", ["n=1:3", "m=1", "k=1"]),
            ("no dimension is called 'k'", ["k=1:3", "m=1", "n=1"]),
            ("has a value already", ["n=1:3", "m=1", "m=2"]),
            ("dimension 'n' is from 1 to 1000, not 2000", ["n=1:2000", "m=1"]),
            ("dimension 'm' is from 1 to 10, not 11", ["n=1:2", "m=11"]),
        ):
            args = [word for dim in dims for word in ("--dim", dim)]
            said = self.fit(*memory, *args, status=2).stderr
            self.assertIn(what, said)
            self.assertEqual(said.count("\n"), 1)
        self.file.write_text("id,lower,upper,size\nx,0,2,10\n")
        self.assertIn("neither a model nor", self.fit(*memory, "--dim", "n=1:3", status=2).stderr)

    def test_a_tflite_model(self):
        file = self.file.with_suffix(".tflite")
        file.write_bytes(tflite.model([("x", [1, 64], [-1, 64]), ("y", [1, 128], [-1, 128])], [0], [1], [([0], [1])]))
        self.file = file
        weights = (len(file.read_bytes()) + 63) // 64 * 64
        answer = json.loads(self.fit("--memory", str(weights + 192 * 7 + 100), "--dim", "open=1:50", "--json").stdout)
        self.assertEqual((answer["value"], answer["proved"]), (7, True))
        self.assertIn("no open dimension is called 'n'", self.fit("--memory", "1", "--dim", "n=1:2", status=2).stderr)
        file.write_text("no model")
        self.assertIn("not a TFLite model", self.fit("--memory", "1", "--dim", "open=1:2", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
