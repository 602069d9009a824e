"""Many problems, however many workers die, and plans that are kept, whatever became of them. The oracle is solve()."""

import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings

import berth
from berth import many


def problem(seed, buffers=30, **rules):
    make = random.Random(seed)
    p = berth.Problem(**rules)
    for _ in range(buffers):
        start = make.randrange(20)
        p.add(make.randrange(1, 1000), (start, start + make.randrange(1, 9)), id=f"{seed}-{len(p)}")
    return p


def facts(plan):
    return plan.offsets.tolist(), plan.arena, plan.lower_bound, plan.status


PROBLEMS = [problem(seed) for seed in range(60)]
RIGHT = [facts(p.solve()) for p in PROBLEMS]


class Here(concurrent.futures.Executor):
    """Runs tasks at once, and dies behind so many."""

    def __init__(self, dies_after=10**9, silently=False):
        self.left, self.silently, self.tasks = dies_after, silently, []

    def submit(self, function, *arguments):
        # What crosses to another process would be pickled.
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        self.tasks.append(len(arguments[0]))
        future = concurrent.futures.Future()
        if self.left == 0:
            if not self.silently:
                raise concurrent.futures.BrokenExecutor("dead")
            future.set_exception(concurrent.futures.BrokenExecutor("dead"))
        else:
            self.left -= 1
            future.set_result(function(*arguments))
        return future


class Solving(unittest.TestCase):
    def test_whoever_runs_them_the_plans_are_the_same(self):
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            for executor in (None, Here(), threads, lambda: concurrent.futures.ProcessPoolExecutor(2)):
                plans = berth.plan_many(PROBLEMS, executor=executor)
                self.assertEqual([facts(plan) for plan in plans], RIGHT)
                self.assertEqual(PROBLEMS[3].verify(plans[3]), None)
                self.assertIn('"3-7"', PROBLEMS[3].format(plans[3]))
        self.assertEqual(berth.plan_many([]), [])

    def test_a_problem_that_comes_again_is_solved_once(self):
        executor = Here()
        named = berth.Problem()
        for each in ("a", "b"):
            named.add(5, (0, 1), id=each)
        other = berth.Problem.from_arrays([5, 5], [0, 0], [1, 1])
        plans = berth.plan_many([named, other, named], executor=executor)
        self.assertEqual(executor.tasks, [1])
        self.assertIn('"a"', named.format(plans[0]))
        self.assertIn('"1"', other.format(plans[1]))

    def test_options_and_progress_arrive(self):
        told = []
        plans = berth.plan_many(PROBLEMS[:5], effort="fast", progress=lambda done, all_: told.append((done, all_)))
        self.assertEqual([facts(p) for p in plans], [facts(p.solve(effort="fast")) for p in PROBLEMS[:5]])
        self.assertEqual((told[0], told[-1]), ((0, 5), (5, 5)))
        with self.assertRaisesRegex(berth.InputError, "effort: 'most'"):
            berth.plan_many(PROBLEMS, effort="most")

    def test_no_is_an_answer(self):
        tight = problem(1, capacity=10)
        self.assertEqual(berth.plan_many([tight], executor=Here())[0].status, "infeasible")


