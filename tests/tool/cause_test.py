#!/usr/bin/env python3
"""The first line of `berth report` names the cause of logs and snapshots whose cause is known. usage: cause_test.py BERTH"""
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)
MIB = 1 << 20
BASE = 0x7F0000000000


class Engine:
    """Writes what PyTorch would: blocks in segments, at places of a program."""

    def __init__(self):
        self.trace, self.segments, self.next, self.time = [], {}, BASE, 0

    def event(self, action, addr, size, place):
        self.time += 1
        frames = [{"filename": "/home/me/" + place.split(":")[0], "line": int(place.split(":")[1]), "name": "f"}] if place else []
        self.trace.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1700000000000000 + self.time,
                           "frames": frames})

    def segment(self, size, pool=(0, 0)):
        at, self.next = self.next, self.next + size + 64 * MIB
        self.segments[at] = (size, pool)
        self.event("segment_alloc", at, size, "")
        return at

    def drop(self, at):
        self.event("segment_free", at, self.segments.pop(at)[0], "")

    def allocate(self, size, place, at=None):
        at = self.segment(size) if at is None else at
        self.event("alloc", at, size, place)
        return at

    def free(self, at, size):
        self.event("free_completed", at, size, "")

    def failed(self, size, place="train.py:9", device_free=0):
        self.event("oom", 0, size, place)
        self.trace[-1]["device_free"] = device_free
        segments = [{"device": 0, "address": at, "total_size": size, "stream": 0, "segment_pool_id": pool, "is_expandable": False,
                     "blocks": []} for at, (size, pool) in self.segments.items()]
        return pickle.dumps({"segments": segments, "device_traces": [self.trace]})


def fragmentation():
    """Segments of 40 MiB that were split in halves, of which one is alive."""
    e = Engine()
    segments = [e.allocate(40 * MIB, "train.py:4") for _ in range(8)]
    for at in segments:
        e.free(at, 40 * MIB)
    for at in segments:
        for part in (0, 20 * MIB):
            e.allocate(20 * MIB, "train.py:5", at + part)
    for at in segments:
        e.free(at, 20 * MIB)
    return e.failed(40 * MIB)


def cached_segments():
    e = Engine()
    for i in range(10):
        at = e.allocate((20 + i) * MIB, "train.py:5")
        e.free(at, (20 + i) * MIB)
    e.allocate(200 * MIB, "train.py:6")
    return e.failed(60 * MIB)


def private_pool():
    e = Engine()
    e.segment(300 * MIB, (0, 1))
    for i in range(8):
        e.allocate(20 * MIB, "train.py:5")
    return e.failed(60 * MIB)


def huge():
    e = Engine()
    for i in range(8):
        e.allocate(20 * MIB, "train.py:5")
    return e.failed(4096 * MIB, "attention.py:88", 512 * MIB)


def others():
    e = Engine()
    blocks = [e.allocate(20 * MIB, "train.py:5") for _ in range(20)]
    for at in blocks[2:]:
        e.free(at, 20 * MIB)
        e.drop(at)
    return e.failed(50 * MIB)


def growth():
    e = Engine()
    e.allocate(100 * MIB, "model.py:1")
    last = None
    for i in range(1, 30):
        at = e.allocate(i * 4 * MIB, "cache.py:3")
        if last:
            e.free(last, (i - 1) * 4 * MIB)
            e.drop(last)
        last = at
    return e.failed(120 * MIB, "cache.py:3", 112 * MIB)


def steps(kept):
    """Ten steps of five places; `kept` of them stay alive after each step."""
    e = Engine()
    e.allocate(50 * MIB, "model.py:1")
    for _ in range(10):
        blocks = [e.allocate((4 + i) * MIB, f"net.py:{10 + i}") for i in range(5)]
        for i, at in enumerate(blocks):
            if i >= kept:
                e.free(at, (4 + i) * MIB)
                e.drop(at)
    return e.failed(40 * MIB, device_free=(0 if kept == 5 else 30 * MIB))


def warm_up():
    e = Engine()
    blocks = [e.allocate(40 * MIB, "warm.py:2") for _ in range(8)]
    for at in blocks:
        e.free(at, 40 * MIB)
    for at in blocks:
        e.allocate(6 * MIB, "serve.py:3", at)
    for _ in range(20):
        e.allocate(2 * MIB, "serve.py:4", blocks[0] + 8 * MIB)
        e.free(blocks[0] + 8 * MIB, 2 * MIB)
    return e.failed(60 * MIB)


