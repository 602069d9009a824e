#!/usr/bin/env python3
"""`berth plan --diff` as a gate, `berth report --since` of two snapshots, `berth who` in one. usage: diff_test.py BERTH"""
import json
import os
import random
import subprocess
import tempfile
import unittest

from report_test import SNAPSHOT, BERTH


HEAD = "id,lower,upper,size\n"


class Diff(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as f:
            f.write(json.dumps(content) if isinstance(content, dict) else content)
        return path

    def run_berth(self, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)

    def plan(self, name, rows):
        problem = self.file(name + ".csv", HEAD + "".join(f"{i},{lo},{up},{size}\n" for i, lo, up, size in rows))
        out = os.path.join(self.folder.name, name + ".json")
        self.assertEqual(self.run_berth("plan", problem, "--out", out).returncode, 0)
        return problem, out

    def diff(self, problem, old, status, *more):
        got = self.run_berth("plan", problem, "--diff", old, "--json", *more)
        self.assertEqual((got.returncode, got.stderr), (status, ""), got.stdout)
        text = self.run_berth("plan", problem, "--diff", old, *more)
        self.assertEqual((text.returncode, text.stderr), (status, ""))
        return json.loads(got.stdout)["diff"], text.stdout

    def test_growth_is_a_no_and_names_the_buffers(self):
        _, old = self.plan("old", [("x", 0, 4, 1024), ("y", 2, 6, 1024), ("gone", 2, 3, 256)])
        new, _ = self.plan("new", [("x", 0, 4, 1024), ("y", 2, 6, 4096), ("z", 3, 5, 512)])
        d, text = self.diff(new, old, 1)
        self.assertEqual((d["ok"], d["arena_before"], d["peak_before"], d["peak"]), (False, 2304, 2304, 5632))
        self.assertEqual(d["at_peaks"], [{"id": "y", "before": 1024, "after": 4096}, {"id": "z", "before": 0, "after": 512},
                                         {"id": "gone", "before": 256, "after": 0}])
        self.assertIn("+3.25 KiB, more than the 0 B allowed", text)
        self.assertIn("+3 KiB  y: 4 KiB in 1, before 1 KiB in 1", text)
        self.diff(new, old, 1, "--growth", "3327")
        for enough in ("3328", "3.25KiB", "145%"):
            self.assertIn("as allowed", self.diff(new, old, 0, "--growth", enough)[1])
        self.assertTrue(self.diff(self.plan("less", [("x", 0, 4, 100)])[0], old, 0)[0]["ok"])
        same, text = self.diff(self.plan("same", [("x", 0, 4, 1024), ("y", 2, 6, 1024), ("gone", 2, 3, 256)])[0], old, 0)
        self.assertEqual(same["at_peaks"], [])
        self.assertIn("the same buffers", text)

    # CSV has sizes as they are, and no arena: it counts as the problem of the new plan rounds.
    def test_a_former_plan_in_csv_is_rounded_alike(self):
        buffers = [{"id": i, "size": 1, "lower": 0, "upper": 2} for i in "xy"]
        slabs = {"size_granularity": 64, "max_slab": 64}
        for rules in ({"size_granularity": 64}, {"size_granularity": 64, "tail_pad": 32}, slabs):
            problem = self.file("p.json", {"format": "berth-problem/1", **rules, "buffers": buffers})
            for old in ("old.csv", "old.json"):
                old = os.path.join(self.folder.name, old)
                self.assertEqual(self.run_berth("plan", problem, "--out", old).returncode, 0)
                d, text = self.diff(problem, old, 0)
                self.assertEqual(d["arena_before"], 192 if "tail_pad" in rules else 128)
                self.assertIn("+0 B, as allowed", text)
        # Removed buffers count too, and grown ones are still more.
        old = self.file("o.csv", "# of release 1\n\nid,lower,upper,size,offset\nx,0,2,1,64\ny,0,2,1,0\n")
        less = self.file("less.json", {"format": "berth-problem/1", "size_granularity": 64, "buffers": buffers[1:]})
        self.assertEqual(self.diff(less, old, 0)[0]["arena_before"], 128)
        grown = [buffers[0], {**buffers[1], "size": 65}]
        more = self.file("more.json", {"format": "berth-problem/1", "size_granularity": 64, "buffers": grown})
        self.assertIn("+64 B, more than the 0 B allowed", self.diff(more, old, 1)[1])
        rows = "".join(f"{i},0,2,1,0,{i}\n" for i in range(3))
        slabs = self.file("slabs.csv", "id,lower,upper,size,offset,slab\n" + rows)
        vast = self.file("vast.json", {"format": "berth-problem/1", "size_granularity": 2**62, "tail_pad": 2**62,
                                       "buffers": [{**buffers[0], "size": 0}]})
        got = self.run_berth("plan", vast, "--diff", slabs)
        self.assertEqual((got.returncode, got.stdout), (2, ""))
        self.assertIn("slabs.csv: its sizes exceed 64 bits", got.stderr)

    # A reversed lifetime is no fault if conflicts replace lifetimes.
    def test_a_lifetime_that_conflicts_replace(self):
        problem = self.file("p.json", {"format": "berth-problem/1", "conflicts": [["x", "y"]], "buffers": [
            {"id": "x", "size": 8, "lower": 5, "upper": 2}, {"id": "y", "size": 8, "lower": 0, "upper": 2}]})
        for old in ("old.csv", "old.json"):
            old = os.path.join(self.folder.name, old)
            self.assertEqual(self.run_berth("plan", problem, "--out", old).returncode, 0)
            self.assertEqual(self.diff(problem, old, 0)[0]["arena_before"], 16)
            self.assertEqual(json.loads(self.run_berth("report", old, "--json").stdout)["peak"]["bytes"], 8)
        self.assertEqual(json.loads(self.run_berth("report", problem, "--json").stdout)["peak"]["bytes"], 8)
        for old, empty, reversed_life, says in (("old.json", '"upper":5', '"upper":2', "ends before it begins"),
                                                ("old.csv", "x,5,5,", "x,5,2,", "lifetime is empty or reversed")):
            with open(os.path.join(self.folder.name, old)) as f:
                written = f.read()
            self.assertIn(empty, written)
            old = self.file(old, written.replace(empty, reversed_life))
            for call in (("plan", problem, "--diff", old), ("report", old)):
                got = self.run_berth(*call)
                self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
                self.assertIn(says, got.stderr)

    # The buffers' growths add up to that of the peak, for any change.
    def test_the_growths_add_up(self):
        random.seed(5)
        for _ in range(20):
            def rows():
                out = []
                for i in random.sample(range(30), random.randrange(1, 25)):
                    lower = random.randrange(20)
                    out.append((f"b{i}", lower, lower + random.randrange(1, 9), random.randrange(1, 5000)))
                return out
            before, after = rows(), rows()
            peak = lambda all: max(sum(s for _, lo, up, s in all if lo <= t < up) for t in range(30))
            d, _ = self.diff(self.plan("b", after)[0], self.plan("a", before)[1], 0, "--growth", "1GiB")
            self.assertEqual((d["peak_before"], d["peak"]), (peak(before), peak(after)))
            self.assertEqual(sum(c["after"] - c["before"] for c in d["at_peaks"]), d["peak"] - d["peak_before"])

    # A gate that a "no" resets lets everything through from the second call on.
    def test_the_former_plan_is_not_written_over(self):
        _, old = self.plan("old", [("x", 0, 4, 1024)])
        new, _ = self.plan("new", [("x", 0, 4, 4096)])
        link = os.path.join(self.folder.name, "link.json")
        os.symlink(old, link)
        with open(old) as f:
            before = f.read()
        for out in (old, link):
            for more in ((), ("--keep", old)):
                got = self.run_berth("plan", new, "--diff", old, "--out", out, *more)
                self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
                self.assertIn("is what was read", got.stderr)
        with open(old) as f:
            self.assertEqual(f.read(), before)
        self.assertEqual(self.run_berth("plan", new, "--keep", old, "--out", old).returncode, 0)

    def test_standard_input_is_not_written_over(self):
        problem, _ = self.plan("p", [("x", 0, 4, 1024)])
        with open(problem) as f:
            got = subprocess.run([BERTH, "plan", "-", "--out", problem], stdin=f, capture_output=True, text=True, timeout=60)
        self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
        self.assertIn("is what was read", got.stderr)

    def test_an_error_is_a_line_that_can_be_read(self):
        problem, _ = self.plan("p", [("x", 0, 4, 1024)])
        got = self.run_berth("plan", problem, "--out", "\u00e9" * 30_000)
        self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1))
        self.assertLess(len(got.stderr), 5000)
        self.assertTrue(got.stderr.startswith("berth: --out: '") and got.stderr.endswith("nor in .html\n"), got.stderr[-200:])

    def test_an_arena_beyond_63_bits(self):
        problem, _ = self.plan("p", [("x", 0, 4, 1024)])
        for arena, says in ((2**63, "-8 EiB"), (2**64 - 1, "-16 EiB")):
            old = self.file("huge.json", {"format": "berth-plan/1", "arena_bytes": arena, "lower_bound": 0,
                                          "optimal": False, "solver": "x", "buffers": []})
            self.assertIn(says + ", as allowed", self.diff(problem, old, 0)[1])

    def test_wrong_calls(self):
        problem, old = self.plan("p", [("x", 0, 4, 1024)])
        for args, says in (((problem, "--growth", "5%"), "--diff"), ((problem, "--diff", problem), "is no plan"),
                           ((problem, "--diff", old, "--growth", "5 %"), "neither a number of bytes"),
                           ((problem, "--diff", old, "--growth", "-1"), "neither a number of bytes"),
                           ((problem, "--diff", "/no/such"), "cannot open"),
                           ((problem, "--diff", self.file("cut.json", '{"arena_bytes": 5,'),), "cut.json")):
            got = self.run_berth("plan", *args)
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
            self.assertIn(says, got.stderr)

    def test_snapshots_say_which_places_hold_more(self):
        events = SNAPSHOT["events"]
        then = self.file("then.json", {**SNAPSHOT, "ended": False, "events": events[:2]})
        more = events[:4] + [["a", 65536, 1000, 1, 0, 5, 2]]
        now = self.file("now.json", {**SNAPSHOT, "ended": False, "events": more})
        got = self.run_berth("report", now, "--since", then, "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertEqual(json.loads(got.stdout)["since"],
                         [{"place": "b.cpp:9", "before": {"blocks": 1, "bytes": 50}, "after": {"blocks": 3, "bytes": 1110}},
                          {"place": "a.cpp:7", "before": {"blocks": 1, "bytes": 100}, "after": {"blocks": 0, "bytes": 0}}])
        text = self.run_berth("report", now, "--since", then).stdout
        self.assertIn("+1.035 KiB  b.cpp:9: 1.084 KiB in 3, before 50 B in 1", text)
        self.assertIn("-100 B  a.cpp:7", text)
        self.assertIn("snapshot: the same", self.run_berth("report", now, "--since", now).stdout)
        self.assertNotIn("since", json.loads(self.run_berth("report", now, "--json").stdout))
        log = self.file("log.csv", "ev,id,size,stream,thread,t_us\n")
        for args, says in (((log, "--since", now), "FILE is no snapshot"), ((now, "--since", log), "is no snapshot (--since)"),
                           ((now, "--since", ""), "--since: is empty")):
            got = self.run_berth("report", *args)
            self.assertEqual((got.returncode, got.stdout), (2, ""))
            self.assertIn(says, got.stderr)

    def test_who_has_an_address(self):
        events = SNAPSHOT["events"][:4] + [["f", 4096, 60, 1, 1, 3, 1], ["a", 4100, 8, 2, 3, 4, 2]]
        path = self.file("s.json", {**SNAPSHOT, "ended": False, "events": events})

        def who(address, status):
            got = self.run_berth("who", path, address, "--json")
            self.assertEqual((got.returncode, got.stderr), (status, ""))
            text = self.run_berth("who", path, address)
            self.assertEqual((text.returncode, text.stderr), (status, ""))
            return json.loads(got.stdout), text.stdout

        # Two blocks held 4104 and one does: the answer is the live one.
        d, text = who("4104", 0)
        self.assertEqual((d["state"], d["block"]["address"], d["block"]["place"], d["block"]["thread"]), ("alive", 4100, "b.cpp:9", 3))
        self.assertEqual((d["below"], d["above"]["address"]), (None, 8192))
        self.assertIn("0x1008: byte 4 of the block of 8 B at 0x1004, asked for at b.cpp:9", text)
        # The answer among freed blocks is the last one, which was smaller than the one before.
        d, text = who("0x1010", 1)
        self.assertEqual((d["state"], d["block"]["size"], d["block"]["freed_us"], d["block"]["freed_place"]), ("freed", 60, 3, "a.cpp:7"))
        self.assertIn("freed  at a.cpp:7 by thread 1, 3.000 us", text)
        self.assertIn("below  4 bytes behind the end of the block of 8 B", text)
        d, text = who("8242", 1)  # one behind the last byte
        self.assertEqual((d["state"], d["block"], d["below"]["address"], d["above"]), ("unknown", None, 8192, None))
        self.assertIn("in no block", text)
        self.assertEqual(who("8241", 0)[0]["block"]["size"], 50)
        self.assertEqual(who("0xffffffffffffffff", 1)[0]["state"], "unknown")
        self.assertEqual(who("0", 1)[0]["above"]["address"], 4100)
        cut = json.dumps({**SNAPSHOT, "events": events})[:-40]
        for args, says in (((path, "12q"), "no address"), ((path, "0x"), "no address"), ((path, "0x10000000000000000"), "no address"),
                           ((self.file("cut.json", cut), "1"), "cut.json"), ((self.file("p.csv", HEAD + "x,0,1,2\n"), "1"), "is no snapshot")):
            got = self.run_berth("who", *args)
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
            self.assertIn(says, got.stderr)


if __name__ == "__main__":
    unittest.main()
