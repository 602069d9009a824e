#!/usr/bin/env python3
"""Runs `berth plan` and `berth verify` as a script would. usage: plan_test.py BERTH"""
import gzip
import json
import os
import pathlib
import pty
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = sys.argv.pop(1)
HEAD = "id,lower,upper,size\n"


def mycielski(order):
    """A graph without triangles whose colours number `order`: the bound is far below what can be found."""
    n, edges = 2, [(0, 1)]
    for _ in range(order - 2):
        edges += [(a, n + b) for a, b in edges] + [(b, n + a) for a, b in edges] + [(n + k, 2 * n) for k in range(n)]
        n = 2 * n + 1
    return {"format": "berth-problem/1", "conflicts": edges, "buffers": [{"id": k, "size": 8} for k in range(n)]}


class Verbs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def run_berth(self, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, errors="replace", timeout=60)

    def expect_wrong(self, *args, says=""):
        got = self.run_berth(*args)
        self.assertEqual(got.returncode, 2, (args, got.stderr))
        self.assertEqual(got.stderr.count("\n"), 1, got.stderr)
        self.assertEqual(got.stdout, "")
        self.assertIn(says, got.stderr)

    def test_plan_and_verify(self):
        problem = self.file("p.csv", HEAD + "b1,0,3,4\nb2,3,9,4\nb3,0,9,4\n")
        got = self.run_berth("plan", problem, "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        plan = json.loads(got.stdout)
        self.assertEqual((plan["arena_bytes"], plan["lower_bound"], plan["optimal"], plan["verified"]), (8, 8, True, True))
        for key in ("solver", "elapsed_ms"):
            self.assertIn(key, plan)
        self.assertEqual([b["id"] for b in plan["buffers"]], ["b1", "b2", "b3"])
        self.assertEqual(set(plan["buffers"][0]), {"id", "offset", "size", "lower", "upper"})
        good = self.file("good.json", got.stdout)
        self.assertEqual(json.loads(self.run_berth("verify", problem, good, "--json").stdout)["ok"], True)
        plan["buffers"][1]["size"] = 5
        self.expect_wrong("verify", problem, self.file("other.json", json.dumps(plan)), says="'b2' has 5 bytes here, in the problem 4")
        plan["buffers"][1]["size"] = 4
        plan["buffers"][1]["offset"] = plan["buffers"][2]["offset"]
        bad = self.file("bad.json", json.dumps(plan))
        got = self.run_berth("verify", problem, bad)
        self.assertEqual(got.returncode, 1)
        self.assertIn("'b2'", got.stdout)

    def test_the_bound_is_checked_without_a_search(self):
        problem = self.file("p.json", json.dumps({"format": "berth-problem/1", "alignment": 4, "buffers": [
            {"id": n, "size": 5, "lower": k, "upper": k + 1} for k, n in enumerate("abc")],
            "separations": [["a", "b"], ["b", "c"], ["a", "c"]]}))
        plan = json.loads(self.run_berth("plan", problem, "--json").stdout)
        self.assertEqual((plan["arena_bytes"], plan["lower_bound"], plan["optimal"]), (21, 21, True))
        self.assertEqual(plan["certificate"], [{"argument": "stack", "bound": 21, "buffers": ["a", "b", "c"], "step": 4}])

        def check(expected, says, **changes):
            path = self.file("q.json", json.dumps({**plan, **changes}))
            got = self.run_berth("verify", problem, path, "--bound")
            self.assertEqual(got.returncode, expected, (got.stdout, got.stderr))
            self.assertIn(says, got.stdout + got.stderr)
            if expected != 2:
                self.assertEqual(json.loads(self.run_berth("verify", problem, path, "--bound", "--json").stdout)["ok"],
                                 expected == 0)

        def with_argument(**changes):
            return [{**plan["certificate"][0], **changes}]

        check(0, "ok")
        check(1, "prove less", certificate=[])
        check(1, "prove less", certificate=None)
        check(1, "proves less", certificate=with_argument(bound=22))
        check(1, "17 bytes are proved", certificate=with_argument(step=8))
        check(1, "do not conflict: 'a' and 'a'", certificate=with_argument(buffers=["a", "a"]))
        check(1, "proves less", certificate=with_argument(at=-7, buffers=[]))
        check(1, "what a search found", certificate=with_argument(bound=15, step=1) + [{"argument": "search", "bound": 21}])
        check(1, "lower bound is above its arena", lower_bound=22)
        check(1, "says it is optimal", lower_bound=20)
        check(0, "ok", lower_bound=20, optimal=False)
        check(2, "certificate[0].bound: is negative", certificate=with_argument(bound=-1))
        check(2, "certificate[0].at: is not a whole number", certificate=with_argument(at=2**64))
        check(2, "no buffer 'd'", certificate=with_argument(buffers=["d"]))
        check(2, "no pool 'p'", certificate=with_argument(pool="p"))
        check(2, "neither 'stack' nor 'search'", certificate=with_argument(argument="faith"))
        check(2, "unknown key", certificate=with_argument(because="so"))
        check(2, "not a list", certificate={"bound": 21})

    def test_the_plan_of_a_pipeline_is_verified(self):
        def graph(name, columns):
            shape = {"type": "f32", "ne": [8, columns, 1, 1], "nb": [4, 32, 32 * columns, 32 * columns], "size": 32 * columns}
            rows = [{"schema": "ggml-graph-trace/1", "graph": name, "align": 32, "n_tensors": 3},
                    {"id": 0, "k": "leaf", "name": name + ".in", "op": "NONE", "fl": "I", **shape},
                    {"id": 1, "k": "node", "name": name + ".a", "op": "ADD", "src": [0, 0], **shape},
                    {"id": 2, "k": "node", "name": name + ".b", "op": "ADD", "src": [1, 0], **shape}]
            return self.file(name + ".jsonl", "\n".join(map(json.dumps, rows)))

        pair = [graph("first", 2), graph("second", 4)]
        out = os.path.join(self.folder.name, "plan.json")
        self.assertEqual(self.run_berth("plan", *pair, "--pipeline", "--out", out, "--quiet").returncode, 0)
        self.assertEqual(self.run_berth("verify", *pair, out, "--pipeline", "--bound").stdout, "ok\n")
        self.expect_wrong("verify", *reversed(pair), out, "--pipeline", says="bytes here, in the problem")
        self.expect_wrong("verify", *pair, out, says="only with --pipeline")
        self.expect_wrong("plan", *pair, "--pipeline", "--dim", "n=1", says="--dim")

    def test_the_plan_of_a_model_is_verified(self):
        if "run " not in self.run_berth("--help").stdout:
            self.skipTest("built without models")
        out = os.path.join(self.folder.name, "plan.json")
        self.assertEqual(self.run_berth("plan", "builtin:transformer", "--out", out, "--quiet").returncode, 0)
        self.assertEqual(self.run_berth("verify", "builtin:transformer", out).stdout, "ok\n")
        self.expect_wrong("verify", "builtin:mobilenet", out, says="no buffer")
        self.expect_wrong("verify", self.file("p.csv", HEAD), out, "--dim", "n=1", says="--dim is for models")

    def test_infeasible_is_refused_with_the_reason(self):
        problem = self.file("p.csv", HEAD + "x,0,2,8\ny,1,3,8\n")
        got = self.run_berth("plan", problem, "--capacity", "15", "--json")
        self.assertEqual((got.returncode, got.stderr), (1, ""))
        answer = json.loads(got.stdout)
        self.assertEqual((answer["status"], answer["buffers"]), ("infeasible", []))
        self.assertEqual((answer["arena_bytes"], answer["solver"], answer["verified"]), (None, None, False))
        self.assertIn("at least 16 B", answer["reason"])
        self.assertEqual(answer["capacity"], 15)

        def check(expected, says, **changes):
            path = self.file("q.json", json.dumps({**answer, **changes}))
            got = self.run_berth("verify", problem, path, "--bound")
            self.assertEqual((got.returncode, got.stderr), (expected, ""), got.stdout)
            self.assertEqual(got.stdout, says + "\n")
            got = json.loads(self.run_berth("verify", problem, path, "--bound", "--json").stdout)
            self.assertEqual((got["ok"], got["status"]), (expected == 0, "infeasible"))

        check(0, "ok; proved: no plan fits 15 bytes")
        check(1, "the certificate does not prove that no plan fits 16 bytes", capacity=16)
        check(1, "the certificate does not prove that no plan fits 15 bytes", certificate=[])
        check(1, "the certificate does not prove that no plan fits the memories", capacity=None)
        self.assertIn("not placed", self.run_berth("verify", problem, self.file("q.json", json.dumps(answer))).stdout)
        got = self.run_berth("plan", problem, "--capacity", "4")
        self.assertEqual(got.returncode, 1)
        self.assertIn("buffer 'x' alone exceeds the capacity (8 B)", got.stdout)

    def test_pools_say_what_they_hold_and_what_it_costs(self):
        text = {"format": "berth-problem/1", "pools": [{"id": "fast", "capacity": 10}, {"id": "slow"}], "buffers": [
            {"id": "x", "size": 10, "lower": 0, "upper": 2}, {"id": "y", "size": 5, "lower": 1, "upper": 3},
            {"id": "z", "size": 6, "lower": 1, "upper": 3}]}
        problem = self.file("p.json", json.dumps(text))
        self.assertNotIn("cost", json.loads(self.run_berth("plan", problem, "--json").stdout))
        shown = self.run_berth("plan", problem).stdout
        self.assertNotIn("cost", shown)
        text["pools"][1]["cost"] = 0.5
        problem = self.file("p.json", json.dumps(text))
        got = json.loads(self.run_berth("plan", problem, "--json").stdout)
        self.assertEqual((got["cost"], got["cost_bound"]), (5.5, 5.5))
        self.assertEqual([p["arena_bytes"] for p in got["pools"]], [10, 11])
        text["pools"].pop()
        text["pools"][0].pop("capacity")
        one = self.run_berth("plan", self.file("one.json", json.dumps(text)))
        self.assertIn("    fast        21 B; 3 buffers of 21 B, alive at once 21 B\n", one.stdout)
        shown = self.run_berth("plan", problem).stdout
        for line in ("    fast        10 B of 10 B; 1 buffer of 10 B, alive at once 10 B\n",
                     "    slow        11 B; 2 buffers of 11 B, alive at once 11 B\n", "  cost          5.5; the least, proved\n"):
            self.assertIn(line, shown)

    def test_a_group_is_alive_once(self):
        problem = self.file("p.json", json.dumps({"format": "berth-problem/1", "buffers": [
            {"id": "x", "size": 10, "lower": 0, "upper": 2, "alias_group": "g"},
            {"id": "y", "size": 7, "lower": 1, "upper": 3, "alias_group": "g"}],
            "pools": [{"id": "fast", "capacity": 10}, {"id": "slow"}]}))
        self.assertIn("2 buffers of 17 B, alive at once 10 B\n", self.run_berth("plan", problem).stdout)

    def test_pins_that_clash_are_named(self):
        problem = self.file("p.csv", "id,lower,upper,size,offset\nx,0,2,4,0\ny,1,3,4,2\n")
        got = self.run_berth("plan", problem)
        self.assertEqual(got.returncode, 1)
        self.assertIn("buffer 'y' is pinned where another one", got.stdout)

    def test_a_pipe_is_a_file(self):
        rows = (HEAD + "".join(f"b{i},{i},{i + 2},8\n" for i in range(50000))).encode()
        got = subprocess.run([BERTH, "plan", "/dev/stdin", "--json"], input=rows, capture_output=True, timeout=60)
        self.assertEqual((got.returncode, got.stderr, len(json.loads(got.stdout)["buffers"])), (0, b"", 50000))

    def test_a_file_too_long_is_not_read(self):
        path = self.file("p.csv", HEAD)
        os.truncate(path, 10 * 2**30)  # a hole: no disk is used
        self.expect_wrong("plan", path, says="longer than 2048 MiB")
        self.expect_wrong("verify", self.file("q.csv", HEAD), path, says="longer than 2048 MiB")
        self.expect_wrong("replay", path, says="longer than 2048 MiB")
        self.expect_wrong("plan", self.file("p.csv", HEAD + "\n" * 2**24), says="more than 2^24 rows")

    def catches_ctrl_c(self, process):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) & 1 << (signal.SIGINT - 1)

    def run_on_a_terminal(self, *args, interrupt=False):
        """Standard error is a terminal; returns the exit status, standard output and what the terminal was sent."""
        try:
            master, slave = pty.openpty()
        except OSError as reason:  # a root where /dev/pts is not mounted
            self.skipTest(f"no pseudo-terminal to be had: {reason}")
        with subprocess.Popen([BERTH, *args], stdout=subprocess.PIPE, stderr=slave, text=True) as berth:
            os.close(slave)
            sent = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                sent += part
                if interrupt and self.catches_ctrl_c(berth):  # not while it reads yet
                    berth.send_signal(signal.SIGINT)
                    interrupt = False
            out = berth.stdout.read()
        os.close(master)
        return berth.returncode, out, sent.decode()

    def test_ctrl_c_takes_the_best(self):
        problem = self.file("p.json", json.dumps(mycielski(8)))
        command = [BERTH, "plan", problem, "--effort", "best", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as berth:
            while not self.catches_ctrl_c(berth):
                pass
            berth.send_signal(signal.SIGINT)
            out, err = berth.communicate(timeout=60)
        self.assertEqual((berth.returncode, err), (0, ""))
        self.assertTrue(json.loads(out)["verified"])

    def test_progress_is_a_line_on_a_terminal(self):
        problem = self.file("p.json", json.dumps(mycielski(8)))
        start = time.monotonic()
        status, out, sent = self.run_on_a_terminal("plan", problem, "--effort", "best", interrupt=True)
        spent = time.monotonic() - start
        self.assertEqual(status, 0, sent)
        self.assertIn("stopped by Ctrl-C", out)
        lines = sent.split("\r\x1b[K")
        self.assertEqual((lines[0], lines[-1]), ("", ""))  # rewritten, and erased at the end
        self.assertLessEqual(len(lines) - 2, spent * 10 + 1)
        for line in lines[1:-1]:
            self.assertRegex(line, r"^(best [\d.]+ \w+, bound [\d.]+ \w+ \(\d+\.\d+ % above\), \d+ nodes|"
                                   r"reading p.json|planning|writing), \d+\.\d s$")
        self.assertGreaterEqual(len(lines), 3)
        for quiet in ("--json", "--quiet"):
            status, out, sent = self.run_on_a_terminal("plan", problem, "--effort", "best", "--deadline", "0.6", quiet)
            self.assertEqual((status, sent, bool(out)), (0, "", quiet == "--json"))
        got = self.run_berth("plan", problem, "--effort", "best", "--deadline", "0.6")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertIn("stopped by the deadline", got.stdout)

    def test_out_files(self):
        problem = self.file("p.csv", HEAD + "x,0,2,8\ny,1,3,8\n")
        for name in ("plan.json", "plan.csv"):
            out = os.path.join(self.folder.name, name)
            self.assertEqual(self.run_berth("plan", problem, "--out", out).returncode, 0)
            self.assertEqual(self.run_berth("verify", problem, out).stdout, "ok\n")
        header = os.path.join(self.folder.name, "plan.h")
        self.assertEqual(self.run_berth("plan", problem, "--out", header).returncode, 0)
        for compiler, language in (("cc", "c"), ("c++", "c++")):
            subprocess.run([compiler, "-x", language, "-fsyntax-only", "-Wall", "-Werror", header], check=True)
        self.expect_wrong("plan", problem, "--out", os.path.join(self.folder.name, "no/such/plan.csv"), says="cannot write")
        self.expect_wrong("plan", problem, "--out", "plan.txt", says="--out")
        comma = self.file("q.json", '{"format":"berth-problem/1","buffers":[{"id":"a,b","size":4,"lower":0,"upper":1}]}')
        self.expect_wrong("plan", comma, "--out", os.path.join(self.folder.name, "q.csv"), says="cannot stand in CSV")

    def test_an_answer_that_cannot_be_written_is_no_answer(self):
        problem = self.file("p.csv", HEAD + "x,0,2,8\n")
        for verb in (("plan", problem), ("plan", problem, "--json"), ("devices", "--json"), ("verify", problem, problem)):
            with open("/dev/full", "w") as full:
                got = subprocess.run([BERTH, *verb], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual((got.returncode, got.stderr.count("\n")), (2, 1), (verb, got.stderr))

    def test_a_byte_order_mark_is_passed_over(self):
        for name, text in (("p.csv", HEAD + "x,0,2,8\n"), ("p.json", '{"format":"berth-problem/1","buffers":[]}')):
            self.assertEqual(self.run_berth("plan", self.file(name, "\ufeff" + text)).returncode, 0)

    def test_a_link_to_nothing_stays_a_link(self):
        problem = self.file("p.csv", HEAD + "x,0,1,8\n")
        link, there = os.path.join(self.folder.name, "link.json"), os.path.join(self.folder.name, "there.json")
        os.symlink("there.json", link)
        self.assertEqual(self.run_berth("plan", problem, "--out", link).returncode, 0)
        self.assertTrue(os.path.islink(link))
        with open(there) as f:
            self.assertEqual(json.load(f)["arena_bytes"], 8)

    def test_keep_says_what_moved(self):
        first = self.file("p.csv", HEAD + "a,0,9,8\nb,0,9,8\nc,0,9,8\n")
        old = self.file("old.csv", "id,offset\na,8\nb,16\nc,0\ngone,24\n")
        got = json.loads(self.run_berth("plan", first, "--keep", old, "--json").stdout)
        self.assertEqual((got["moved"], got["moved_bytes"], got["moved_fewest"]), (0, 0, True))
        self.assertEqual([b["offset"] for b in got["buffers"]], [8, 16, 0])
        saved = self.file("old.json", json.dumps(got))
        grown = self.file("q.csv", HEAD + "a,0,9,8\nb,0,9,8\nc,0,9,16\nd,3,4,8\n")
        got = json.loads(self.run_berth("plan", grown, "--keep", saved, "--json").stdout)
        self.assertEqual((got["arena_bytes"], got["moved"], got["moved_bytes"]), (40, 1, 8))
        self.assertEqual([b["offset"] for b in got["buffers"]][1:3], [16, 0])
        self.assertIn("moved         1 buffers, 8 B", self.run_berth("plan", grown, "--keep", saved).stdout)
        self.expect_wrong("plan", first, "--keep", self.file("no.csv", "a\n1\n"), says="no columns id and offset")

    def test_a_problem_takes_the_place_of_no_former_plan(self):
        problem = self.file("p.csv", HEAD + "a,0,9,8\n")
        former = os.path.join(self.folder.name, "former.json")
        self.assertEqual(self.run_berth("plan", problem, "--out", former).returncode, 0)
        with open(former) as f:
            text = f.read()
        for option in ("--keep", "--diff"):
            self.expect_wrong("plan", problem, option, former, "--problem", former, says="--problem")
        self.expect_wrong("plan", problem, "--problem", "same", "--proof", "same", says="--problem")
        with open(former) as f:
            self.assertEqual(f.read(), text)
        self.expect_wrong("plan", problem, "--keep", former, "--keep-within", "nan", says="--keep-within")
        self.expect_wrong("plan", problem, "--keep-within", "5", says="--keep")

    def test_what_rules_made_is_verified(self):
        text = {"format": "berth-problem/1", "buffers": [
            {"id": "x", "size": 33, "lower": 0, "upper": 2}, {"id": "y", "size": 50, "lower": 1, "upper": 3, "alignment": 48},
            {"id": "z", "size": 7, "lower": 1, "upper": 3, "rules": "none"}]}
        problem, plan = self.file("p.json", json.dumps(text)), os.path.join(self.folder.name, "plan.json")
        for rules in ("ascend_310p", "ascend_950", "host"):
            got = json.loads(self.run_berth("plan", problem, "--rules", rules, "--json", "--out", plan).stdout)
            self.assertEqual((got["format"], got["rules"]), ("berth-plan/1", rules))
            self.assertEqual(self.run_berth("verify", problem, plan, "--bound").stdout, "ok\n")
            table = plan[:-len("json")] + "csv"
            self.run_berth("plan", problem, "--rules", rules, "--out", table)
            self.assertEqual(self.run_berth("verify", problem, table, "--bound").stdout,
                             "ok; the plan claims no lower bound\n")
        # In the problem itself the same rules give the same plan.
        del text["buffers"][2]
        problem = self.file("p.json", json.dumps(text))
        named = self.file("named.json", json.dumps({**text, "rules": "ascend_310p"}))
        numbers = self.file("numbers.json", json.dumps({**text, "alignment": 64, "size_granularity": 32, "tail_pad": 32}))
        arenas = [json.loads(self.run_berth("plan", *args, "--json").stdout)["arena_bytes"]
                  for args in ((problem, "--rules", "ascend_310p"), (named,))]
        self.assertEqual(arenas[0], arenas[1])
        plan = self.file("n.json", self.run_berth("plan", numbers, "--json").stdout)
        self.assertEqual(self.run_berth("verify", numbers, plan).stdout, "ok\n")
        # A model's plan too.
        if "run " in self.run_berth("--help").stdout:
            out = os.path.join(self.folder.name, "model.json")
            self.run_berth("plan", "builtin:mobilenet", "--rules", "ascend_310p", "--out", out, "--quiet")
            self.assertEqual(self.run_berth("verify", "builtin:mobilenet", out).stdout, "ok\n")

    def test_bytes_have_units(self):
        problem = self.file("p.csv", HEAD + "x,0,2,1536\n")
        for capacity, fits in (("1536", True), ("1535", False), ("1.5KiB", True), ("1.5 kB", False), ("1.536KB", True), ("1MiB", True)):
            self.assertEqual(self.run_berth("plan", problem, "--capacity", capacity).returncode, 0 if fits else 1, capacity)
        self.assertIn("  arena         1.5 KiB (1536 B)\n", self.run_berth("plan", problem).stdout)

    def test_a_dash_is_a_standard_stream(self):
        text = HEAD + "x,0,2,8\ny,1,3,8\n"
        problem = self.file("p.csv", text)

        def piped(*args, given=text):
            return subprocess.run([BERTH, *args], input=given, capture_output=True, text=True, timeout=60)

        plan = piped("plan", "-", "--out", "-")
        self.assertEqual((plan.returncode, plan.stderr), (0, ""))
        self.assertEqual(json.loads(plan.stdout)["arena_bytes"], 16)
        self.assertEqual(piped("verify", problem, "-", given=plan.stdout).stdout, "ok\n")
        both = piped("plan", "-", "--json", "--out", "-")
        self.assertEqual(json.loads(both.stdout)["format"], "berth-plan/1")  # once
        page = piped("view", "-", "-o", "-", given=plan.stdout)
        self.assertTrue(page.stdout.startswith("<!doctype html>") and page.returncode == 0, page.stderr)
        for call, says in ((("verify", "-", "-"), "standard input: is read only once"),
                           (("plan", "-"), "standard input:2: size"), (("view", "-", "-o", "-", "--json"), "--json")):
            got = piped(*call, given=HEAD + "x,0,2,-8\n" if call[0] == "plan" else text)
            self.assertEqual((got.returncode, got.stderr.count("\n")), (2, 1), got)
            self.assertIn(says, got.stderr)

    def test_no_output_takes_an_inputs_place(self):
        problem = self.file("p.csv", HEAD + "x,0,2,8\n")
        os.symlink(problem, os.path.join(self.folder.name, "link.csv"))
        for out in (problem, os.path.join(self.folder.name, "link.csv"), os.path.join(self.folder.name, ".", "p.csv")):
            self.expect_wrong("plan", problem, "--out", out, says="is what was read")
            self.expect_wrong("view", problem, "--out", out, says="is what was read")
        with open(problem) as f:
            self.assertEqual(f.read(), HEAD + "x,0,2,8\n")
        old = os.path.join(self.folder.name, "old.json")
        self.assertEqual(self.run_berth("plan", problem, "--out", old).returncode, 0)
        self.assertEqual(self.run_berth("plan", problem, "--keep", old, "--out", old).returncode, 0)  # one plan follows the other

    def test_names_cannot_command_a_terminal(self):
        bad = "\x1b]0;owned\x07\n\x9b31m\u202e"
        buffers = [{"id": bad, "size": 8, "lower": 0, "upper": 2}, {"id": "y" + bad, "size": 8, "lower": 1, "upper": 3}]
        problem = self.file("p.json", json.dumps({"format": "berth-problem/1", "capacity": 4, "buffers": buffers}))
        wide = self.file("q.json", json.dumps({"format": "berth-problem/1", "buffers": buffers}))
        plan = json.loads(self.run_berth("plan", wide, "--json").stdout)
        good = self.file("good.json", json.dumps(plan))
        plan["buffers"][0]["offset"] = plan["buffers"][1]["offset"]
        overlap = self.file("bad.json", json.dumps(plan))
        for call in (("plan", problem), ("verify", wide, overlap), ("report", good), ("report", wide), ("view", "no" + bad, "-o", "x.html"),
                     ("plan", wide, "--out", os.path.join(self.folder.name, bad.replace("/", "") + ".json")), ("report", problem)):
            got = subprocess.run([BERTH, *call], capture_output=True, timeout=60)
            shown = (got.stdout + got.stderr).decode()  # UTF-8 throughout
            for mark in ("\x1b", "\x07", "\x9b", "\u202e"):
                self.assertNotIn(mark, shown, call)
            self.assertIn("\\x1b]0;owned\\x07\\x0a\\x9b31m\\u{202e}", shown, call)

    def test_no_id_is_a_formula_of_a_spreadsheet(self):
        ids = ["=cmd|' /C calc'!A0", "+x", "-x", "@x", "'=x", "-1", "plain"]
        problem = self.file("p.json", json.dumps({"format": "berth-problem/1", "buffers": [
            {"id": i, "size": 8, "lower": 0, "upper": 2} for i in ids]}))
        out = os.path.join(self.folder.name, "plan.csv")
        self.assertEqual(self.run_berth("plan", problem, "--out", out).returncode, 0)
        rows = [row.split(",")[0] for row in pathlib.Path(out).read_text().splitlines()[1:]]
        self.assertEqual(rows, ["'=cmd|' /C calc'!A0", "'+x", "'-x", "'@x", "''=x", "-1", "plain"])
        self.assertEqual(self.run_berth("verify", problem, out).stdout, "ok\n")
        again = json.loads(self.run_berth("plan", out, "--json").stdout)  # as a problem of pins
        self.assertEqual([str(b["id"]) for b in again["buffers"]], ids)

    def test_headers_of_two_plans_go_into_one_program(self):
        for name, rows in (("first", "x,0,2,8\ny,1,3,8\n"), ("2nd-one", "x,0,2,40\n")):
            out = os.path.join(self.folder.name, name + ".h")
            self.assertEqual(self.run_berth("plan", self.file(name + ".csv", HEAD + rows), "--out", out).returncode, 0)
        symbolic = self.file("s.json", json.dumps({"format": "berth-problem/1", "dimensions": [{"name": "n", "least": 1, "most": 9}],
            "buffers": [{"id": "x", "size": "8*n", "lower": 0, "upper": 2}, {"id": "y", "size": 3, "lower": 0, "upper": 2, "rules": "ascend_310p"}]}))
        for prefix in ("One", "two_"):
            out = os.path.join(self.folder.name, prefix + ".h")
            self.assertEqual(self.run_berth("plan", symbolic, "--out", out, "--prefix", prefix).returncode, 0)
        main = self.file("main.c", """#include "first.h"
#include "2nd-one.h"
#include "One.h"
#include "two_.h"
int main(void) {
  const uint64_t n = 2;
  uint64_t offsets[TWO_BUFFER_COUNT], arena;
  return !(FIRST_ARENA_BYTES == 16 && FIRST_Y_SIZE == 8 && BERTH_2ND_ONE_ARENA_BYTES == 40 && two_evaluate(&n, offsets, &arena) &&
           one_evaluate(&n, offsets, &arena) && arena == (offsets[TWO_Y_INDEX] == 0 ? 64 + 16 : 64 + 64));
}
""")
        program = os.path.join(self.folder.name, "main")
        for compiler in (["cc", "-std=c11"], ["c++", "-xc++", "-std=c++11"]):
            subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", main, "-o", program], check=True)
            self.assertEqual(subprocess.run([program]).returncode, 0)
        self.expect_wrong("plan", symbolic, "--prefix", "x", says="--prefix: for --out FILE.h only")
        self.expect_wrong("plan", symbolic, "--out", "x.h", "--prefix", "2x", says="'2x' is not a letter, then")

    def test_rules_change_what_is_planned(self):
        problem = self.file("p.csv", HEAD + "x,0,2,33\n")
        got = json.loads(self.run_berth("plan", problem, "--rules", "ascend_310p", "--json").stdout)
        self.assertEqual(got["arena_bytes"], 96)
        self.expect_wrong("plan", problem, "--rules", "nothing", says="{none,host,ascend_310p,ascend_310p_dvpp,ascend_950,ascend_align32}")
        self.assertIn("{none,host,ascend_310p,ascend_310p_dvpp,ascend_950,ascend_align32}", self.run_berth("plan", "--help").stdout)

    def test_what_never_ends_is_refused_where_it_is_wrong(self):
        for head, says in (("", "/dev/stdin:1: header row"), (HEAD, "/dev/stdin:2: lower"), (HEAD + "x,0,1,4\n", "/dev/stdin:3:")):
            with subprocess.Popen([BERTH, "plan", "/dev/stdin"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE) as run:
                commas, written = b",\n" * 2**19, 0
                try:
                    run.stdin.write(head.encode())
                    while written < 2**30:
                        written += run.stdin.write(commas)
                except BrokenPipeError:
                    pass
                self.assertLess(written, 2**24)
                self.assertIn(says, run.stderr.read().decode())
                self.assertEqual(run.wait(), 2)

    def test_wrong_input_is_one_line_and_two(self):
        packed = gzip.compress((HEAD + "".join(f"b{i},{i},{i + 1},{i * 7919}\n" for i in range(5000))).encode())
        whole = self.file("p.csv.gz", packed)
        self.assertEqual(self.run_berth("plan", whole).returncode, 0)
        for content, says in (
            (packed[: len(packed) // 2], "p: cannot read: unexpected end of file"),
            ("," * 100000, "header row"),
            (HEAD + "," * 100000, "p:2:"),
            (HEAD + "x,0,1,-4\n", "p:2: size is negative"),
            (HEAD + "x,0,1,4\nx,0,1,4\n", "p:3: a second buffer"),
            (HEAD + "x,2,1,4\n", "p:2: buffer 'x'"),
            (HEAD.encode() + b"\xff\xfe,0,1,4\n", "p:2: the id '??' is not UTF-8"),
            (b"ALLOC \xff 4\nFREE \xff\n", "p:1: the id '?' is not UTF-8"),
            ('{"format":"berth-problem/1","buffers":[{"id":"","size":4,"lower":0,"upper":1}]}', "p:1: id is empty"),
            (HEAD + "x,0,1,1e999\n", "p:2: size"),
            ('{"format":"berth-problem/1","buffers":[{"id":"x","size":NaN}]}', "p:1: not JSON"),
            ('{"format":"berth-problem/1","buffers":[', "not JSON"),
            ('{"format":"berth-problem/1",\n"buffers":[{"id":"x","size":4,\n"lower":0,"upper":1,"size":5}]}', "p:3: a second key 'size'"),
            ('{"format":"berth-problem/1","buffers":' + "[" * 100000, "p:1: nested more than 64 deep"),
            ('{"format":"berth-problem/1","buffers":[' + "0," * 2**26, "p:1: more than 2^26 values"),
            ('{"format":"berth-problem/1","buffers":{}}', "not a list"),
            ("", "p:1: is empty"),
            ("\n\n", "neither"),
            ('{"format":"berth-problem/1",\n"buffers":[{"id":"x","size":1e400}]}', "p:2: not JSON: a number is out of range: '1e400'"),
            (random.Random(7).randbytes(4096), ""),
        ):
            self.expect_wrong("plan", self.file("p", content), says=says)
        self.expect_wrong("plan", "/no/such/file", says="cannot open")
        self.expect_wrong("plan")
        self.expect_wrong("plan", whole, "--effort", "much")
        for call in ((whole, "--efort", "best"), ("--efort", "best"), ("--efort=best",)):  # not: FILE is required
            self.expect_wrong("plan", *call, says="no option is called '--efort'; did you mean --effort?; see berth plan --help")
        self.expect_wrong("plna", says="no verb is called 'plna'; did you mean plan?; see berth --help")
        for capacity in ("1M", "16 MiBs", "1.5.2KiB", "20000000TiB", "KiB", "-5"):
            self.expect_wrong("plan", whole, "--capacity=" + capacity, says=f"--capacity: '{capacity}' is no number of bytes, such as 1048576 or 1MiB")
        self.expect_wrong("plan", whole, "--work", "-1", says="--work: '-1' is not")
        self.expect_wrong("plan", whole, "--work", "0", says="--work: '0' is not above zero")
        for seconds in ("0", "-1", "nan", "inf"):
            self.expect_wrong("plan", whole, "--deadline", seconds, says="--deadline: not a number of seconds")
        self.expect_wrong("plan", "no\nsuch\x1b file", says="no\\x0asuch\\x1b file: cannot open")
        self.expect_wrong("plan", BERTH, says="neither CSV")
        self.expect_wrong("plan", self.file("q.csv", "name,lower,upper,size\n"),
                          says="q.csv:1: header row: 'name' is none of its columns: id, lower, upper, size")
        self.expect_wrong("plan", self.file("q.csv", "ev,id,size,stream,thread,t_us\n"), says="an allocation log, not a problem")
        self.expect_wrong("plan", self.file("q.csv", "id,lower,upper,size,offset,pool\n"), says="a plan, not a problem")
        self.expect_wrong("plan", self.file("q.json", '{"format":"berth-snapshot/1"}'), says="a snapshot, not a problem")
        self.expect_wrong("verify", whole, whole, says="")
        self.expect_wrong("plan", self.file("plan.json", '{"arena_bytes":8,"buffers":[]}'), says="a plan, not a problem")
        self.expect_wrong("plan", whole, "--capacity", "-1")
        self.expect_wrong("verify", whole, self.file("plan", "[]"))


if __name__ == "__main__":
    unittest.main()