def too_low():
    e = Engine()
    for i in range(40):
        e.allocate(8 * MIB, f"model.py:{i + 1}")
    return e.failed(9 * MIB)


POOL = {"live": 100, "live_peak": 100, "live_rounded": 100, "cached": 0, "free": 0, "reserved": 100, "reserved_peak": 100,
        "largest_hole": 0, "live_blocks": 0, "allocations": 100, "frees": 100, "failures": 1, "cache_hits": 90,
        "device_hits": 1, "stitched": 0, "device_calls": 1, "events": 0, "flushes": 0}


def snapshot(ended=False, events=(), **pool):
    return json.dumps({"format": "berth-snapshot/1", "ended": ended, "forgotten": 0, "dropped": 0, "pool": {**POOL, **pool},
                       "device": None, "allocation": None, "sites": [["a.cpp", 7]], "events": list(events)}).encode()


def random_engine(r):
    """A PyTorch that places blocks at random holes of its segments, and may fail a request."""
    e, holes, live = Engine(), [], []
    for _ in range(r.randrange(60)):
        what = r.random()
        if what < 0.3 or not holes:
            size = r.randrange(1, 9) * 2 * MIB
            holes.append((e.segment(size, r.choice([(0, 0), (0, 0), (0, 1)])), size))
        elif what < 0.75:
            at, room = holes.pop(r.randrange(len(holes)))
            size = r.randrange(1, room + 1)
            live.append((e.allocate(size, f"net.py:{r.randrange(1, 5)}" if r.random() < 0.8 else "", at), size))
            if size < room:
                holes.append((at + size, room - size))
        elif live:
            at, size = live.pop(r.randrange(len(live)))
            e.free(at, size)
            holes.append((at, size))
    snapshot = e.failed(r.choice([MIB, 16 * MIB, 1 << 40]), "train.py:9" if r.random() < 0.7 else "", r.choice([0, 8 * MIB]))
    if r.random() < 0.3:
        snapshot = pickle.loads(snapshot)
        del snapshot["device_traces"][0][-1]
        snapshot = pickle.dumps(snapshot)
    return snapshot


def random_pool(r):
    """Figures of a pool that may hold at once, and figures of an earlier failure."""
    def figures():
        live, rounding, cached, free = (r.choice([0, r.randrange(1000)]) for _ in range(4))
        hole = r.randrange(free + 1)
        reserved = live + rounding + cached + free
        return {**POOL, "live": live, "live_rounded": live + rounding, "cached": cached, "free": free, "reserved": reserved,
                "live_peak": live, "reserved_peak": reserved, "largest_hole": hole, "largest_request": r.randrange(1, 500),
                "unusable": r.randrange(free - hole + 1), "live_blocks": min(live, 3), "failures": r.randrange(2)}
    s = json.loads(snapshot(r.random() < 0.5, [["a", 4096 * (i + 1), r.randrange(1, 99), 1, 0, i, 1] for i in range(r.randrange(4))]))
    s["pool"] = figures()
    if r.random() < 0.5:
        s["failed"] = {"size": r.randrange(1, 900), "pool": figures()}
        s["pool"]["failures"] = 1
        s["pool"]["reserved_peak"] = max(s["pool"]["reserved"], s["failed"]["pool"]["reserved"])
    if r.random() < 0.5:
        s["options"] = {"limit": r.choice([2**64 - 1, 4096]), "initial": 0, "release_threshold": 2**64 - 1, "cache_bytes": 2**64 - 1,
                        "stitch": r.random() < 0.5, "wait_for_streams": False}
    return json.dumps(s).encode()


def random_rows(r, engine):
    rows, alive = [], {}
    for i in range(r.randrange(1, 80)):
        if alive and r.random() < 0.45:
            name, size = alive.popitem() if r.random() < 0.5 else (next(iter(alive)), alive.pop(next(iter(alive))))
            rows.append(f"1,{i}.0,free,0x{name:x},{size},0" if engine else f"f,{name},,0,0,{i}")
        else:
            alive[4096 * (i + 1)] = size = r.choice([0, 1, 100, 4000, r.randrange(8 * MIB)])
            rows.append(f"1,{i}.0,allocate,0x{4096 * (i + 1):x},{size},0" if engine else f"a,{4096 * (i + 1)},{size},{r.randrange(2)},0,{i}")
    if engine and r.random() < 0.5:
        rows.append("1,99.0,allocate failure,(nil),5000000,0")
    head = "Thread,Time,Action,Pointer,Size,Stream" if engine else "ev,id,size,stream,thread,t_us"
    return "\n".join([head, *rows, ""]).encode()


