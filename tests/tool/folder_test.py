#!/usr/bin/env python3
"""Runs `berth plan DIR --shard`. usage: folder_test.py BERTH"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)
HEAD = "id,lower,upper,size\n"


def shard_of(content, shards):
    """Lamping and Veach's jump hash of the first 64 bits of SHA-256."""
    key, at, following = int.from_bytes(hashlib.sha256(content).digest()[:8], "big"), -1, 0
    while following < shards:
        at = following
        key = (key * 2862933555777941757 + 1) & (2**64 - 1)
        following = (at + 1) * 2**31 // ((key >> 33) + 1)
    return at + 1


class Folders(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.problems, self.out = self.place / "problems", self.place / "out"
        (self.problems / "deeper").mkdir(parents=True)
        for i in range(10):
            folder = self.problems / "deeper" if i % 3 == 0 else self.problems
            (folder / f"p{i}.csv").write_text(HEAD + f"x,0,2,{10 + i}\ny,1,3,20\n")
        (self.problems / ".hidden").write_text("no problem")

    def plan(self, *args, status=0):
        done = subprocess.run(
            [BERTH, "plan", str(self.problems), "--out", str(self.out), *args], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def lines(self):
        return [json.loads(line) for file in self.out.iterdir() for line in file.read_text().splitlines()]

    def test_an_order_above_the_capacity_is_no_plan_and_done_again(self):
        dims = {"format": "berth-problem/1", "dimensions": [{"name": "n", "least": 1, "most": 4}],
                "buffers": [{"id": "x", "size": "64*n", "lower": 0, "upper": 1}]}
        for old in self.problems.rglob("p*.csv"):
            old.unlink()
        (self.problems / "sym.json").write_text(json.dumps(dims))
        for planned in (1, 1):
            got = json.loads(self.plan("--capacity", "10", "--json", status=1).stdout)
            self.assertEqual((got["planned"], got["without_plan"], got["failed"]), (planned, 1, 0))
        self.assertEqual(self.lines()[0]["plan"]["arena_bytes"], None)

    def test_a_folder_a_file_a_pipe_and_a_former_plan_say_the_same(self):
        """One plan of each kind, from everywhere."""
        kinds = {
            "costs": {"pools": [{"id": "fast", "capacity": 10, "cost": 1}, {"id": "slow", "cost": 2.5}], "buffers": [
                {"id": "x", "size": 10, "lower": 0, "upper": 2}, {"id": "y", "size": 5, "lower": 1, "upper": 3}]},
            "moves": {"pools": [{"id": "fast", "capacity": 10}, {"id": "slow", "cost": 1}],
                      "transfers": [{"from": "slow", "to": "fast", "bandwidth": 2}, {"from": "fast", "to": "slow", "bandwidth": 2}],
                      "buffers": [
                          {"id": "x", "size": 8, "lower": 0, "upper": 8, "uses": [{"at": 0, "write": True}, {"at": 7}]},
                          {"id": "y", "size": 8, "lower": 3, "upper": 5, "uses": [{"at": 3, "write": True}, {"at": 4}]}]},
            "dimensions": {"dimensions": [{"name": "n", "least": 1, "most": 4}],
                           "buffers": [{"id": "x", "size": "64*n + 3", "lower": 0, "upper": 2}, {"id": "y", "size": 9, "lower": 1, "upper": 3}]},
        }
        for old in self.problems.rglob("p*.csv"):
            old.unlink()
        for kind, problem in kinds.items():
            (self.problems / f"{kind}.json").write_text(json.dumps({"format": "berth-problem/1"} | problem))
        self.plan()
        of_folder = {line["file"]: line["plan"] for line in self.lines()}
        for kind in kinds:
            path = str(self.problems / f"{kind}.json")
            run = lambda *args, **more: json.loads(subprocess.check_output([BERTH, "plan", *args, "--json"], text=True, **more))
            said = [of_folder[f"{kind}.json"], run(path), run("-", input=pathlib.Path(path).read_text())]
            if kind == "costs":
                former = self.place / "former.json"
                former.write_text(json.dumps(said[0]))
                said.append(run(path, "--keep", str(former)))
                self.assertEqual((said[0]["cost"], said[0]["cost_bound"]), (22.5, 22.5))
            for each in said:
                each.pop("elapsed_ms")
                for key in ("moved", "moved_bytes", "moved_fewest"):
                    each.pop(key, None)
                self.assertEqual(each, said[0], kind)
            plan = self.place / "plan.json"
            plan.write_text(json.dumps(said[0]))
            self.assertEqual(subprocess.run([BERTH, "verify", path, str(plan)]).returncode, 0)

    def test_deadlines_are_numbers_above_zero(self):
        for deadline in ("nan", "-5", "0"):
            done = self.plan("--deadline", deadline, status=2)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_shards_have_every_problem_once(self):
        for i in (1, 2, 3):
            self.plan("--shard", f"{i}/3")
        found = self.lines()
        names = sorted(p.relative_to(self.problems).as_posix() for p in self.problems.rglob("*.csv"))
        self.assertEqual(sorted(line["file"] for line in found), names)
        for line in found:
            number = int(line["file"][-5])
            self.assertEqual((line["plan"]["arena_bytes"], line["plan"]["verified"]), (30 + number, True))
            self.assertEqual([b["id"] for b in line["plan"]["buffers"]], ["x", "y"])
        for file in self.out.iterdir():
            for line in file.read_text().splitlines():
                content = (self.problems / json.loads(line)["file"]).read_bytes()
                self.assertEqual(file.name, f"shard-{shard_of(content, 3)}-of-3.jsonl")

    def planned(self, shards):
        """How many files each shard plans that were not planned before."""
        return [json.loads(self.plan("--json", "--shard", f"{i}/{shards}").stdout)["planned"] for i in range(1, shards + 1)]

    def test_another_file_or_shard_plans_few_files_again(self):
        for i in range(200):
            (self.problems / f"more{i:03}.csv").write_text(HEAD + f"x,0,2,{100 + i}\n")
        self.assertEqual(sum(self.planned(3)), 210)
        (self.problems / "a_first.csv").write_text(HEAD + "x,0,2,5\n")
        self.assertEqual(sum(self.planned(3)), 1)
        (self.problems / "a_first.csv").rename(self.problems / "z_last.csv")
        self.assertEqual(sum(self.planned(3)), 1)
        moved = self.planned(4)
        self.assertEqual(moved[:3], [0, 0, 0])
        self.assertLess(moved[3], 211 / 4 + 5 * (211 / 4) ** 0.5)
        self.assertEqual(sum(self.planned(3)), 0)

    def test_plans_come_from_a_cache(self):
        cache = self.place / "cache"

        def call(*more, status=0):
            self.out = self.place / f"out{len(list(self.place.iterdir()))}"
            done = self.plan("--cache", str(cache), "--json", *more, status=status)
            got = json.loads(done.stdout)
            return got["planned"], got["cached"], got["failed"], done.stderr

        plans = lambda: sorted((line["file"], line["plan"]["arena_bytes"], line["plan"]["status"]) for line in self.lines())
        self.assertEqual(call(), (10, 0, 0, ""))
        right = plans()
        entries = [file for file in cache.rglob("*") if file.is_file()]
        self.assertEqual(len(entries), 10)
        self.assertEqual(call(), (10, 10, 0, ""))
        self.assertEqual(plans(), right)
        self.assertEqual(call("--effort", "fast")[:2], (10, 0))
        self.assertEqual(call("--capacity", "35", status=1)[:2], (10, 0))
        self.assertEqual(call("--capacity", "35", status=1)[:2], (10, 10))
        pins = self.problems / "pins.csv"
        pins.write_text("id,lower,upper,size,offset\nx,0,2,4,0\ny,1,3,4,2\n")
        self.assertEqual([call(status=1)[1], call(status=1)[1]], [10, 11])
        pins.unlink()
        # Entries that are wrong cost time and a line, and no plan.
        good = entries[0].read_bytes()
        newer = good[32:64] + b"\x03" + good[65:]
        own = entries[1].read_bytes()
        for wrong in (b"", good[:-1], own, hashlib.sha256(newer).digest() + newer):
            for file in entries:
                file.write_bytes(wrong)
            planned, cached, failed, said = call()
            self.assertEqual((planned, failed), (10, 0))
            self.assertEqual(cached, int(wrong == own))
            self.assertEqual(plans(), right)
            self.assertEqual(said.count("\n"), 1 if wrong else 0, said)
        for file in entries:
            file.unlink()
            os.mkfifo(file)
        planned, cached, failed, said = call()
        self.assertEqual((planned, cached, failed, plans()), (10, 0, 0, right))
        self.assertIn("is no file", said)
        (self.place / "mine").write_text("mine")
        for file in entries:
            file.unlink()
            file.symlink_to(self.place / "mine")
        self.assertEqual(call()[:3], (10, 0, 0))
        self.assertEqual((self.place / "mine").read_text(), "mine")

    def test_a_cache_that_fails_costs_no_plan(self):
        (self.place / "file").write_text("")
        self.assertIn("cannot be a folder", self.plan("--cache", str(self.place / "file"), status=2).stderr)
        done = subprocess.run([BERTH, "plan", str(self.problems), "--out", str(self.out), "--cache", "redis://127.0.0.1:1", "--json"],
                              capture_output=True, text=True, env={**os.environ, "PATH": str(self.place)}, timeout=60)
        self.assertEqual((done.returncode, json.loads(done.stdout)["planned"]), (0, 10), done.stderr)
        self.assertIn("berth.cache has ended", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_what_is_there_is_kept_and_what_changed_is_done_again(self):
        self.plan()
        (file,) = self.out.iterdir()
        whole = file.read_bytes()
        self.assertEqual(json.loads(self.plan("--json").stdout)["kept"], 10)
        self.assertEqual(file.read_bytes(), whole)
        for text, kept in ((whole[:-20], 9), (b"", 0), (b"garbage\n{}\n[1]\n" + whole, 10), (whole + whole, 10)):
            file.write_bytes(text)
            answer = json.loads(self.plan("--json").stdout)
            self.assertEqual((answer["files"], answer["kept"], answer["planned"]), (10, kept, 10 - kept))
            self.assertEqual(len({line["file"] for line in self.lines()}), len(self.lines()))
        (self.problems / "p1.csv").write_text(HEAD + "x,0,2,100\n")
        (self.problems / "p2.csv").unlink()
        answer = json.loads(self.plan("--json").stdout)
        self.assertEqual((answer["files"], answer["kept"], answer["planned"]), (9, 8, 1))
        self.assertEqual([line["plan"]["arena_bytes"] for line in self.lines() if line["file"] == "p1.csv"], [100])
        self.assertEqual(json.loads(self.plan("--json", "--effort", "fast").stdout)["planned"], 9)

    def test_lines_that_were_edited_are_done_again(self):
        self.plan("--shard", "1/1")
        (file,) = self.out.iterdir()
        whole = file.read_text()
        lines = whole.splitlines()
        first = json.loads(lines[0])
        for edit in (
            lambda plan: plan["buffers"][0].update(offset=999999999),
            lambda plan: plan["buffers"][1].update(offset=0),  # overlaps
            lambda plan: plan.update(arena_bytes=plan["arena_bytes"] - 1),
            lambda plan: plan.update(lower_bound=plan["arena_bytes"] + 1),
            lambda plan: plan.update(certificate=[]),
            lambda plan: plan.update(buffers=plan["buffers"][:1]),
            lambda plan: plan.update(arena_bytes=None, status="infeasible", verified=False),
            lambda plan: plan.update(status="infeasible"),
            lambda plan: plan.update(arena_bytes=None),
            lambda plan: plan.update(verified="yes"),
        ):
            line = json.loads(lines[0])
            edit(line["plan"])
            file.write_text("\n".join([json.dumps(line), *lines[1:]]) + "\n")
            answer = json.loads(self.plan("--json").stdout)
            self.assertEqual((answer["kept"], answer["planned"]), (9, 1))
            (again,) = [line for line in self.lines() if line["file"] == first["file"]]
            self.assertEqual(again["plan"]["buffers"], first["plan"]["buffers"])

    def test_lines_of_other_problems_are_kept(self):
        for old in self.problems.rglob("p*.csv"):
            old.unlink()
        buffers = [{"id": "x", "size": 64, "lower": 0, "upper": 2}, {"id": "y", "size": 64, "lower": 1, "upper": 3}]
        sizes = [{**buffer, "size": "64*n"} for buffer in buffers]
        pools = [{"id": "fast", "capacity": 64, "cost": 1}, {"id": "far", "cost": 2}]
        for name, more in (("plain", {"buffers": buffers}), ("pools", {"buffers": buffers, "pools": pools}),
                           ("sizes", {"buffers": sizes, "dimensions": [{"name": "n", "least": 1, "most": 4}]})):
            (self.problems / f"{name}.json").write_text(json.dumps({"format": "berth-problem/1", **more}))
        for kept in (0, 3):
            answer = json.loads(self.plan("--json").stdout)
            self.assertEqual((answer["kept"], answer["planned"], answer["failed"]), (kept, 3 - kept, 0))

    def test_one_bad_file_costs_no_other(self):
        (self.problems / "bad.csv").write_text(HEAD + "x,0,2,minus\n")
        for _ in range(2):
            done = self.plan("--json", status=2)
            self.assertIn("bad.csv:2: ", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertEqual(json.loads(done.stdout)["failed"], 1)
            self.assertEqual(len(self.lines()), 11)
            self.assertIn("bad.csv:2: ", [line["error"] for line in self.lines() if "error" in line][0])

    def test_neither_what_it_wrote_nor_a_pipe_is_a_problem(self):
        self.out = self.problems / "plans"
        os.mkfifo(self.problems / "pipe")
        for kept in (0, 10):
            answer = json.loads(self.plan("--json").stdout)
            self.assertEqual((answer["files"], answer["kept"], answer["failed"]), (10, kept, 0))

    def test_a_shard_that_leads_to_a_problem_is_not_written(self):
        self.out.mkdir()
        os.symlink(self.problems / "p1.csv", self.out / "shard-2-of-2.jsonl")
        os.mkfifo(self.out / "shard-1-of-2.jsonl")
        before = (self.problems / "p1.csv").read_text()
        for shard, what in (("2/2", "is what was read"), ("1/2", "is no file")):
            done = self.plan("--shard", shard, status=2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
            self.assertIn(what, done.stderr)
        self.assertEqual((self.problems / "p1.csv").read_text(), before)

    def test_more_shards_than_problems(self):
        last = 2**32 - 1
        for shard in ("1", str(last)):
            answer = json.loads(self.plan("--json", "--shard", f"{shard}/{last}").stdout)
            self.assertEqual((answer["files"], answer["planned"]), (0, 0))
        for i in range(1, 41):
            self.plan("--shard", f"{i}/40")
        self.assertEqual(len(self.lines()), 10)

    def test_shards_below_the_folder_are_dealt_the_same_problems(self):
        self.out = self.problems / "a" / "plans"
        for _ in range(2):
            for i in (1, 2, 3):
                self.plan("--shard", f"{i}/3")
        found = [line["file"] for line in self.lines()]
        self.assertEqual((len(found), len(set(found))), (10, 10))

    def test_no_is_an_answer(self):
        for _ in range(2):
            answer = json.loads(self.plan("--json", "--capacity", "35", status=1).stdout)
            self.assertEqual(answer["without_plan"], 4)
        self.assertEqual(sum(line["plan"]["status"] == "infeasible" for line in self.lines()), 4)

    def test_wrong_calls(self):
        for wrong in ("0/3", "4/3", "1", "1/0", "1/2x", "-1/3", "/", "1/4294967296"):
            self.assertIn("--shard", self.plan("--shard=" + wrong, status=2).stderr)
        self.assertIn("a folder: with", self.plan("--keep", "x", status=2).stderr)
        for arguments in (["plan", str(self.problems)], ["plan", str(self.problems), "--out", str(self.problems)]):
            done = subprocess.run([BERTH, *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        minus = subprocess.run([BERTH, "plan", str(self.problems), "--out", "-"], capture_output=True, text=True, cwd=self.place)
        self.assertEqual((minus.returncode, minus.stdout, minus.stderr.count("\n")), (2, "", 1))
        self.assertFalse((self.place / "-").exists())
        one = subprocess.run([BERTH, "plan", str(self.problems / "p1.csv"), "--shard", "1/2"], capture_output=True, text=True)
        self.assertIn("--shard: of a folder", one.stderr)


if __name__ == "__main__":
    unittest.main()
