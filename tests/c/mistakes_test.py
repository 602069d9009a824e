#!/usr/bin/env python3
"""Mistakes of a C program stand in the memory report with their place. usage: mistakes_test.py PROGRAM"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


class Mistakes(unittest.TestCase):
    def run_with(self, words, *arguments):
        """(what ended it, the line that it printed, its report or None, that of the alarm or None, standard error)"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "memory.json")
            done = subprocess.run([PROGRAM, *arguments], env={**os.environ, "BERTH_DEBUG": f"{words},report={path}"},
                                  capture_output=True, text=True, timeout=60)
            reports = []
            for name in ("memory.json", "memory.alarm.json"):
                one = os.path.join(folder, name)
                reports.append(None)
                if os.path.exists(one):
                    with open(one) as f:
                        reports[-1] = json.load(f)
            return done.returncode, done.stdout.strip(), *reports, done.stderr

    def expect(self, memory, mistake, kind, words="guards,leaks,warn"):
        ended, line, report, _, said = self.run_with(words, memory, mistake)
        self.assertEqual(ended, 0, said)
        found = [m for m in report["mistakes"] if m["kind"] == kind]
        self.assertEqual(len(found), 1, report)
        text = found[0]["text"] + f" ({found[0]['file']}:{found[0]['line']})"
        self.assertIn(f"mistakes.c:{line}", text)

    def test_of_pools(self):
        for mistake, kind in (("double", "double free"), ("foreign", "no block"), ("inside", "no block"), ("behind", "overrun behind"),
                              ("before", "overrun before"), ("other", "no block"), ("after", "write after free")):
            with self.subTest(mistake):
                self.expect("pool", mistake, kind)

    def test_blocks_without_a_guard_are_a_status(self):
        ended, _, report, _, said = self.run_with("guards,sample=1/1000000000", "status", "")
        self.assertEqual((ended, said, report["mistakes"]), (0, "", []))
        ended, _, report, _, said = self.run_with("guards,warn", "status", "")
        self.assertEqual((ended, len(report["mistakes"])), (0, 3), said)

    def test_of_other_allocators(self):
        for mistake, kind in (("double", "double free"), ("late", "double free"), ("foreign", "no block"), ("inside", "no block")):
            with self.subTest(mistake):
                self.expect("foreign", mistake, kind)

    def test_leaks_have_a_place(self):
        for memory in ("pool", "foreign"):
            ended, line, report, _, said = self.run_with("leaks", memory, "leak")
            self.assertEqual(ended, 0)
            self.assertIn(f"mistakes.c:{line}", said)
            places = [h["place"] for pool in report["pools"] for h in pool["alive"]]
            self.assertTrue(any(p.endswith(f"mistakes.c:{line}") for p in places), places)

    def test_a_mistake_stops_the_program_without_warn(self):
        for memory in ("pool", "foreign"):
            ended, line, report, _, said = self.run_with("guards", memory, "double")
            self.assertEqual(ended, -6, said)
            self.assertIn(f"mistakes.c:{line}", said)
            self.assertEqual([m["kind"] for m in report["mistakes"]], ["double free"])

    def test_an_alarm_writes_the_report_of_its_moment(self):
        for memory, device in (("pool", "host"), ("foreign", "other allocators")):
            ended, _, report, alarm, said = self.run_with("live=10,warn", memory, "many")
            self.assertEqual(ended, 0, said)
            self.assertIn("alarm: 10 blocks", said)
            alive = {p["device"]: p["live_blocks"] for p in alarm["pools"]}
            self.assertEqual(alive[device], 10)
            self.assertEqual({p["device"]: p["live_blocks"] for p in report["pools"]}[device], 12)

    def test_an_address_that_comes_again_is_no_mistake(self):
        ended, _, report, alarm, said = self.run_with("guards,leaks", "foreign", "again")
        self.assertEqual((ended, said, report["mistakes"], alarm), (0, "", [], None))


if __name__ == "__main__":
    unittest.main()
