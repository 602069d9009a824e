#!/usr/bin/env python3
"""Logs of other engines' allocators through report, replay and view. usage: engine_log_test.py BERTH"""
import gzip
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)
MIB = 1 << 20
USER = {"filename": "/home/me/train.py", "line": 42, "name": "step"}
INNER = {"filename": "/usr/lib/python3/dist-packages/torch/nn/functional.py", "line": 7, "name": "linear"}


def event(action, addr, size, t, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1700000000000000 + t,
            "frames": [INNER, USER], **more}


def oom_of(size):
    return {"action": "oom", "size": size, "stream": 0, "time_us": 1700000000000100, "frames": [], "device_free": 0}


def fragmented(device_free=0):
    """Sixteen blocks of 20 MiB in segments of their own; every other one is freed; then 40 MiB are asked for, and none of
    the holes is large enough: what users report as out of memory at half use."""
    base, trace = 0x7F0000000000, []
    for i in range(16):
        at = base + i * 64 * MIB
        trace += [event("segment_alloc", at, 20 * MIB, 2 * i), event("alloc", at, 20 * MIB, 2 * i + 1)]
    for i in range(0, 16, 2):
        at = base + i * 64 * MIB
        trace += [event("free_requested", at, 20 * MIB, 100 + i), event("free_completed", at, 20 * MIB, 100 + i)]
    oom = event("oom", 0, 40 * MIB, 200)
    del oom["addr"]
    trace.append({**oom, "device_free": device_free})
    segments = [{"device": 0, "address": base + i * 64 * MIB, "total_size": 20 * MIB, "stream": 0, "segment_type": "large",
                 "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                 "blocks": [{"address": base + i * 64 * MIB, "size": 20 * MIB, "requested_size": 20 * MIB,
                             "state": "active_allocated" if i % 2 else "inactive", "frames": [INNER, USER]}]}
                for i in range(16)]
    return {"segments": segments, "device_traces": [trace, []], "allocator_settings": {"expandable_segments": False},
            "external_annotations": []}


