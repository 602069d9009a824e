#!/usr/bin/env python3
"""`berth report` on plans, logs and snapshots, good and bad. usage: report_test.py BERTH"""
import copy
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)
LOG_HEAD = "ev,id,size,stream,thread,t_us\n"


def log(n):
    """n blocks of 64 MiB that come and go one after the other, and one that stays."""
    rows = ["a,999999,4096,0,0,0"]
    for i in range(n):
        rows += [f"a,{i},67108864,1,0,{i}", f"f,{i},,1,0,{i}.5"]
    return LOG_HEAD + "\n".join(rows) + "\n"


POOL = {"live": 0, "live_peak": 95, "live_rounded": 0, "cached": 0, "free": 100, "reserved": 100, "reserved_peak": 100,
        "largest_hole": 100, "live_blocks": 0, "allocations": 100, "frees": 100, "failures": 0, "cache_hits": 90,
        "device_hits": 1, "stitched": 0, "device_calls": 1, "events": 0, "flushes": 0, "largest_request": 50, "unusable": 5}
DEVICE = {"held": 0, "unlocked": 0, "direct_copies": 9, "staged_copies": 1, "direct_bytes": 90, "staged_bytes": 10}
SNAPSHOT = {"format": "berth-snapshot/1", "ended": True, "forgotten": 0, "dropped": 0, "pool": POOL, "device": DEVICE,
            "allocation": {"count": 100, "mean_us": 0.02, "longest_us": 3.5}, "sites": [["a.cpp", 7], ["b.cpp", 9]],
            "events": [["a", 4096, 100, 1, 0, 0.5, 1], ["a", 8192, 50, 1, 0, 0.5, 2], ["f", 4096, 100, 1, 0, 1, 0],
                       ["a", 4096, 60, 1, 1, 2, 2], ["f", 4096, 60, 1, 1, 3, 0], ["f", 8192, 50, 1, 0, 4, 0]]}
