#!/usr/bin/env python3
"""The first line of `berth report` names the cause of logs and snapshots whose cause is known. usage: cause_test.py BERTH"""
import json
import os
import pickle
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
    e = Engine()
    blocks = []
    for i in range(16):
        at = e.segment(20 * MIB)
        blocks += [(e.allocate(10 * MIB, "train.py:5", at + part), part) for part in (0, 10 * MIB)]
    for at, part in blocks:
        if part == 0:
            e.free(at, 10 * MIB)
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


POOL = {"live": 0, "live_peak": 100, "live_rounded": 0, "cached": 0, "free": 0, "reserved": 100, "reserved_peak": 100,
        "largest_hole": 0, "live_blocks": 0, "allocations": 100, "frees": 100, "failures": 1, "cache_hits": 90,
        "device_hits": 1, "stitched": 0, "device_calls": 1, "events": 0, "flushes": 0}


def snapshot(ended=False, events=(), **pool):
    return json.dumps({"format": "berth-snapshot/1", "ended": ended, "forgotten": 0, "dropped": 0, "pool": {**POOL, **pool},
                       "device": None, "allocation": None, "sites": [["a.cpp", 7]], "events": list(events)}).encode()


class Causes(unittest.TestCase):
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
        for make, name, says in ((fragmentation, "fragmentation", "largest hole has 10 MiB"),
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
        self.assertIn("expandable_segments:True", answer["cause"]["advice"][0])
        self.assertTrue(answer["failed"]["pool_survives"])
        self.assertEqual((answer["failed"]["idle_bytes"], answer["failed"]["largest_hole_bytes"], answer["failed"]["segments"]),
                         (160 * MIB, 10 * MIB, 16))

    def test_the_figures_of_one_failure_agree(self):
        for make in (fragmentation, cached_segments, private_pool, others, growth, warm_up, too_low):
            f = self.report(make())["failed"]
            self.assertEqual(f["idle_bytes"], f["reserved_bytes"] - f["live_bytes"])
            self.assertLessEqual(f["largest_hole_bytes"], f["idle_bytes"])
            self.assertLessEqual(f["idle_in_empty_segments_bytes"], f["idle_bytes"])
            if f["largest_hole_bytes"] >= f["size"]:
                self.assertIs(make, private_pool)

    def test_snapshots_of_a_pool(self):
        event = ["a", 4096, 100, 1, 0, 0.5, 1]
        for content, name, says in ((snapshot(True, [event]), "leak", "100 B in 1 blocks) from a.cpp:7"),
                                    (snapshot(live=40, live_rounded=90, free=10), "alignment_waste", "40 B are alive in blocks of 90 B"),
                                    (snapshot(live=60, live_rounded=60, cached=40), "cached_sizes", "40 B of 100 B held"),
                                    (snapshot(live=60, live_rounded=60, free=40, largest_hole=9), "fragmentation", "largest hole has 9 B"),
                                    (snapshot(live=20, live_rounded=20, free=80), "warm_up_peak", "100 B were alive then, 20 B now"),
                                    (snapshot(live=100, live_rounded=100), "limit_too_low", "all memory is in use")):
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