def contradictions(answer, text):
    """Yields what one report says twice, and differently."""
    memory = {k: v for k, v in answer["memory"].items() if v}
    for name, m in memory.items():
        if m["reserved_bytes"] is not None:
            if m["live_bytes"] + (m["rounding_bytes"] or 0) + m["idle_bytes"] != m["reserved_bytes"]:
                yield f"{name}: live, rounding and idle are not what is reserved"
            for part in ("cached_bytes", "unusable_bytes", "largest_hole_bytes"):
                if m[part] is not None and m[part] > m["idle_bytes"]:
                    yield f"{name}: {part} exceeds idle"
        for whole in ("peak_reserved_bytes", "engine_reserved_bytes"):
            if answer.get(whole) is not None and m["reserved_bytes"] is not None and m["reserved_bytes"] > answer[whole]:
                yield f"{name}: more is reserved than {whole}"
        if "peak" in memory and answer["kind"] != "snapshot" and m["live_bytes"] > memory["peak"]["live_bytes"]:
            yield f"{name}: more is alive than at the peak"
        row = next(line.split() for line in text.split("\n") if line.startswith(f"  {name} "))
        if ("-" in row) != (None in m.values()):
            yield f"{name}: the table is not the JSON"
    if "peak" in memory:
        if answer.get("peak_live_bytes", memory["peak"]["live_bytes"]) != memory["peak"]["live_bytes"]:
            yield "two peaks"
        if answer["kind"] in ("trace", "engine") and answer["peak"]["bytes"] != memory["peak"]["live_bytes"]:
            yield "two peaks, one of them by place"
    judged = memory.get("failed") or (memory.get("now") if answer["kind"] == "snapshot" else memory.get("peak"))
    measured = answer["thresholds"][1]["measured"]
    if measured is not None and judged["reserved_bytes"] and abs(measured - judged["unusable_bytes"] / judged["reserved_bytes"]) > 1e-9:
        yield "fragmentation is not unusable / reserved"
    failed = answer.get("failed")
    if failed and (failed["live_bytes"], failed["reserved_bytes"]) != (memory["failed"]["live_bytes"], memory["failed"]["reserved_bytes"]):
        yield "two figures of the failed request"
    if failed and failed["pool_needs_bytes"] != answer["pool_needs_bytes"]:
        yield "two needs of the pool"
    for advice in answer["advice"]:
        if advice["threshold"] == "idle" and answer["kind"] == "trace":
            m = memory["peak"]
            if abs(advice["before"] - m["idle_bytes"] / m["reserved_bytes"]) > 1e-9:
                yield "advice on another idle share"


