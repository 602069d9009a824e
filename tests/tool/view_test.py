#!/usr/bin/env python3
"""`berth view` of plans, logs and snapshots, as a page and as a trace for Perfetto. usage: view_test.py BERTH"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from report_test import LOG_HEAD, PLAN, SNAPSHOT, BERTH


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


class View(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def file(self, content, name="f"):
        with open(self.path(name), "w") as f:
            f.write(json.dumps(content) if isinstance(content, dict) else content)
        return self.path(name)

    def run_berth(self, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)

    def view(self, content, out="page.html"):
        got = self.run_berth("view", self.file(content), "-o", self.path(out), "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        with open(self.path(out)) as f:
            text = f.read()
        return answer, text

    def test_plan(self):
        answer, page = self.view(PLAN)
        self.assertEqual((answer["page"], answer["buffers"]), (self.path("page.html"), 2))
        d = data_of(page)
        self.assertEqual(d["buffers"], [[0, 0, 60, 0, 4, 0], [1, 60, 40, 2, 6, 0]])
        self.assertEqual((d["names"], d["lower_bound"], d["title"], d["when_us"]), (["x", "y"], 95, "f", []))

    def test_plan_writes_the_same_page(self):
        problem = self.file("id,lower,upper,size\nx,0,2,8\ny,1,3,8\n", "p.csv")
        page, plan = self.path("plan.html"), self.path("plan.json")
        for out in (page, plan):
            self.assertEqual(self.run_berth("plan", problem, "--out", out).returncode, 0)
        self.assertEqual(self.run_berth("view", plan, "-o", self.path("v.html")).returncode, 0)
        with open(page) as one, open(self.path("v.html")) as other:
            one, other = data_of(one.read()), data_of(other.read())
        self.assertEqual(one.pop("title"), "p.csv")
        self.assertEqual(other.pop("title"), "plan.json")
        self.assertEqual(one, other)

    def test_log_is_placed_by_the_pool(self):
        rows = ["a,1,1000,0,0,0", "a,2,5000,0,0,7", "f,1,,0,0,9.5", "a,3,1000,0,0,9", "f,77,,0,0,10", "f,2,,0,0,12"]
        _, page = self.view(LOG_HEAD + "\n".join(rows) + "\n")
        d = data_of(page)
        self.assertEqual(d["names"], ["id 1, stream 0", "id 2, stream 0", "id 3, stream 0"])
        self.assertEqual([b[2:5] for b in d["buffers"]], [[1000, 0, 2], [5000, 1, 5], [1000, 3, 6]])
        one, two, three = (b[1] for b in d["buffers"])
        self.assertEqual(one, three)  # from the cache
        self.assertTrue(two >= one + 1000 or one >= two + 5000)
        self.assertEqual(d["when_us"], [0, 7, 9.5, 9.5, 10, 12, 12])  # time never falls
        self.assertEqual((d["lower_bound"], d["lower_bound_name"]), (6000, "peak live"))
        _, nothing = self.view(LOG_HEAD)
        self.assertEqual(data_of(nothing)["buffers"], [])

    def test_problems_and_plans_in_csv_are_shown(self):
        _, page = self.view("id,lower,upper,size\nx,0,2,8\ny,1,3,8\n")
        self.assertEqual(sorted(b[1] for b in data_of(page)["buffers"]), [0, 8])
        _, page = self.view("id,lower,upper,size,offset,slab\nx,0,2,8,0,0\ny,1,3,8,0,1\n")
        self.assertEqual((data_of(page)["memories"], data_of(page)["lower_bound"]), (["slab 0", "slab 1"], 16))

    # Beyond 2^53 a number of JavaScript no longer tells ticks apart: the page looped.
    def test_ticks_far_from_zero_stay_exact(self):
        for base in (2**53 + 1, 2**62 + 3, -2**62 - 1):
            far = {**PLAN, "buffers": [{**b, "lower": b["lower"] + base, "upper": b["upper"] + base} for b in PLAN["buffers"]]}
            _, page = self.view(far)
            d = data_of(page)
            self.assertEqual((d["tick_base"], [b[3:5] for b in d["buffers"]]), (str(base), [[0, 4], [2, 6]]))
        self.assertEqual(data_of(self.view(PLAN)[1])["tick_base"], "0")
        node = shutil.which("node")
        if node is None:
            self.skipTest("no node to run the page's script")
        for name in ("steps", "byte_steps"):
            script = re.search(rf"function {name}\(.*?\n}}", page, re.S)[0]
            calls = "".join(f"{name}({a}, {b}, 10).length;" for a, b in ((2**60, 2**60 + 300), (2**53, 2**53 + 1), (0, 1e300), (5, 5)))
            subprocess.run([node, "-e", script + calls], check=True, timeout=20)

    def test_snapshot_has_places_and_addresses(self):
        _, page = self.view(SNAPSHOT)
        d = data_of(page)
        self.assertEqual([d["names"][b[0]] for b in d["buffers"]], ["a.cpp:7", "b.cpp:9", "b.cpp:9"])
        self.assertEqual([b[1:5] for b in d["buffers"]], [[0, 100, 0, 2], [100, 50, 1, 5], [0, 60, 3, 4]])
        self.assertEqual(d["addresses"], [[0, "4096"], [100, "8192"]])

    # Pointers, touch and keys, search, the list of who is alive, exports, an empty log: on stand-ins for a browser.
    def test_the_page_answers(self):
        if shutil.which("node") is None:
            self.skipTest("no node to run the page's script")
        harness = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_test.js")
        odd = {**PLAN, "buffers": [{**PLAN["buffers"][0], "id": "<script>\x01"}, PLAN["buffers"][1]]}
        late = {**PLAN, "arena_bytes": 1, "lower_bound": 1, "buffers": [
            {"id": "x\uffff", "offset": 0, "size": 1, "lower": 5, "upper": 9}]}
        for content, case in ((PLAN, "plan"), (LOG_HEAD, "empty"), (odd, "names"), (late, "one_byte")):
            self.view(content)
            got = subprocess.run(["node", harness, self.path("page.html"), case], capture_output=True, text=True, timeout=60)
            self.assertEqual(got.returncode, 0, case + got.stderr)

    def test_two_plans_side_by_side(self):
        after = {**PLAN, "arena_bytes": 124, "buffers": [{"id": "y", "offset": 0, "size": 50, "lower": 2, "upper": 6},
                                                         {"id": "z", "offset": 50, "size": 8, "lower": 2, "upper": 6},
                                                         {"id": "x", "offset": 64, "size": 60, "lower": 0, "upper": 2}]}
        old, new, page = self.file(PLAN, "old.json"), self.file(after, "f"), self.path("page.html")
        got = self.run_berth("view", new, "--beside", old, "-o", page, "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertEqual(json.loads(got.stdout), {"page": page, "buffers": 3, "buffers_before": 2})
        with open(page) as f:
            d = data_of(f.read())
        self.assertEqual(d["buffers"], [[0, 0, 50, 2, 6, 0], [1, 50, 8, 2, 6, 0], [2, 64, 60, 0, 2, 0],
                                        [2, 0, 60, 0, 4, 0], [0, 60, 40, 2, 6, 0]])
        self.assertEqual(d["names"], ["y", "z", "x"])
        self.assertEqual(d["before"], {"from": 3, "title": "old.json", "lower_bound": 95, "left_out_curve": []})
        if shutil.which("node") is not None:
            harness = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_test.js")
            ran = subprocess.run(["node", harness, page, "beside"], capture_output=True, text=True, timeout=60)
            self.assertEqual(ran.returncode, 0, ran.stderr)
        log = self.file(LOG_HEAD, "log")
        for args, says in (((new, "--beside", log, "-o", page), "neither a plan"), ((log, "--beside", old, "-o", page), "is no plan"),
                           ((new, "--beside", old, "-o", self.path("t.json")), "in a page"),
                           ((new, "--beside", "/no/such", "-o", page), "cannot open"),
                           ((new, "--beside", "", "-o", page), "--beside: is empty"),
                           ((new, "--beside", old, "-o", old), "is what was read")):
            got = self.run_berth("view", *args)
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
            self.assertIn(says, got.stderr)

    # The differences were those of all memories, and a row of another one brought an empty place into view.
    def test_two_plans_of_several_memories(self):
        if shutil.which("node") is None:
            self.skipTest("no node to run the page's script")
        head, page = "id,lower,upper,size,offset,slab\n", self.path("page.html")
        old = self.file(head + "x,0,2,8,0,0\nw,0,2,4,8,0\ny,1,3,8,0,1\n", "old.csv")
        new = self.file(head + "x,0,2,8,0,0\nw,0,2,4,16,1\ny,1,3,16,0,1\n", "new.csv")
        got = self.run_berth("view", new, "--beside", old, "-o", page)
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        harness = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_test.js")
        ran = subprocess.run(["node", harness, page, "memories"], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    # The page said a peak of 2^64 - 6272.
    def test_what_was_lost_does_not_wrap_the_peak(self):
        rows = [["a", 64, 1, 0, 0, 0, 0], ["f", 64, 6272, 0, 0, 0, 0], ["a", 64, 5, 0, 0, 0, 0]]
        self.assertEqual(data_of(self.view({**SNAPSHOT, "dropped": 1, "events": rows})[1])["lower_bound"], 5)

    def test_chrome_trace(self):
        answer, text = self.view(SNAPSHOT, "trace.json")
        self.assertEqual(answer["trace"], self.path("trace.json"))
        events = json.loads(text)["traceEvents"]
        slices = [e for e in events if e["ph"] == "X"]
        self.assertEqual([(e["name"], e["ts"], e["dur"], e["args"]["bytes"]) for e in slices],
                         [("a.cpp:7", 0.5, 0.5, 100), ("b.cpp:9", 0.5, 3.5, 50), ("b.cpp:9", 2, 1, 60)])
        for a in slices:  # no two slices of one track overlap
            for b in slices:
                self.assertTrue(a is b or a["tid"] != b["tid"] or a["ts"] + a["dur"] <= b["ts"] or b["ts"] + b["dur"] <= a["ts"])
        self.assertEqual([e["args"]["bytes"] for e in events if e["ph"] == "C"], [100, 150, 50, 110, 50, 0])

    # Both lasted 0 us, at one time.
    def test_chrome_trace_of_large_ticks(self):
        base = 2**60 + 5
        far = {**PLAN, "buffers": [{**b, "lower": b["lower"] + base, "upper": b["upper"] + base} for b in PLAN["buffers"]]}
        trace = json.loads(self.view(far, "trace.json")[1])
        self.assertEqual(trace["otherData"], {"tick_base": str(base)})
        self.assertEqual([(e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"], [(0, 4), (2, 4)])
        self.assertEqual([e["ts"] for e in trace["traceEvents"] if e["ph"] == "C"], [0, 2, 4, 6])
        self.assertNotIn("otherData", json.loads(self.view(PLAN, "trace.json")[1]))

    # As root, a page took the place of a device.
    def test_what_is_no_regular_file_is_written_straight_into(self):
        os.mkfifo(self.path("pipe"))
        reader = os.open(self.path("pipe"), os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        got = self.run_berth("view", self.file(PLAN), "-o", self.path("pipe"))
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertTrue(os.read(reader, 100).startswith(b"<!doctype html>"))

    def test_wrong_calls(self):
        for args, says in ((("view", self.file(PLAN)), "--out"),
                           (("view", self.file(PLAN), "-o", self.path("p.txt")), "ends neither in .html nor in .json"),
                           (("view", self.file("x", "x"), "-o", self.path("p.html")), "neither CSV"),
                           (("view", self.file(PLAN, "g"), "-o", "/no/such/p.html"), "cannot write"),
                           (("view", "/no/such", "-o", self.path("p.html")), "cannot open")):
            got = self.run_berth(*args)
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
            self.assertIn(says, got.stderr)
        self.assertFalse(os.path.exists(self.path("p.html")))


if __name__ == "__main__":
    unittest.main()