PLAN = {"arena_bytes": 100, "lower_bound": 95, "optimal": False, "solver": "s",
        "buffers": [{"id": "x", "offset": 0, "size": 60, "lower": 0, "upper": 4},
                    {"id": "y", "offset": 60, "size": 40, "lower": 2, "upper": 6}]}


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, content, name="f"):
        path = os.path.join(self.folder.name, name)
        if isinstance(content, dict):
            content = json.dumps(content)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def run_berth(self, *args):
        return subprocess.run([BERTH, *args], capture_output=True, text=True, timeout=60)

    def report(self, content, status):
        path = self.file(content)
        people = self.run_berth("report", path)
        self.assertEqual((people.returncode, people.stderr), (status, ""), people.stdout)
        self.assertIn("NOT healthy" if status else "healthy", people.stdout)
        got = self.run_berth("report", path, "--json")
        self.assertEqual((got.returncode, got.stderr), (status, ""), got.stdout)
        answer = json.loads(got.stdout)
        self.assertEqual(answer["ok"], status == 0)
        answer["by_name"] = {t["name"]: t for t in answer["thresholds"]}
        return answer, people.stdout

    def test_a_log_whose_replay_runs_out_of_memory_is_not_healthy(self):
        large = log(300) + f"a,1,{2**61 - 63},0,0,400\n"
        self.assertIsNone(self.report(large, 0)[0]["failed_at"])
        answer, text = self.report(large + f"a,2,{2**61 - 4096 + 63},0,0,401\n", 1)  # what is rounded up is too much
        self.assertEqual(answer["failed_at"], 602)
        self.assertIn("out of memory at event 602", text)
        self.assertIsNone(answer["by_name"]["pool_hits"]["measured"])

    def test_log(self):
        answer, text = self.report(gzip.compress(log(300).encode()), 0)
        self.assertEqual(answer["kind"], "trace")
        self.assertEqual((answer["allocations"], answer["frees"]), (301, 300))
        self.assertEqual(answer["peak"]["bytes"], 67108864 + 4096)
        self.assertEqual(answer["peak_live_bytes"], 67108864 + 4096)
        self.assertEqual((answer["alive_at_end_blocks"], answer["alive_at_end_bytes"]), (1, 4096))
        self.assertEqual(answer["at_peak"][0], {"what": "67108864 bytes each", "blocks": 1, "bytes": 67108864})
        for name in ("allocation_us", "fragmentation", "pool_hits"):
            self.assertTrue(answer["by_name"][name]["ok"], name)
        self.assertIsNone(answer["by_name"]["zero_copy"]["measured"])
        self.assertIn("not measured", text)
        # Every allocation is the first of its kind: none can come without the device.
        few, _ = self.report(LOG_HEAD + "a,1,1048576,0,0,0\n", 1)
        self.assertFalse(few["by_name"]["pool_hits"]["ok"])
        nothing, _ = self.report(LOG_HEAD, 0)
        self.assertIsNone(nothing["failed_at"])
        self.assertEqual([t["ok"] for t in nothing["thresholds"]], [None] * 4)

    def test_plan(self):
        answer, _ = self.report(PLAN, 0)
        self.assertEqual(answer["kind"], "plan")
        self.assertAlmostEqual(answer["by_name"]["fragmentation"]["measured"], 0.05)
        self.assertEqual(answer["peak"], {"bytes": 100, "at": 2})
        self.assertEqual([h["what"] for h in answer["at_peak"]], ["x", "y"])
        self.assertEqual(answer["no_reuse_bytes"], 100)
        loose, _ = self.report({**PLAN, "lower_bound": 89}, 1)
        self.assertFalse(loose["by_name"]["fragmentation"]["ok"])
        problem = self.file("id,lower,upper,size\nx,0,2,8\ny,1,3,8\n", "p.csv")
        plan = self.run_berth("plan", problem, "--json").stdout
        self.assertEqual(self.report(plan, 0)[0]["arena_bytes"], 16)

    def test_what_was_lost_does_not_wrap_the_peak(self):
        lossy = {**SNAPSHOT, "dropped": 1, "events": [["a", 64, 1, 0, 0, 0, 0], ["f", 64, 6272, 0, 0, 0, 0], ["a", 64, 5, 0, 0, 0, 0]]}
        self.assertEqual(self.report({**lossy, "ended": False}, 0)[0]["peak"]["bytes"], 5)

    def test_a_problem_is_planned(self):
        rows = "id,lower,upper,size\nx,0,2,60\ny,1,3,40\n"
        answer, text = self.report(rows, 0)
        self.assertEqual((answer["kind"], answer["arena_bytes"], answer["no_reuse_bytes"], answer["peak"]["bytes"]), ("plan", 100, 100, 100))
        graph = [{"schema": "ggml-graph-trace/1", "graph": "g", "align": 32, "n_tensors": 2}] + [
            {"id": k, "k": kind, "name": kind, "op": op, "src": [0] * k, "type": "f32", "ne": [8, 1, 1, 1], "nb": [4, 32, 32, 32], "size": 32}
            for k, (kind, op) in enumerate((("leaf", "NONE"), ("node", "ADD")))]
        self.assertEqual(self.report("\n".join(map(json.dumps, graph)), 0)[0]["kind"], "plan")
        impossible = {"format": "berth-problem/1", "capacity": 4, "buffers": [{"id": "x", "size": 8, "lower": 0, "upper": 1}]}
        for verb in (("report",), ("view", "-o", os.path.join(self.folder.name, "p.html"))):
            got = self.run_berth(verb[0], self.file(impossible), *verb[1:])
            self.assertEqual((got.returncode, got.stderr), (1, ""))
            self.assertIn("infeasible", got.stdout)
            got = self.run_berth(verb[0], self.file(impossible), *verb[1:], "--json")
            self.assertEqual((got.returncode, json.loads(got.stdout)["ok"]), (1, False))

    def test_a_plan_in_csv_is_a_plan(self):
        rows = "id,lower,upper,size,offset,pool\nx,0,2,60,0,p\ny,1,3,40,0,q\nz,5,6,10,80,p\n"
        answer, _ = self.report(rows, 1)  # fragmentation: p holds 90 for 60
        self.assertEqual((answer["arena_bytes"], answer["lower_bound"], answer["optimal"]), (130, 100, False))

    def test_tables_may_begin_with_comments(self):
        plan = "id,lower,upper,size,offset\nx,0,2,60,0\ny,1,3,40,60\n"
        for head in ("# of step 3\n\n", "\r\n  # a\r\n", "\ufeff# b\n", "\ufeff\n"):
            lines = head.count("\n")
            self.assertEqual(self.report(head + plan, 0)[0]["arena_bytes"], 100)
            self.assertEqual(self.report(head + plan.replace("\n", "\r\n"), 0)[0]["kind"], "plan")
            self.expect_wrong(head + plan.replace("60,0", f"{2**62 + 1},0"), f"f:{lines + 2}: the sizes or offsets")
            self.assertEqual(self.report(head + log(300), 0)[0]["allocations"], 301)
            self.expect_wrong(head + LOG_HEAD + "q,1,2,0,0,0\n", f"f:{lines + 2}: ev")
            self.expect_wrong(head + LOG_HEAD + "\na,1,2,0,0,0\na,1,2,0,0,0\n", f"f:{lines + 4}: id 1 is allocated twice")
            got = self.run_berth("replay", self.file(head + log(300)), "--json")
            self.assertEqual((got.returncode, got.stderr), (0, ""))

    def test_a_column_twice_is_refused(self):
        for head in ("id,id,lower,upper,size,offset", "id,lower,upper,size,,,offset"):
            path = self.file(head + "\na\n", "twice.csv")
            for verb in (("report",), ("view", "-o", os.path.join(self.folder.name, "p.html"))):
                got = self.run_berth(verb[0], path, *verb[1:])
                self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
                self.assertIn("twice.csv:1: header row", got.stderr)

    def test_without_reuse_means_one_thing(self):
        problem = self.file({"format": "berth-problem/1", "rules": "ascend_310p", "buffers": [
            {"id": n, "size": 33, "lower": k, "upper": k + 1} for k, n in enumerate("abc")]}, "p.json")
        plan = json.loads(self.run_berth("plan", problem, "--json").stdout)
        self.assertEqual(plan["no_reuse_bytes"], 3 * 96)
        self.assertIn("without reuse 288 B\n", self.run_berth("plan", problem).stdout)
        self.assertEqual(self.report(plan, 0)[0]["no_reuse_bytes"], 288)
        if "run " in self.run_berth("--help").stdout:
            said = {json.loads(self.run_berth(*call, "builtin:mobilenet", "--json").stdout)["no_reuse_bytes"]
                    for call in (("plan",), ("run",), ("report",))}
            self.assertEqual(len(said), 1, said)

    def test_snapshot(self):
        answer, _ = self.report(SNAPSHOT, 0)
        self.assertEqual(answer["kind"], "snapshot")
        self.assertEqual({t["name"]: t["ok"] for t in answer["thresholds"]},
                         dict.fromkeys(("allocation_us", "fragmentation", "pool_hits", "zero_copy"), True))
        self.assertEqual(answer["peak"], {"bytes": 150, "at": 1})
        self.assertEqual(answer["at_peak"][0], {"what": "a.cpp:7", "blocks": 1, "bytes": 100})
        self.assertEqual(answer["leaks"], [])
        for change in ({"allocation": {"count": 1, "mean_us": 10, "longest_us": 10}},
                       {"pool": {**POOL, "unusable": 11}}, {"pool": {**POOL, "device_hits": 11}},
                       {"device": {**DEVICE, "direct_bytes": 40}}):
            self.report({**SNAPSHOT, **change}, 1)

    def test_leaks_have_file_and_line(self):
        leaky = {**SNAPSHOT, "events": SNAPSHOT["events"][:4]}
        answer, text = self.report(leaky, 1)
        self.assertEqual(answer["leaks"], [{"place": "b.cpp:9", "blocks": 2, "bytes": 110}])
        self.assertIn("b.cpp:9", text)
        running, text = self.report({**leaky, "ended": False}, 0)  # not leaks yet
        self.assertIsNone(running["leaks"])
        self.assertEqual((running["alive_blocks"], running["alive_bytes"]), (2, 110))

    def test_snapshots_can_be_replayed(self):
        got = self.run_berth("replay", self.file(SNAPSHOT), "--capacity", "67108864", "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        answer = json.loads(got.stdout)
        self.assertEqual((answer["allocs"], answer["peak_live_bytes"], answer["failed_at"]), (3, 150, None))
        self.assertEqual(self.run_berth("replay", self.file(PLAN)).returncode, 2)

    def test_advice_improves_what_it_is_about(self):
        rows = []
        for i in range(0, 600, 3):  # three sizes, of which two are alive at once: the cache keeps one more
            rows += [f"a,{i},8000000,0,0,{i}", f"a,{i + 1},12000000,0,0,{i}", f"f,{i},,0,0,{i}",
                     f"a,{i + 2},9000000,0,0,{i}", f"f,{i + 1},,0,0,{i}", f"f,{i + 2},,0,0,{i}"]
        answer, text = self.report(LOG_HEAD + "\n".join(rows) + "\n", 0)
        by = {a["threshold"]: a for a in answer["advice"]}
        advice, peak = by["idle"], answer["memory"]["peak"]
        self.assertEqual(advice["option"], "pool_options::limit")
        self.assertIn("3 sizes", advice["cause"])
        self.assertAlmostEqual(advice["before"], peak["idle_bytes"] / peak["reserved_bytes"], places=6)
        followed = self.run_berth("replay", self.file(LOG_HEAD + "\n".join(rows) + "\n"), "--json", "--capacity",
                                  str(advice["value"]))
        self.assertEqual(followed.returncode, 0, followed.stderr)
        over = json.loads(followed.stdout)["reserved_over_live"]
        self.assertAlmostEqual(1 - 1 / over, advice["after"], places=2)
        self.assertLess(advice["after"], advice["before"])
        self.assertIn("pool_options::limit of", text)

    def test_advice_on_hits_takes_all_at_once(self):
        answer, _ = self.report(LOG_HEAD + "a,0,1000,0,0,0\na,1,90000000,0,0,1\n", 1)
        advice = {a["threshold"]: a for a in answer["advice"]}["pool_hits"]
        self.assertEqual(advice["option"], "pool_options::initial")
        self.assertEqual((advice["before"], advice["after"]), (0, 1))
        self.assertEqual(answer["by_name"]["pool_hits"]["band"], "danger")

    def test_metrics(self):
        text = self.run_berth("report", self.file(SNAPSHOT), "--metrics").stdout
        for line in ["berth_allocation_size_bytes_bucket{le=\"64\"} 2", "berth_pool_cache_hits_total 90",
                     "berth_class_live_peak_bytes{up_to=\"128\"} 100", "# EOF"]:
            self.assertIn(line + "\n", text)
        self.assertNotIn("berth_pool", self.run_berth("report", self.file(log(3)), "--metrics").stdout)
        refused = self.run_berth("report", self.file(PLAN), "--metrics")
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (2, 1))

    def test_metrics_of_a_log_that_contradicts_itself(self):
        huge = 2**62
        for rows, what in (("a,1,64,0,0,0\na,1,64,0,0,1\n", ":3: id 1 is allocated twice"),
                           (f"a,1,{huge},0,0,0\na,2,1,0,0,1\n", ":3: more than 2^62 bytes are alive")):
            for more in ((), ("--metrics",)):
                got = self.run_berth("report", self.file(LOG_HEAD + rows), *more)
                self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), got)
                self.assertIn(what, got.stderr)
        rows = "".join(f"a,{i},{huge},0,0,0\nf,{i},{huge},0,0,0\n" for i in range(4))
        text = self.run_berth("report", self.file(LOG_HEAD + rows), "--metrics").stdout
        self.assertIn(f"berth_allocation_size_bytes_sum {2**64 - 1}\n", text)

    # A header row of many columns costs what its characters do, not as much again in each row.
    @unittest.skipIf("BERTH_SANITIZED" in os.environ, "a cost")
    def test_a_plan_with_very_many_columns(self):
        columns = ",".join(f"c{i}" for i in range(300_000))
        rows = "".join(f"{i},0,1,1,{i}\n" for i in range(200_000))
        path = self.file("id,lower,upper,size,offset," + columns + "\n" + rows, "wide.csv")
        answer = json.loads(self.run_berth("report", path, "--json").stdout)
        self.assertEqual((answer["kind"], answer["arena_bytes"]), ("plan", 200_000))
        problem = self.file("id,lower,upper,size\n" + "".join(f"{i},0,1,1\n" for i in range(200_000)), "problem.csv")
        got = self.run_berth("verify", problem, path)
        self.assertEqual((got.returncode, got.stderr), (0, ""))

    def test_fail_on(self):
        warning = copy.deepcopy(SNAPSHOT)
        warning["pool"]["unusable"] = 20  # of 100
        path = self.file(warning)
        self.assertEqual(self.run_berth("report", path).returncode, 1)
        self.assertEqual(self.run_berth("report", path, "--fail-on", "warning").returncode, 1)
        self.assertEqual(self.run_berth("report", path, "--fail-on", "danger").returncode, 0)
        warning["pool"]["unusable"] = 30
        path = self.file(warning)
        self.assertEqual(self.run_berth("report", path, "--fail-on", "danger").returncode, 1)
        self.assertEqual(self.run_berth("report", path, "--fail-on", "doom").returncode, 2)

    def test_a_log_as_a_step_that_repeats(self):
        rows = [f"a,{i},{1000000 * (i + 1)},0,0,{i}" for i in range(20)] + [f"f,{i},{1000000 * (i + 1)},0,0,{20 + i}" for i in range(19)]
        path = self.file(LOG_HEAD + "\n".join(rows) + "\n")  # the last one is alive at the end
        got = json.loads(self.run_berth("replay", path, "--guided", "--json").stdout)
        self.assertEqual([got[k] for k in ("steps", "planned", "elsewhere", "passed", "device_calls", "failed_at")],
                         [7, 120, 0, 20, 0, None])
        self.assertEqual(got["plan_bytes"], got["lower_bound"])
        self.assertLess(got["peak_reserved_bytes"], 1.05 * got["peak_live_bytes"])
        self.assertIn("120 as planned", self.run_berth("replay", path, "--guided").stdout)
        small = self.run_berth("replay", path, "--guided", "--capacity", "64KiB", "--json")
        self.assertEqual((small.returncode, json.loads(small.stdout)["planned"]), (1, 0))
        self.assertEqual(got["broken_up"], 0)
        # Two streams whose peaks never meet: the plan has room for both, the pool for one.
        rows = [f"{ev},{i},{2**20},{i},0,{2 * i + k}" for i in range(2) for k, ev in enumerate("af")]
        both = self.file(LOG_HEAD + "\n".join(rows) + "\n", "both")
        tight = json.loads(self.run_berth("replay", both, "--guided", "--capacity", "1MiB", "--json").stdout)
        self.assertEqual((tight["failed_at"], tight["peak_reserved_bytes"], tight["broken_up"]), (None, 2**20, 6))
        self.assertIn("broken up      6 times", self.run_berth("replay", both, "--guided", "--capacity", "1MiB").stdout)
        self.assertNotIn("broken up", self.run_berth("replay", both, "--guided").stdout)

    def test_wrong_calls_of_guided_are_one_line(self):
        path = self.file(log(3))
        plan = self.file(PLAN, "plan.json")
        for words in ([path, "--policy", "bfc-like"], [path, "--policy", "none"], [path, "--capacity", "0"], [path, "--capacity", "-1"],
                      [path, "--capacity", "x"], [path, "--capacity", ""], [path, "--capacity", "0%"], [plan], [path + "no"],
                      [self.file("ev,id,size\na,1,x\n", "bad")], [self.file("", "empty")]):
            wrong = self.run_berth("replay", *words, "--guided")
            self.assertEqual((wrong.returncode, wrong.stdout, len(wrong.stderr.splitlines())), (2, "", 1), (words, wrong.stderr))

    def test_a_replay_that_fails_has_no_figures_of_the_whole(self):
        path = self.file(log(3))
        got = self.run_berth("replay", path, "--capacity", "1MiB", "--json")
        answer = json.loads(got.stdout)
        self.assertEqual((got.returncode, answer["failed_at"], answer["fragmentation"], answer["capacity"]), (1, 1, None, 2**20))
        self.assertEqual((answer["pool_hit_rate"], answer["cache_hit_rate"]), (None, None))
        text = self.run_berth("replay", path, "--capacity", "1MiB").stdout
        self.assertNotIn("fragmentation", text)
        self.assertNotIn("without the device", text)

    def test_a_percentage_of_very_much_is_all_there_is(self):
        path = self.file(LOG_HEAD + f"a,1,{2**62},0,0,0\n")
        answer = json.loads(self.run_berth("replay", path, "--capacity", "1000%", "--json").stdout)
        self.assertEqual(answer["capacity"], 2**64 - 1)

    def test_a_small_log_has_room(self):
        path = self.file(LOG_HEAD + "a,1,100,0,0,0\na,2,100,0,0,1\nf,1,,0,0,2\n")
        got = self.run_berth("replay", path, "--json")
        self.assertEqual((got.returncode, json.loads(got.stdout)["failed_at"]), (0, None))

    def test_metrics_judge_nothing(self):
        path = self.file(log(3))
        for judged in (("--since", path), ("--fail-on", "warning")):
            got = self.run_berth("report", path, "--metrics", *judged)
            self.assertEqual((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1))

    def peak_of_first_fit(self, events):
        """In multiples of 64 bytes, each block in the lowest hole that takes it."""
        blocks, peak = {}, 0
        for kind, name, size in events:
            if kind == "f":
                del blocks[name]
                continue
            at, need = 0, -(-max(size, 1) // 64) * 64
            for low, high in sorted(blocks.values()):
                if low - at >= need:
                    break
                at = high
            blocks[name] = (at, at + need)
            peak = max(peak, at + need)
        return peak

    def test_first_fit_takes_the_lowest_hole(self):
        random.seed(7)
        for most in (3, 40, 400):
            events, alive = [], []
            for name in range(2000):
                if alive and random.random() < len(alive) / most:
                    events.append(("f", alive.pop(random.randrange(len(alive))), 0))
                events.append(("a", name, random.choice((0, 64, 65, 1000, random.randrange(1 << 20)))))
                alive.append(name)
            rows = "".join(f"{k},{i},{'' if k == 'f' else s},0,0,{t}\n" for t, (k, i, s) in enumerate(events))
            got = self.run_berth("replay", self.file(LOG_HEAD + rows), "--policy", "first-fit-like", "--capacity", "1TiB", "--json")
            self.assertEqual(json.loads(got.stdout)["peak_reserved_bytes"], self.peak_of_first_fit(events))

    @unittest.skipIf("BERTH_SANITIZED" in os.environ, "a cost")
    def test_many_holes_are_not_looked_at_one_by_one(self):
        n = 40_000  # every second one of these is freed, and each of the larger ones fits none of the holes
        rows = [f"a,{i},1,0,0,{i}" for i in range(2 * n)] + [f"f,{i},,0,0,{2 * n + i}" for i in range(0, 2 * n, 2)]
        rows += [f"a,{2 * n + i},65,0,0,{3 * n + i}" for i in range(n)]
        got = self.run_berth("replay", self.file(LOG_HEAD + "\n".join(rows) + "\n"), "--policy", "first-fit-like", "--capacity", "1TiB", "--json")
        self.assertEqual(json.loads(got.stdout)["peak_reserved_bytes"], 64 * 4 * n)

    def test_idle_bytes_of_other_streams_are_unusable(self):
        rows = [f"a,{i},{9 << 20},{i},0,{i}" for i in range(3)] + [f"f,{i},,{i},0,{i + 3}" for i in range(3)]
        path = self.file(LOG_HEAD + "\n".join([*rows, f"a,9,{40 << 20},3,0,9"]) + "\n")
        got = json.loads(self.run_berth("replay", path, "--policy", "pytorch-like", "--json").stdout)
        self.assertGreater(got["fragmentation"], 0.3, got)

    def test_policies_are_listed(self):
        listed = "{berth,first-fit-like,best-fit-like,bfc-like,pytorch-like}"
        self.assertIn(listed, self.run_berth("replay", "--help").stdout)
        got = self.run_berth("replay", self.file(log(3)), "--policy", "worst-fit")
        self.assertEqual((got.returncode, got.stdout), (2, ""))
        self.assertIn(listed, got.stderr)

    def expect_wrong(self, content, says):
        path = content if os.path.isabs(str(content)) else self.file(content)
        for verb in (["report"], ["report", "--json"]):
            got = self.run_berth(*verb, path)
            self.assertEqual((got.returncode, got.stdout), (2, ""), (content, got))
            self.assertEqual(got.stderr.count("\n"), 1, got.stderr)
            self.assertIn(says, got.stderr)

    def test_wrong_input_is_one_line_and_two(self):
        packed = gzip.compress(log(5000).encode())
        self.expect_wrong("/no/such/file", "cannot open")
        self.expect_wrong(packed[: len(packed) // 2], "cannot read")
        self.expect_wrong("", "is empty")
        self.expect_wrong(os.urandom(3000).replace(b"{", b"[").replace(b"\x1f\x8b", b"xx"), "")
        self.expect_wrong("id,lower,upper,size\nx,0,1,-2\n", "f:2: size is negative")
        self.expect_wrong(LOG_HEAD + "q,1,2,0,0,0\n", "f:2: ev")
        self.expect_wrong(LOG_HEAD + "a,1,2,0,0,nan\n", "f:2: t_us")
        self.expect_wrong(LOG_HEAD + "a,1,2,0,0,0\na,1,2,0,0,0\n", "f:3: id 1 is allocated twice")
        for gap in ("\n\n", "\r\n\n"):  # which are passed over, and counted
            self.expect_wrong(LOG_HEAD + gap + "a,1,2,0,0,0\n" + gap + "a,1,2,0,0,0\n", "f:7: id 1 is allocated twice")
        self.expect_wrong(LOG_HEAD + f"\na,1,{2**62},0,0,0\n\na,2,1,0,0,0\n", "f:5: more than 2^62 bytes are alive")
        self.expect_wrong(LOG_HEAD + "a,1,9223372036854775808,0,0,0\n", "2^62")
        self.expect_wrong("{}", "no key 'format'")
        self.expect_wrong("{", "not JSON")
        self.expect_wrong({"format": "berth-problem/1"}, "no key 'buffers'")
        self.expect_wrong({"format": "berth-plan/2", "arena_bytes": 1}, "format is not 'berth-problem/1'")

    def test_a_plan_that_lies(self):
        def buffers(**changes):
            return {**PLAN, "buffers": [{**PLAN["buffers"][0], **changes}]}

        for content, says in (
            ({**PLAN, "lower_bound": 101}, "lower_bound exceeds"),
            ({**PLAN, "optimal": 1}, "optimal"),
            ({**PLAN, "buffers": {}}, "not a list"),
            (buffers(offset=41), "does not lie in the arena"),
            (buffers(size=2**64 - 1), "does not lie in the arena"),
            (buffers(size=-1), "negative"),
            (buffers(lower=5), "ends before it begins"),
        ):
            self.expect_wrong(content, says)

    def test_a_snapshot_that_lies(self):
        def events(*rows):
            return {**SNAPSHOT, "events": list(rows)}

        without = copy.deepcopy(SNAPSHOT)
        del without["pool"]["cached"]
        for content, says in (
            (events(["a", 64, 1, 0, 0, 0, 0], ["f", 64, 6272, 0, 0, 0, 0]), "events[1]: frees 6272 bytes of a block of 1"),
            (events(["f", 64, 1, 0, 0, 0, 0]), "frees an address that is not alive"),
            (events(["a", 64, 1, 0, 0, 0, 0], ["a", 64, 1, 0, 0, 0, 0]), "events[1]: allocates an address that is alive"),
            (events(["a", 64, 1, 0, 0, 0, 3]), "a site that is not there"),
            (events(["x", 64, 1, 0, 0, 0, 0]), "neither a nor f: 'x'"),
            (events(["a", 64, 1, 0, 0, 0]), "events[0]"),
            (events(["a", 2**64 - 1, 2, 0, 0, 0, 0]), "beyond the address space"),
            (events(["a", 64, 1, 2**32, 0, 0, 0]), "32 bits"),
            (events(["a", 64, 1, 0, 0, -1, 0]), "no time"),
            (events(["a", 0, 2**62, 0, 0, 0, 0], ["a", 1, 1, 0, 0, 0, 0]), "2^62"),
            ({**SNAPSHOT, "pool": {**POOL, "live_peak": 101}}, "live_peak exceeds reserved_peak"),
            ({**SNAPSHOT, "pool": {**POOL, "cache_hits": 101}}, "more cache_hits"),
            ({**SNAPSHOT, "pool": {**POOL, "frees": 101}}, "more frees"),
            (without, "no key 'cached'"),
            ({**SNAPSHOT, "leaks": []}, "unknown key 'leaks'"),
        ):
            self.expect_wrong(content, says)


if __name__ == "__main__":
    unittest.main()
