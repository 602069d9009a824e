#!/usr/bin/env python3
"""Runs `berth plan --reorder` as a script would. usage: reorder_test.py BERTH"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)


class Reorder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_tool(self, *words):
        return subprocess.run([BERTH, *words], capture_output=True, text=True)

    def test_builtin_model(self):
        before = json.loads(self.run_tool("plan", "builtin:resnet50", "--json").stdout)
        done = self.run_tool("plan", "builtin:resnet50", "--reorder", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertTrue(answer["verified"])
        self.assertEqual(answer["arena_before"], before["arena_bytes"])
        self.assertLessEqual(answer["arena_bytes"], answer["arena_before"])
        self.assertLessEqual(answer["lower_bound"], answer["arena_bytes"])
        self.assertEqual(answer["optimal"], answer["lower_bound"] == answer["arena_bytes"])
        self.assertEqual(sorted(answer["steps"]), list(range(answer["nodes"])))
        self.assertEqual(answer["arena_bytes"], max(b["offset"] + b["size"] for b in answer["buffers"]))

    def test_page_and_file(self):
        page = os.path.join(self.folder.name, "p.html")
        self.assertEqual(self.run_tool("plan", "builtin:transformer", "--reorder", "--quiet", "--out", page).returncode, 0)
        with open(page) as f:
            text = f.read()
        self.assertIn("given order", text)
        self.assertIn("found order", text)
        out = os.path.join(self.folder.name, "p.json")
        self.assertEqual(self.run_tool("plan", "builtin:transformer", "--reorder", "--quiet", "--out", out).returncode, 0)
        with open(out) as f:
            self.assertEqual(json.load(f)["format"], "berth-order/1")

    def test_run_gives_the_same(self):
        plain = json.loads(self.run_tool("run", "builtin:mobilenet", "--json").stdout)
        other = self.run_tool("run", "builtin:mobilenet", "--reorder", "--json")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertEqual(json.loads(other.stdout)["outputs"], plain["outputs"])

    def test_recompute(self):
        plain = json.loads(self.run_tool("plan", "builtin:resnet50", "--reorder", "--json").stdout)
        kept = self.run_tool("plan", "builtin:resnet50", "--reorder", "--budget", str(plain["arena_bytes"]), "--recompute",
                             "--json")
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(json.loads(kept.stdout)["runs_again"], 0)
        never = self.run_tool("plan", "builtin:resnet50", "--reorder", "--budget", "1KiB", "--recompute", "--json")
        self.assertEqual(never.returncode, 1)
        answer = json.loads(never.stdout)
        self.assertFalse(answer["within_budget"])
        self.assertGreater(answer["lower_bound"], 1024)
        self.assertTrue(answer["bound_held_by"])
        self.assertEqual(self.run_tool("plan", "builtin:resnet50", "--reorder", "--budget", "1KiB").returncode, 1)

    def test_wrong_calls(self):
        problem = os.path.join(self.folder.name, "p.csv")
        with open(problem, "w") as f:
            f.write("id,lower,upper,size\na,0,1,8\n")
        for words in (["plan", problem, "--reorder"],
                      ["plan", "builtin:mobilenet", "--reorder", "--out", "x.csv"],
                      ["plan", "builtin:mobilenet", "--reorder", "--capacity", "1MiB"],
                      ["plan", "builtin:mobilenet", "--recompute"],
                      ["plan", "builtin:none", "--reorder"]):
            done = self.run_tool(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