class Failing(unittest.TestCase):
    def test_a_bad_problem_is_told_by_its_index_and_costs_no_other(self):
        backwards = problem(1)
        backwards.add(1, (5, 2), id="backwards")
        for executor in (None, Here()):
            with self.assertRaisesRegex(berth.ManyError, "2 of 62 problems.*the first, 30: .*'backwards'") as caught:
                berth.plan_many(PROBLEMS[:30] + [backwards, "no problem"] + PROBLEMS[30:], executor=executor)
            self.assertEqual(caught.exception.index, 30)
            self.assertEqual(sorted(caught.exception.failures), [30, 31])
            self.assertIsInstance(caught.exception.failures[31], TypeError)
            plans = caught.exception.plans
            self.assertEqual([facts(p) for p in plans[:30] + plans[32:]], RIGHT)
            self.assertEqual(plans[30:32], [None, None])

    def test_an_executor_that_dies_for_good(self):
        for silently in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                journal = os.path.join(folder, "journal")
                with self.assertRaisesRegex(berth.ManyError, "died") as caught:
                    berth.plan_many(PROBLEMS, executor=Here(4, silently), journal=journal)
                self.assertEqual(len(caught.exception.failures), 60 - 32)
                self.assertEqual(sum(plan is not None for plan in caught.exception.plans), 32)
                # The next call has the others only to do.
                rest = Here()
                plans = berth.plan_many(PROBLEMS, executor=rest, journal=journal)
                self.assertEqual(sum(rest.tasks), 60 - 32)
                self.assertEqual([facts(plan) for plan in plans], RIGHT)

    def test_one_that_can_be_made_again_loses_nothing(self):
        lives = iter((Here(1), Here(0, True), Here(7), Here(0), Here()))
        made = []

        def again():
            made.append(next(lives))
            return made[-1]

        self.assertEqual([facts(plan) for plan in berth.plan_many(PROBLEMS, executor=again)], RIGHT)
        self.assertEqual(len(made), 5)
        with self.assertRaisesRegex(berth.ManyError, "60 of 60 .*died"):
            berth.plan_many(PROBLEMS, executor=lambda: Here(0))

    def test_the_first_tasks_run_while_others_are_packed(self):
        packed, at_submit = [], []
        real = many._key

        class Counts(Here):
            def submit(self, *task):
                at_submit.append(len(packed))
                return super().submit(*task)

        def key(*arguments):
            packed.append(1)
            return real(*arguments)

        many._key = key
        try:
            for dies_after in (10**9, 2):  # also where it dies while tasks are sent
                packed.clear(), at_submit.clear()
                executors = iter([Counts(dies_after), Counts()])
                plans = berth.plan_many(PROBLEMS, executor=lambda: next(executors))
                self.assertEqual([facts(p) for p in plans], RIGHT)
                self.assertLess(at_submit[0], len(PROBLEMS))
                self.assertEqual(len(packed), len(PROBLEMS))
        finally:
            many._key = real
        with tempfile.TemporaryDirectory() as folder:  # how much a journal leaves to do decides the tasks
            journal = pathlib.Path(folder, "journal")
            berth.plan_many(PROBLEMS[1:], journal=journal)
            executor = Here()
            berth.plan_many(PROBLEMS, executor=executor, journal=journal)
            self.assertEqual(executor.tasks, [1])

    def test_a_worker_that_is_killed(self):
        pools, killed = [], []

        def pool():
            pools.append(concurrent.futures.ProcessPoolExecutor(2))
            return pools[-1]

        def kill(done, _):
            if done and not killed and pools[-1]._processes:
                killed.append(next(iter(pools[-1]._processes)))
                os.kill(killed[0], signal.SIGKILL)

        self.assertEqual([facts(p) for p in berth.plan_many(PROBLEMS, executor=pool, progress=kill)], RIGHT)
        self.assertTrue(killed)


    def test_what_making_a_task_raises_is_not_taken_for_a_death(self):
        class Fails(berth.Problem):
            def _packed(self, names=True):
                raise RuntimeError("mine")

        for executor in (None, Here(), Here):
            with self.assertRaisesRegex(RuntimeError, "mine"):
                berth.plan_many([PROBLEMS[0], Fails(), PROBLEMS[1]], executor=executor)


