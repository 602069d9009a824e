#!/usr/bin/env python3
"""`berth calibrate` keeps the tool's contract, and its verdict follows from its own figures. usage: ... BERTH"""
import json
import subprocess
import sys

berth = sys.argv[1]


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([berth, "calibrate", *arguments], capture_output=True, text=True)


answer = run("--json")
assert answer.returncode == 0 and answer.stderr == "", answer
c = json.loads(answer.stdout)
arena = min(row["arena_ns"] for row in c["sizes"])
assert arena > 0
paying = [k["inline_bytes"] for k in c["inline_buffers"] if k["ns"] <= arena]
assert c["inline_bytes"] == max(paying, default=0)
losing = [row["bytes"] for row in c["sizes"] if row["malloc_ns"] >= row["arena_ns"]]
if c["malloc_from"] is None:
    assert losing and losing[-1] == c["sizes"][-1]["bytes"]
else:
    assert all(n < c["malloc_from"] for n in losing)
nests = [c["nests_arena_only"]] + [k["nests"] for k in c["inline_buffers"]]
assert all(a > b > 0 for a, b in zip(nests, nests[1:])), nests
# A frame holds its inline bytes and little more.
for k in c["inline_buffers"]:
    assert k["nests"] * (k["inline_bytes"] + 64) <= c["thread_stack_bytes"], k

# A thread's stack bears most of its size, as the frames below have their share.
for size, parsed in (("256KiB", 256 << 10), ("1MiB", 1 << 20)):
    found = run("--stack", size, "--json")
    assert found.returncode == 0 and found.stderr == "", found
    s = json.loads(found.stdout)
    assert s["thread_stack_bytes"] == parsed and parsed // 8 < s["largest_bytes"] < parsed, s
    assert s["safe_bytes"] == s["largest_bytes"] - s["reserve_bytes"], s
assert "safe limit" in run("--stack", "128KiB").stdout
for size in ("1", "0", "-5", "x", "2GiB", "20000000TiB"):
    refused = run("--stack", size)
    assert refused.returncode == 2 and refused.stdout == "" and refused.stderr.count("\n") == 1, refused

assert "scratch" in run("--help").stdout
wrong = run("--no-such-option")
assert wrong.returncode == 2 and wrong.stdout == "" and wrong.stderr.count("\n") == 1, wrong