class Causes(unittest.TestCase):
    def test_no_two_figures_of_a_report_contradict_each_other(self):
        r = random.Random(5)
        makers = (random_engine, random_pool, lambda r: random_rows(r, False), lambda r: random_rows(r, True))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f")
            for i in range(48):
                with open(path, "wb") as f:
                    f.write(makers[i % len(makers)](r))
                text, said = (subprocess.run([BERTH, "report", path, *more], capture_output=True, text=True, timeout=60)
                              for more in ((), ("--json",)))
                self.assertEqual((text.stderr, said.stderr), ("", ""))
                answer = json.loads(said.stdout)
                self.assertEqual(list(contradictions(answer, text.stdout)), [], (i, text.stdout, answer))

    def report(self, content):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f")
            with open(path, "wb") as f:
                f.write(content)
            people = subprocess.run([BERTH, "report", path], capture_output=True, text=True, timeout=60)
            got = subprocess.run([BERTH, "report", path, "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual((people.returncode, got.returncode, people.stderr), (1, 1, ""), people.stdout)
        answer = json.loads(got.stdout)
        self.assertIsNotNone(answer["cause"], people.stdout)
        self.assertTrue(people.stdout.split("\n")[0].endswith("NOT healthy: " + answer["cause"]["text"]), people.stdout)
        return answer

    def test_a_failed_request_has_its_cause(self):
        for make, name, says in ((fragmentation, "fragmentation", "largest hole has 20 MiB"),
                                 (cached_segments, "cached_segments", "245 MiB of them in segments without a live block"),
                                 (private_pool, "sibling_pool", "300 MiB of them in private pools"),
                                 (huge, "huge_request", "4 GiB at /home/me/attention.py:88"),
                                 (others, "other_processes", "held 400 MiB before, and could have 40 MiB"),
                                 (growth, "growing_size", "/home/me/cache.py:3 asked for 4 MiB at first and for 116 MiB at last"),
                                 (lambda: steps(5), "retained_steps", "5 places keep up to 10 blocks each, 300 MiB"),
                                 (lambda: steps(1), "leak", "/home/me/net.py:10 asked for 10 blocks, of which 10 (40 MiB)"),
                                 (warm_up, "warm_up_peak", "320 MiB were alive then"),
                                 (too_low, "limit_too_low", "9 MiB short")):
            with self.subTest(name):
                answer = self.report(make())
                self.assertEqual(answer["cause"]["name"], name, answer["cause"])
                self.assertIn(says, answer["cause"]["text"])
                self.assertTrue(answer["cause"]["advice"])

    def test_advice_for_fragmentation_is_from_a_replay(self):
        answer = self.report(fragmentation())
        advice = "\n".join(answer["cause"]["advice"])
        for says in ("expandable_segments:True: a replay holds at most 320 MiB of the 320 MiB there were, and serves the request; "
                     "with the defaults it fails", "max_split_size_mb:20: a replay holds", "alive beside the idle memory: /home/me/train.py:5 160 MiB"):
            self.assertIn(says, advice)
        self.assertTrue(answer["failed"]["pool_survives"])
        at = answer["memory"]["failed"]
        self.assertEqual((at["idle_bytes"], at["unusable_bytes"], at["largest_hole_bytes"], answer["failed"]["segments"]),
                         (160 * MIB, 160 * MIB, 20 * MIB, 8))
        self.assertEqual(answer["thresholds"][1]["measured"], 0.5)
        self.assertEqual(answer["band"], "danger")

    # With half-used pages of 20 MiB neither setting can return memory.
    def test_no_setting_is_advised_that_fails_in_a_replay(self):
        e = Engine()
        segments = [e.allocate(40 * MIB, "train.py:4") for _ in range(8)]
        for at in segments:
            e.free(at, 40 * MIB)
        for at in segments:
            for part in range(4):
                e.allocate(10 * MIB, "train.py:5", at + part * 10 * MIB)
        for at in segments:
            for part in (0, 2):
                e.free(at + part * 10 * MIB, 10 * MIB)
        advice = "\n".join(self.report(e.failed(40 * MIB))["cause"]["advice"])
        self.assertNotIn("expandable_segments:True: a replay", advice)

    def test_the_engine_of_a_log_can_be_named(self):
        rows = "".join(f"a,{i},{(i + 1) * 3 * MIB},0,0,{i}\nf,{i},,0,0,{i}\n" for i in range(20))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f")
            with open(path, "w") as f:
                f.write("ev,id,size,stream,thread,t_us\n" + rows)
            said = {engine: json.loads(subprocess.run([BERTH, "report", path, "--json", "--engine", engine], capture_output=True,
                                                      text=True, timeout=60).stdout)["settings"] for engine in ("rmm", "onnxruntime", "pytorch")}
        self.assertIn("rmm::mr::pool_memory_resource of 60 MiB", said["rmm"][0])
        self.assertIn("memory.enable_memory_arena_shrinkage", said["onnxruntime"][0])
        self.assertIn("expandable_segments:True: a replay holds at most 60 MiB; with the defaults 594 MiB", "\n".join(said["pytorch"]))

    def test_snapshots_of_a_pool(self):
        event = ["a", 4096, 100, 1, 0, 0.5, 1]
        for content, name, says in ((snapshot(True, [event]), "leak", "100 B in 1 blocks) from a.cpp:7"),
                                    (snapshot(live=40, live_rounded=90, free=10, unusable=5, largest_request=11), "alignment_waste", "40 B are alive in blocks of 90 B"),
                                    (snapshot(live=60, live_rounded=60, cached=40), "cached_sizes", "40 B of 100 B reserved"),
                                    (snapshot(live=60, live_rounded=60, free=40, largest_hole=9, largest_request=10, unusable=40),
                                     "fragmentation", "40 B of them in holes below the largest request (10 B); the largest hole has 9 B"),
                                    (snapshot(live=20, live_rounded=20, free=80), "warm_up_peak", "100 B were alive then, 20 B now"),
                                    (snapshot(live=100, live_rounded=100), "limit_too_low", "all memory is in use: 100 B alive")):
            with self.subTest(name):
                if name != "leak":
                    data = json.loads(content)
                    data["pool"]["live_peak"], data["pool"]["device_hits"] = 100, 50  # not healthy by its hits
                    content = json.dumps(data).encode()
                answer = self.report(content)
                self.assertEqual(answer["cause"]["name"], name, answer["cause"])
                self.assertIn(says, answer["cause"]["text"])


if __name__ == "__main__":
    unittest.main()
