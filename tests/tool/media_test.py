#!/usr/bin/env python3
"""Runs `berth plan media`. usage: media_test.py BERTH"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)


class Media(unittest.TestCase):
    def run_berth(self, *args):
        return subprocess.run([BERTH, "plan", "media", *args], capture_output=True, text=True, timeout=60)

    def test_a_jpeg_in_one_block(self):
        done = self.run_berth("--scenario", "jpeg", "--width", "1920", "--height", "1080", "--file", "400000", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answer = json.loads(done.stdout)
        self.assertTrue(answer["optimal"] and answer["verified"])
        self.assertEqual(answer["arena_bytes"], answer["lower_bound"])
        sizes = {b["id"]: b["size"] for b in answer["buffers"]}
        self.assertEqual(sizes, {"file": 400000, "decoded": 3133440, "resized": 75264, "input": 602112, "output": 4000})
        self.assertLess(answer["waste_bytes"], 256)
        self.assertLess(answer["block_in_pages_bytes"], answer["one_each_in_pages_bytes"])

    def test_a_stream_is_a_ring(self):
        done = self.run_berth("--scenario", "vdec", "--width", "1920", "--height", "1080", "--references", "3", "--shown",
                              "1", "--chip", "A2", "--json")
        answer = json.loads(done.stdout)
        starts = {b["offset"] for b in answer["buffers"] if b["id"].startswith("frame")}
        self.assertEqual(len([b for b in answer["buffers"] if b["id"].startswith("frame")]), 15)
        self.assertGreaterEqual(len(starts), 5)  # references + shown + 1
        self.assertEqual(answer["arena_bytes"], answer["lower_bound"])

    def test_packets_have_a_size_of_their_own(self):
        args = ("--scenario", "vdec", "--width", "1920", "--height", "1080", "--json")
        whole = json.loads(self.run_berth(*args).stdout)
        small = json.loads(self.run_berth(*args, "--packet", "100KiB").stdout)
        self.assertEqual({b["size"] for b in small["buffers"] if b["id"].startswith("packet")}, {102400})
        self.assertEqual(whole["arena_bytes"] - small["arena_bytes"], 2 * (3110528 - 102528))
        self.assertTrue(small["optimal"] and small["verified"])

    def test_the_plan_is_written(self):
        args = ("--scenario", "jpeg", "--width", "640", "--height", "480", "--chip", "950")
        answer = json.loads(self.run_berth(*args, "--json").stdout)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("p.json", "p.csv", "p.h", "p.html"):
                out = os.path.join(folder, name)
                done = self.run_berth(*args, "--out", out)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                self.assertIn("written to", done.stdout)
                with open(out) as f:
                    text = f.read()
                if name == "p.json":
                    plan = json.loads(text)
                    self.assertEqual((plan["format"], plan["verified"]), ("berth-plan/1", True))
                    self.assertEqual(plan["arena_bytes"], answer["arena_bytes"])
                    self.assertEqual({b["id"]: b["offset"] for b in plan["buffers"]},
                                     {b["id"]: b["offset"] for b in answer["buffers"]})
                self.assertIn({"p.json": "decoded", "p.csv": "decoded", "p.h": "P_DECODED_OFFSET", "p.html": "decoded"}[name], text)
            header = os.path.join(folder, "named.h")
            self.assertEqual(self.run_berth(*args, "--out", header, "--prefix", "camera").returncode, 0)
            with open(header) as f:
                self.assertIn("CAMERA_DECODED_OFFSET", f.read())
            self.assertEqual(json.loads(self.run_berth(*args, "--out", "-").stdout)["format"], "berth-plan/1")

    def test_what_cannot_be_is_one_line(self):
        for args in (("--scenario", "jpeg"), ("--scenario", "png", "--width", "9", "--height", "9"),
                     ("--scenario", "jpeg", "--width", "20", "--height", "1080"),
                     ("--scenario", "vdec", "--width", "99999", "--height", "1080"),
                     ("--scenario", "jpeg", "--width", "-1", "--height", "1080"),
                     ("--scenario", "jpeg", "--width", "0", "--height", "1080"),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--references", ""),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--packets", ""),
                     ("--scenario", "jpeg", "--width", "640", "--height", "480", "--references", "2"),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--file", "1KiB"),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--packet", "1MiB"),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--packet", "0"),
                     ("--scenario", "jpeg", "--width", "640", "--height", "480", "--packet", "1KiB"),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--chip", "950"),
                     ("--scenario", "jpeg", "--width", "640", "--height", "480", "--out", "plan.txt"),
                     ("--scenario", "jpeg", "--width", "640", "--height", "480", "--out", "/no/such/folder/p.json"),
                     ("--scenario", "jpeg", "--width", "640", "--height", "480", "--out", "-", "--json"),
                     ("--scenario", "jpeg", "--width", "640", "--height", "480", "--prefix", "x")):
            done = self.run_berth(*args)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), args)

    def test_for_people(self):
        done = self.run_berth("--scenario", "jpeg", "--width", "640", "--height", "480")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no smaller one is possible", done.stdout)


if __name__ == "__main__":
    unittest.main()
