#!/usr/bin/env python3
"""Runs `berth op`. usage: op_test.py BERTH [FOLDER_OF_THE_SIMULATOR]"""
import csv
import io
import json
import os
import subprocess
import sys
import unittest

SIMULATOR = sys.argv.pop(2) if len(sys.argv) > 2 else None
BERTH = sys.argv.pop(1)


def op(*arguments):
    environment = {**os.environ, **({"LD_LIBRARY_PATH": SIMULATOR} if SIMULATOR else {})}
    return subprocess.run([BERTH, "op", *arguments], env=environment, capture_output=True, text=True, timeout=60)


class Op(unittest.TestCase):
    def test_csv_is_a_line_of_names_and_a_line_of_figures(self):
        done = op("add", "--shape", "64x32", "--dtype", "f16", "--warmup", "1", "--runs", "2", "--csv")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(len(rows), 1)
        row = rows[0]
        self.assertEqual((row["operator"], row["device"], row["ok"], row["warmup"], row["runs"]), ("Add", "host", "true", "1", "2"))
        self.assertEqual(row["inputs"], "64x32 f16, 64x32 f16")
        self.assertLessEqual(float(row["largest_difference"]), float(row["tolerance"]))
        self.assertLessEqual(float(row["fastest_us"]), float(row["slowest_us"]))

    def test_a_tolerance_decides(self):
        self.assertEqual(op("exp", "--dtype", "f16", "--tolerance", "0").returncode, 1)
        done = op("exp", "--dtype", "f16", "--tolerance", "0.01", "--json")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["tolerance"], 0.01)

    def test_wrong_options_are_one_line(self):
        for wrong in (("--runs", "0"), ("--warmup", "-1"), ("--tolerance", "-1"), ("--tolerance", "nan"), ("--device", "toaster"),
                      ("--device", "null"), ("--csv", "--json")):
            done = op("add", *wrong)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), (wrong, done.stderr))

    @unittest.skipUnless(SIMULATOR, "without the simulator")
    def test_the_device_computes(self):
        for name in ("add", "softmax", "matmul", "transpose", "rmsnormalization"):
            done = op(name, "--device", "ascend:0", "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            answer = json.loads(done.stdout)
            self.assertEqual(answer["device"], "ascend:0")
            self.assertTrue(answer["kernel"].startswith("aclnn"), answer["kernel"])
        refused = op("resize", "--device", "ascend:0")
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (2, 1), refused.stderr)


if __name__ == "__main__":
    unittest.main()