class EngineLogs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, content, name="f"):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as f:
            f.write(content)
        return path

    def run_berth(self, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)

    def answer(self, verb, content, status, *more):
        got = self.run_berth(verb, self.file(content), "--json", *more)
        self.assertEqual((got.returncode, got.stderr), (status, ""), got.stdout)
        return json.loads(got.stdout)

    def refused(self, content):
        for verb, *more in (("report",), ("replay",), ("view", "-o", os.path.join(self.folder.name, "p.html"))):
            got = self.run_berth(verb, self.file(content), *more)
            self.assertEqual((got.returncode, got.stdout), (2, ""), got.stderr)
            self.assertEqual(got.stderr.count("\n"), 1)
        return got.stderr

    def test_would_another_allocator_have_survived(self):
        for protocol in (2, 3, 4, 5):
            got = self.answer("report", pickle.dumps(fragmented(), protocol), 1)
            self.assertEqual((got["kind"], got["engine"], got["ok"]), ("engine", "PyTorch", False))
            self.assertEqual((got["peak_live_bytes"], got["engine_reserved_bytes"]), (320 * MIB, 320 * MIB))
            self.assertEqual(got["failed"]["size"], 40 * MIB)
            self.assertEqual(got["failed"]["at"], 24)
            self.assertEqual(got["failed"]["live_bytes"], 160 * MIB)
            self.assertEqual(got["failed"]["available_bytes"], 320 * MIB)
            self.assertEqual(got["failed"]["place"], "/home/me/train.py:42")
            self.assertTrue(got["failed"]["pool_survives"])
            self.assertLessEqual(got["failed"]["pool_needs_bytes"], 320 * MIB)
            self.assertEqual(got["at_peak"][0]["what"], "/home/me/train.py:42")
        text = self.run_berth("report", self.file(gzip.compress(pickle.dumps(fragmented())))).stdout
        self.assertIn("it would have survived", text)
        self.assertIn("PyTorch failed a request of 40 MiB", text)

    def test_what_no_allocator_survives(self):
        full = fragmented()
        full["device_traces"][0][-1]["size"] = 161 * MIB
        got = self.answer("report", pickle.dumps(full), 1)
        self.assertFalse(got["failed"]["pool_survives"])
        self.assertGreaterEqual(got["failed"]["pool_needs_bytes"], 321 * MIB)
        full["device_traces"][0][-1]["device_free"] = 16 * MIB
        self.assertTrue(self.answer("report", pickle.dumps(full), 1)["failed"]["pool_survives"])
        full["device_traces"][0][-1]["size"] = 2**63
        got = self.answer("report", pickle.dumps(full), 1)["failed"]
        self.assertEqual((got["pool_needs_bytes"], got["pool_survives"]), (None, False))
        fine = fragmented()
        del fine["device_traces"][0][-1]
        got = self.answer("report", pickle.dumps(fine), 0)
        self.assertIsNone(got["failed"])

    # Sixteen blocks of 20 MiB, all freed, fourteen of their segments given back and taken by another program. A pool of
    # the rest may serve the later requests, whatever was alive at the start.
    def test_what_was_given_back_before_is_not_needed(self):
        base, trace = 0x7F0000000000, []
        for action in ("segment_alloc", "alloc", "free_completed"):
            trace += [event(action, base + i * 64 * MIB, 20 * MIB, len(trace) + i) for i in range(16)]
        trace += [event("segment_free", base + i * 64 * MIB, 20 * MIB, 60) for i in range(2, 16)]
        segments = [{"device": 0, "address": base + i * 64 * MIB, "total_size": 20 * MIB, "stream": 0, "blocks": []}
                    for i in range(2)]

        def report(size, events=48):
            oom = oom_of(size)
            kept = [e for e in trace if e["action"] != "free_completed" or e["addr"] < base + (events - 32) * 64 * MIB]
            content = pickle.dumps({"segments": segments, "device_traces": [kept + [oom]]})
            return self.answer("report", content, 1)["failed"], self.run_berth("report", self.file(content)).stdout

        got, text = report(30 * MIB)
        self.assertEqual((got["available_bytes"], got["live_bytes"], got["at"]), (40 * MIB, 0, 32))
        self.assertTrue(got["pool_survives"], got)
        self.assertEqual(got["since"], 30)  # the free at 29 leaves two blocks
        self.assertTrue(30 * MIB <= got["pool_needs_bytes"] <= 40 * MIB, got)
        self.assertIn("since event 30, before which more was alive than there was now: it would have survived", text)
        got, text = report(41 * MIB)
        self.assertFalse(got["pool_survives"])
        self.assertIn("it would have failed too", text)
        self.assertEqual(report(20 * MIB, 47)[0]["pool_survives"], True)  # one block is alive
        self.assertEqual(report(20 * MIB + 1, 47)[0]["pool_survives"], False)
        self.assertEqual(report(1, 45)[0]["pool_survives"], False)  # more than there is was alive to the last

    # One replay under what there was, instead of a limit that comes near it.
    def test_the_verdict_is_that_of_a_replay(self):
        random.seed(0)
        base, live, events, rows = 0x7F0000000000, {}, [], ["ev,id,size,stream,thread,t_us"]
        for i in range(30):
            if live and random.random() < 0.35:
                at = random.choice(list(live))
                size = live.pop(at)
                events.append(event("free_completed", at, size, i))
            else:
                at, size = base + i * 64 * MIB, random.randrange(3 * MIB, 9 * MIB)
                live[at] = size
                events.append(event("alloc", at, size, i))
            rows.append(f"{'a' if at in live else 'f'},{at},{size},0,0,0")
        size = random.randrange(10 * MIB, 20 * MIB)
        oom = oom_of(size)
        log = self.file("\n".join(rows + [f"a,1,{size},0,0,0"]).encode(), "log.csv")
        least = sum(live.values()) + size

        def report(available):
            segments = [{"device": 0, "address": base, "total_size": available, "stream": 0, "blocks": []}]
            content = pickle.dumps({"segments": segments, "device_traces": [events + [oom]]})
            return self.answer("report", content, 1)["failed"]

        served = set()
        for available in [least - 1, *(least + i * 4096 for i in range(0, 10))]:
            replayed = self.run_berth("replay", log, "--capacity", str(available)).returncode == 0
            got = report(available)
            self.assertEqual(got["pool_survives"], replayed, got)
            self.assertEqual(got["pool_needs_bytes"] <= available, replayed, got)
            served.add(replayed)
        self.assertEqual(served, {False, True})

    def test_settings_are_tried_without_a_failure_too(self):
        content = fragmented()
        content["device_traces"][0].pop()
        path = self.file(pickle.dumps(content))
        for engine, expected in (("pytorch", True), ("rmm", True), (None, False)):
            said = self.run_berth("report", path, "--json", *(("--engine", engine) if engine else ())).stdout
            self.assertEqual(bool(json.loads(said).get("settings")), expected, engine)

    def test_replay_and_view(self):
        content = pickle.dumps(fragmented())
        got = self.answer("replay", content, 0)
        self.assertEqual((got["allocs"], got["peak_live_bytes"]), (16, 320 * MIB))
        self.assertGreater(self.answer("replay", content, 0, "--policy", "pytorch-like")["peak_reserved_bytes"], 0)
        page = os.path.join(self.folder.name, "p.html")
        self.assertEqual(self.answer("view", content, 0, "-o", page)["buffers"], 16)
        with open(page) as f:
            text = f.read()
        self.assertIn("PyTorch, device 0", text)
        failed = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["failed"]
        self.assertEqual((failed["at"], failed["size"], failed["hole"][1]), (24, 40 * MIB, 20 * MIB))
        if shutil.which("node"):
            harness = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_test.js")
            ran = subprocess.run(["node", harness, page, "failed"], capture_output=True, text=True, timeout=60)
            self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("/home/me/train.py:42", text)
        metrics = self.run_berth("report", self.file(content), "--metrics").stdout
        self.assertIn("berth_allocation_size_bytes_count 16\n", metrics)
        self.assertIn(f'berth_memory_unusable_bytes{{at="failed"}} {160 * MIB}\n', metrics)
        self.assertNotIn('berth_memory_unusable_bytes{at="peak"} 1', metrics)

    def test_written_for_memory_viz(self):
        out = os.path.join(self.folder.name, "out.pickle")
        self.assertEqual(self.answer("view", pickle.dumps(fragmented()), 0, "-o", out), {"pickle": out})
        with open(out, "rb") as f:
            data = pickle.load(f)  # which would run what a pickle says: ours says nothing
        self.assertEqual([e["action"] for e in data["device_traces"][0]].count("alloc"), 16)
        self.assertEqual(sum(b["size"] for s in data["segments"] for b in s["blocks"]),
                         sum(s["total_size"] for s in data["segments"]))
        self.assertEqual(sum(b["size"] for s in data["segments"] for b in s["blocks"] if b["state"] == "active_allocated"),
                         160 * MIB)
        self.assertEqual(data["device_traces"][0][0]["frames"][0]["filename"], "/home/me/train.py")
        got = self.run_berth("view", self.file(b"ev,id,size,stream,thread,t_us\n"), "-o", out)
        self.assertEqual(got.returncode, 2)
        self.assertIn("a pickle is made of", got.stderr)

    def test_rmm(self):
        rows = ["Thread,Time,Action,Pointer,Size,Stream"]
        rows += [f"9,10:00:00.{i:06},allocate,0x{0x30a000000 + i * MIB:x},{MIB},0x2" for i in range(4)]
        rows += [f"9,10:00:01.{i:06},free,0x{0x30a000000 + i * MIB:x},{MIB},0x2" for i in range(4)]
        content = ("\n".join(rows) + "\n").encode()
        got = self.answer("report", content, 0)
        self.assertEqual((got["engine"], got["peak_live_bytes"], got["failed"]), ("RMM", 4 * MIB, None))
        self.assertIsNone(got["engine_reserved_bytes"])
        self.assertEqual(self.answer("replay", content, 0)["allocs"], 4)
        failed = self.answer("report", content + b"9,10:00:02.0,allocate failure,(nil),8388608,0x2\n", 1)["failed"]
        self.assertEqual((failed["size"], failed["live_bytes"], failed["available_bytes"]), (8 * MIB, 0, None))
        self.assertIsNone(failed["pool_survives"])
        self.assertIn(":2: Time is no time", self.refused(rows[0].encode() + b"\n1,2,3\n1,x,free,0x1,1,0\n".replace(b"1,2,3\n", b"")))

    def test_xla(self):
        text = """buffer_assignment {
          logical_buffers { id: 1 size: 1048576 } logical_buffers { id: 2 size: 2097152 } logical_buffers { id: 3 size: 1048576 }
          buffer_allocations { index: 0 size: 3145728 }
          heap_simulator_traces {
            events { kind: ALLOC buffer_id: 1 instruction_name: "dot.1" } events { kind: ALLOC buffer_id: 2 instruction_name: "add.2" }
            events { kind: FREE buffer_id: 1 } events { kind: ALLOC buffer_id: 3 instruction_name: "mul.3" }
            events { kind: FREE buffer_id: 2 } events { kind: FREE buffer_id: 3 } } }""".encode()
        got = self.answer("report", text, 0)
        self.assertEqual((got["engine"], got["peak_live_bytes"], got["engine_reserved_bytes"]), ("XLA", 3 * MIB, 3 * MIB))
        self.assertEqual(self.answer("replay", text, 0)["allocs"], 3)
        plan = self.answer("plan", text, 0)
        self.assertEqual((plan["arena_bytes"], [b["id"] for b in plan["buffers"]]), (3 * MIB, ["dot.1", "add.2", "mul.3"]))
        self.assertEqual(self.run_berth("view", self.file(text), "-o", os.path.join(self.folder.name, "x.html")).returncode, 0)
        events = b"".join(b"\x0a\x04\x08%c\x10%c" % e for e in ((0, 1), (0, 2), (1, 1), (1, 2)))
        message = b"\x0a\x05\x08\x01\x10\x80\x08" + b"\x0a\x05\x08\x02\x10\x80\x10" + b"\x22" + bytes([len(events)]) + events
        self.assertEqual(self.answer("report", message, 0)["peak_live_bytes"], 3072)
        self.assertEqual(self.answer("plan", message, 0)["arena_bytes"], 3072)
        self.assertIn("byte 16", self.refused(message[:-1]))
        self.assertIn(":2: not a number", self.refused(b"buffer_assignment {\n logical_buffers { id: x } }\n"))
        self.assertIn("no heap_simulator_traces", self.refused(b"logical_buffers { id: 1 }\n"))

    def test_nothing_is_executed(self):
        marker = os.path.join(self.folder.name, "executed")

        class Hostile:
            def __reduce__(self):
                return (open, (marker, "w"))

        for protocol in (2, 3, 4, 5):
            self.assertIn("would run code", self.refused(pickle.dumps({"segments": [Hostile()]}, protocol)))
        self.assertFalse(os.path.exists(marker))
        self.refused(pickle.dumps(fragmented())[:-100])
        self.refused(b"\x80")
        self.assertIn("no snapshot", self.refused(pickle.dumps({"a": 1})))
        loop = []
        loop.append(loop)
        self.refused(pickle.dumps({"segments": loop, "device_traces": loop}))


if __name__ == "__main__":
    unittest.main()