class Journals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "journal"

    def test_a_journal_is_read_whatever_was_cut_off(self):
        berth.plan_many(PROBLEMS, journal=self.path)
        whole = self.path.read_bytes()
        lines = whole.splitlines(keepends=True)
        garbage = b'\xff\x00{"key":3}\n[]\n7\n{"key":"x","entry":"?"}\n'
        for kept, text in ((60, whole), (59, whole[:-30]), (0, b""), (0, garbage), (2, garbage + b"".join(lines[:2]))):
            self.path.write_bytes(text)
            executor = Here()
            plans = berth.plan_many(PROBLEMS, executor=executor, journal=self.path)
            self.assertEqual(sum(executor.tasks), 60 - kept)
            self.assertEqual([facts(plan) for plan in plans], RIGHT)
            again = Here()
            berth.plan_many(PROBLEMS, executor=again, journal=self.path)
            self.assertEqual(again.tasks, [])

    def test_other_options_are_other_answers(self):
        berth.plan_many(PROBLEMS[:3], journal=self.path)
        executor = Here()
        berth.plan_many(PROBLEMS[:3], executor=executor, journal=self.path, effort="fast")
        self.assertEqual(sum(executor.tasks), 3)

    def test_a_plan_that_was_written_over_is_not_believed(self):
        berth.plan_many(PROBLEMS[:1], journal=self.path)
        record = json.loads(self.path.read_text())
        packed = bytearray(base64.b64decode(record["entry"]))[32:]
        wrong = bytes(packed[:-1]) + b"\x7f"
        record["entry"] = base64.b64encode(hashlib.sha256(wrong).digest() + wrong).decode()
        self.path.write_text(json.dumps(record) + "\n")
        self.assertEqual(facts(berth.plan_many(PROBLEMS[:1], journal=self.path)[0]), RIGHT[0])

    def test_a_disk_that_is_full_costs_no_plan(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
            try:
                plans = berth.plan_many(PROBLEMS, journal=self.path)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assertEqual([facts(plan) for plan in plans], RIGHT)
        self.assertTrue(said and all("journal" in str(w.message) for w in said))
        self.assertEqual(self.path.stat().st_size, 4000)
        again = Here()
        berth.plan_many(PROBLEMS, executor=again, journal=self.path)  # goes on behind what was cut off
        self.assertLess(sum(again.tasks), len(PROBLEMS))

    def test_a_line_that_nobody_can_read(self):
        self.path.write_text("[" * 200000 + "\n")
        for tasks in ([1], []):
            executor = Here()
            self.assertEqual(facts(berth.plan_many(PROBLEMS[:1], executor=executor, journal=self.path)[0]), RIGHT[0])
            self.assertEqual(executor.tasks, tasks)

    def test_nowhere_to_write(self):
        with self.assertRaises(OSError):
            berth.plan_many(PROBLEMS, journal=self.path.parent / "no" / "folder")


class Caches(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "cache"

    def test_plans_come_back(self):
        for store in ({}, self.path):
            cache = berth.PlanCache(store)
            berth.plan_many(PROBLEMS, cache=cache)
            again = berth.PlanCache(store)
            executor = Here()
            plans = berth.plan_many(PROBLEMS, executor=executor, cache=again)
            self.assertEqual([facts(plan) for plan in plans], RIGHT)
            self.assertEqual(again.hits + again.refused, 60)
            self.assertGreater(again.hits, 50)  # those that only a search has proved are refused
            self.assertEqual(sum(executor.tasks), again.refused)
            friend = berth.PlanCache(store, trusted=True)
            self.assertEqual([facts(friend.solve(p)) for p in PROBLEMS], RIGHT)
            self.assertEqual(friend.hits, 60)

    def test_a_certificate_of_what_is_not_there_is_refused(self):
        p = berth.Problem.from_arrays([64, 64], [0, 1], [2, 3])
        packed = p.solve()._packed(True)
        self.assertEqual(packed[-9], 1)  # one argument; a second one, of a search, is about buffer 5 or pool 5
        for more in (b"\x01\x00\x00\x00\x01\x05\x01", b"\x01\x00\x01\x05\x00\x00\x01"):
            wrong = packed[:-9] + b"\x02" + packed[-8:] + more
            with self.assertRaisesRegex(berth.InputError, "not there"):
                p._unpacked(wrong)

    def test_only_what_decides_the_plan_is_the_key(self):
        cache = berth.PlanCache({})
        p = berth.Problem.from_arrays([1, 2], [0, 0], [1, 1])
        cache.solve(p)
        cache.solve(berth.Problem.from_arrays([1, 2], [0, 0], [1, 1], ids=["x", "y"]))
        cache.solve(p, effort="normal", threads=2)
        self.assertEqual((cache.hits, cache.misses), (2, 1))
        for other in (
            berth.Problem.from_arrays([1, 3], [0, 0], [1, 1]),
            berth.Problem.from_arrays([1, 2], [0, 0], [1, 1], alignment=2),
            berth.Problem.from_arrays([1, 2], [0, 0], [1, 1], capacity=8),
        ):
            cache.solve(other)
        cache.solve(p, effort="fast")
        self.assertEqual((cache.hits, cache.misses), (2, 5))

    def test_the_order_of_the_buffers_is_not_the_key(self):
        random.seed(5)
        size = [random.randrange(1, 5000) for _ in range(60)]
        lower = [random.randrange(40) for _ in range(60)]
        upper = [at + random.randrange(1, 12) for at in lower]
        apart = [(3, 40), (17, 5), (22, 59)]

        def shuffled(order):
            p = berth.Problem(alignment=64)
            for b in order:
                p.add(size[b], (lower[b], upper[b]), id=f"b{b}")
            for a, b in apart:
                p.separate(order.index(a), order.index(b))
            return p

        cache = berth.PlanCache({})
        first = cache.solve(shuffled(range(60)))
        self.assertTrue(first.optimal)
        at = dict(zip(range(60), first.offsets.tolist()))
        for _ in range(5):
            order = random.sample(range(60), 60)
            plan = cache.solve(shuffled(order))
            self.assertEqual({b: o for b, o in zip(order, plan.offsets.tolist())}, at)
            self.assertEqual((plan.arena, plan.lower_bound, plan.status), (first.arena, first.lower_bound, first.status))
        self.assertEqual((cache.hits, cache.refused, cache.misses), (5, 0, 1))
        size[7] += 64
        cache.solve(shuffled(range(60)))
        self.assertEqual(cache.misses, 2)
        apart[0] = (4, 40)
        cache.solve(shuffled(range(60)))
        self.assertEqual((cache.hits, cache.misses), (5, 3))

    def test_what_cannot_prove_itself_is_solved_again(self):
        p = problem(3)
        best = p.solve()
        offsets = best.offsets.tolist()
        worse = p.plan([o + 7 for o in offsets])  # verified, and not the best
        liar = pickle.loads(pickle.dumps(best))
        for entry in (
            many.entry_of(worse, True),
            many.entry_of(p.plan([0] * len(p)), True),  # overlaps
            many.entry_of(problem(4).solve(), True),  # of another problem
            many.entry_of(problem(3, capacity=10).solve(), True),  # infeasible: under a capacity that is not there
            many.entry_of(liar, True)[:-1],
            b"",
            "text",
            7,
        ):
            cache = berth.PlanCache({many.key_of(p, dict(effort="normal", work=0, deadline=None, penalty_first=False)): entry})
            self.assertEqual(facts(cache.solve(p)), facts(best))
            self.assertEqual((cache.hits, cache.refused), (0, 1))
            self.assertEqual(facts(cache.solve(p)), facts(best))  # what was wrong has been put right
            self.assertEqual(cache.hits, 1)

    def test_entries_with_bent_bytes(self):
        p = problem(3, capacity=10**6)
        right = facts(p.solve())
        store = {}
        berth.PlanCache(store).solve(p)
        (key,) = store
        packed = store[key][32:]
        make = random.Random(5)
        for _ in range(3000):
            bent = bytearray(packed)
            for _ in range(make.randrange(1, 4)):
                bent[make.randrange(len(bent))] = make.randrange(256)
            plan = many.plan_from(p, hashlib.sha256(bent).digest() + bytes(bent), trusted=False, ordered=True)
            if plan is not None:  # another plan may be as good: none may be worse, or say so
                self.assertIsNone(p.verify(plan))
                self.assertEqual((plan.arena, plan.lower_bound, plan.status), right[1:])

    def test_a_folder_full_of_garbage_or_none(self):
        cache = berth.PlanCache(self.path)
        berth.plan_many(PROBLEMS[:5], cache=cache)
        for file in self.path.glob("??/*"):
            file.write_bytes(b"garbage")
        spoilt = berth.PlanCache(self.path)
        self.assertEqual([facts(spoilt.solve(p)) for p in PROBLEMS[:5]], RIGHT[:5])
        self.assertEqual((spoilt.hits, spoilt.refused), (0, 5))
        for file in list(self.path.glob("??/*")):
            file.unlink()
            file.mkdir()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            spoilt = berth.PlanCache(self.path)
            self.assertEqual([facts(spoilt.solve(p)) for p in PROBLEMS[:5]], RIGHT[:5])
        self.assertEqual(len([w for w in said if "keeps nothing" in str(w.message)]), 1)
        (self.path.parent / "file").write_text("")
        with self.assertRaisesRegex(berth.InputError, "cannot be a cache's folder"):
            berth.PlanCache(self.path.parent / "file")

    def test_what_a_killed_writer_left_is_no_entry(self):
        program = (
            "import berth, os, signal\n"
            f"cache = berth.PlanCache({str(self.path)!r})\n"
            "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
            "cache.solve(berth.Problem())\n"
        )
        self.assertEqual(subprocess.run([sys.executable, "-c", program]).returncode, -signal.SIGKILL)
        self.assertEqual(len([file for file in self.path.rglob("*") if file.is_file()]), 1)
        store = berth.PlanCache(self.path).store
        self.assertEqual((list(store), len(store)), ([], 0))

    def test_an_entry_whose_texts_are_none_is_refused(self):
        p = problem(3)
        best = p.solve()
        packed = best._packed(True)
        for text in (best.solver.encode(), best.reason.encode()):
            if not text:
                continue
            bent = packed.replace(text, b"\xff" + text[1:])
            self.assertNotEqual(bent, packed)
            entry = hashlib.sha256(bent).digest() + bent
            self.assertIsNone(many.plan_from(p, entry, trusted=True, ordered=True))

    def test_a_plan_that_passes_hints_over_is_not_believed(self):
        def two(first, second):
            p = berth.Problem()
            p.add(8, (0, 1), hint=first, id="a")
            p.add(8, (0, 1), hint=second, id="b")
            return p

        asked = two(8, 0)
        key = many.key_of(asked, dict(effort="normal", work=0, deadline=None, penalty_first=False))
        for other in (two(8, 0), two(0, 8)):  # of which one has the buffers in the entry's order
            cache = berth.PlanCache({key: many.entry_of(other.solve(), False)})
            self.assertEqual(cache.solve(asked).offsets.tolist(), [8, 0])
        friends = berth.PlanCache({key: many.entry_of(asked.solve(), True)}, trusted=True)
        self.assertEqual((friends.solve(asked).offsets.tolist(), friends.hits), ([8, 0], 1))

    def test_a_store_that_may_not_be_written(self):
        class ReadOnly(dict):
            def __setitem__(self, key, value):
                raise PermissionError(13, "read-only")

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            plans = berth.plan_many(PROBLEMS[:5], cache=berth.PlanCache(ReadOnly()))
        self.assertEqual([facts(plan) for plan in plans], RIGHT[:5])
        self.assertEqual(len(said), 1)

    def test_what_a_deadline_cut_short_is_not_kept(self):
        store = {}
        p = problem(9, 300, alignment=7)
        plan = berth.PlanCache(store).solve(p, effort="best", deadline=0.0)
        self.assertEqual(len(store), 0 if plan.deadline_hit else 1)


if __name__ == "__main__":
    unittest.main()
