#!/usr/bin/env python3
"""Runs `berth plan media`. usage: media_test.py BERTH"""
import json
import subprocess
import sys
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

    def test_what_cannot_be_is_one_line(self):
        for args in (("--scenario", "jpeg"), ("--scenario", "png", "--width", "9", "--height", "9"),
                     ("--scenario", "jpeg", "--width", "20", "--height", "1080"),
                     ("--scenario", "vdec", "--width", "99999", "--height", "1080"),
                     ("--scenario", "jpeg", "--width", "-1", "--height", "1080"),
                     ("--scenario", "jpeg", "--width", "0", "--height", "1080"),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--references", ""),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--packets", ""),
                     ("--scenario", "jpeg", "--width", "640", "--height", "480", "--references", "2"),
                     ("--scenario", "vdec", "--width", "640", "--height", "480", "--file", "1KiB")):
            done = self.run_berth(*args)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), args)

    def test_for_people(self):
        done = self.run_berth("--scenario", "jpeg", "--width", "640", "--height", "480")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no smaller one is possible", done.stdout)


if __name__ == "__main__":
    unittest.main()
