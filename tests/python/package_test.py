"""What Python's own users do: arrays, paths, pickles, notebooks, Ctrl-C, asyncio. The oracle is the loop over add()."""

import array
import asyncio
import copy
import gc
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy

import berth

HERE = os.path.dirname(os.path.abspath(__file__))


def hard_problem(count=100, seed=1):
    """One whose bound no plan meets, so that effort best searches for much longer than a test may last."""
    make = random.Random(seed)
    p = berth.Problem()
    for _ in range(count):
        start = make.randrange(50)
        p.add(
            make.randrange(1, 1000), (start, start + make.randrange(1, 25)), alignment=make.choice((1, 96, 160, 224))
        )
    return p


def rich_problem():
    p = berth.Problem(alignment=8, granularity=4)
    p.add_pool("fast", capacity=64, alignment=16, reserved=[(0, 8)], cost=1.5)
    p.add_pool("slow", cost=2)
    p.add(10, (-5, 9), offset=16, id="x")
    p.add(12, lifetimes=[(0, 2), (4, 6)], hint=32, pools=["slow", "fast"])
    p.add(5, (6, 7), alias_group=1, alignment=32)
    p.separate(0, 1)
    p.penalize(0, 2, 0.5)
    return p


def of_state(kind, *state):
    made = kind.__new__(kind)
    made.__setstate__(state)
    return made


def with_number(packed, at, number):
    """The packed bytes with another number where one begins."""
    end = at
    while packed[end] & 0x80:
        end += 1
    digits = []
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return packed[:at] + bytes(digits + [number]) + packed[end + 1 :]


def behind(packed, text):
    """Where the first number behind a packed text begins."""
    return packed.index(bytes([len(text)]) + text.encode()) + 1 + len(text)


class Arrays(unittest.TestCase):
    def as_by_add(self, make, size, lower, upper, **more):
        q = berth.Problem()
        for row in zip(size, lower, upper):
            q.add(row[0], (row[1], row[2]))
        p = make(size, lower, upper, **more)
        self.assertEqual(p.ids, q.ids)
        self.assertEqual(p.solve().offsets.tolist(), q.solve().offsets.tolist())

    def test_items_that_change_their_list_do_no_harm(self):
        class Clears:
            def __index__(self):
                column.clear()
                return 1

        column = [Clears()] + [10**6 + i for i in range(1000)]
        p = berth.Problem.from_arrays(column, [0] * 1001, [1] * 1001)
        self.assertEqual((len(p), p.solve().arena), (1001, 1 + sum(10**6 + i for i in range(1000))))

    def test_every_integer_of_every_width_and_stride(self):
        size, lower = numpy.arange(1, 101), numpy.arange(-50, 50)
        for kind in (numpy.int8, numpy.int16, numpy.int32, numpy.int64):
            self.as_by_add(berth.Problem.from_arrays, size.astype(kind), lower.astype(kind), (lower + 7).astype(kind))
        for kind in (numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64):
            self.as_by_add(berth.Problem.from_arrays, size.astype(kind), lower, lower + 7)
        table = numpy.stack([size, lower, lower + 7], axis=1)
        self.as_by_add(berth.Problem.from_arrays, *table.T)  # not contiguous
        self.as_by_add(berth.Problem.from_arrays, size[::-2], lower[::2], lower[::2] + 3)
        self.as_by_add(berth.Problem.from_arrays, array.array("l", [5, 6]), [0, 1], (2, numpy.int8(3)))
        self.assertEqual(len(berth.Problem.from_arrays([], [], [])), 0)
        # The largest sizes that there are arrive whole, and are refused as sizes, not as numbers.
        most = berth.Problem.from_arrays(numpy.array([2**64 - 1], numpy.uint64), [0], [1])
        with self.assertRaises(berth.InputError):
            most.solve()

    def test_columns_of_wishes(self):
        p = berth.Problem.from_arrays([5, 6], [0, 0], [1, 1], alignments=numpy.array([1, 16]), offset=[32, 0], ids=["a", "b"])
        self.assertEqual((p.ids, p.solve().offsets.tolist()), (["a", "b"], [32, 0]))

    def test_what_is_wrong_is_told_with_its_place(self):
        for wrong, at, arguments in (
            ("size.0.: -1", 0, ([-1], [0], [1])),
            (r"size.1.: 1\.5", 1, ([1, 1.5], [0, 0], [1, 1])),
            ("size: an array of 'd'", None, (numpy.ones(2), [0, 0], [1, 1])),
            ("size: an array of 2 dim", None, (numpy.ones((2, 2), int), [0, 0], [1, 1])),
            ("size: an array of '>.", None, (numpy.ones(2, ">i8"), [0, 0], [1, 1])),
            ("size.2.: 36893488147419103232", 2, ([1, 2, 2**65], [0] * 3, [1] * 3)),
            ("lower.1.: 18446744073709551615", 1, ([1, 1], numpy.array([0, 2**64 - 1], numpy.uint64), [1, 1])),
            ("upper has 1 items, size has 2", 1, ([1, 2], [0, 0], [1])),
            ("upper.1.: 3 is not above lower, 3", 1, ([1, 1], [0, 3], [1, 3])),
        ):
            with self.subTest(wrong), self.assertRaisesRegex(berth.InputError, wrong) as caught:
                berth.Problem.from_arrays(*arguments)
            self.assertEqual(caught.exception.index, at)
        with self.assertRaisesRegex(berth.InputError, "ids.2.: 'a' is there already"):
            berth.Problem.from_arrays([1] * 3, [0] * 3, [1] * 3, ids=["a", "b", "a"])
        with self.assertRaises(TypeError):
            berth.Problem.from_arrays(7, [0], [1])

    def test_numpy_integers_and_no_floats(self):
        p = berth.Problem(alignment=numpy.int64(8))
        p.add(numpy.uint16(9), (numpy.int32(0), numpy.int64(3)), offset=numpy.int8(8))
        self.assertEqual(p.solve().offsets.tolist(), [8])
        for wrong in (1.0, numpy.float32(1), "1"):
            with self.assertRaises(TypeError):
                p.add(wrong, (0, 1))
        with self.assertRaisesRegex(berth.InputError, "live: 9223372036854775808"):
            p.add(1, (0, 2**63))
        self.assertEqual(len(p), 1)

    def test_offsets_hold_their_plan(self):
        offsets = berth.Problem.from_arrays([4] * 1000, [0] * 1000, [1] * 1000).solve().offsets
        gc.collect()
        self.assertEqual(sorted(offsets.tolist()), list(range(0, 4000, 4)))
        with self.assertRaises(ValueError):
            offsets[0] = 1

    def test_without_numpy(self):
        plan = berth.Problem.from_arrays([4, 4], [0, 0], [1, 1]).solve()
        with memoryview(plan) as view:
            self.assertEqual((sorted(view), view.readonly), ([0, 4], True))
        self.assertEqual([plan[0], plan[-1]], plan.offsets.tolist())
        with self.assertRaises(IndexError):
            plan[2]


class Values(unittest.TestCase):
    def test_problems_are_pickled_and_copied_whole(self):
        p = rich_problem()
        plan = p.solve()
        for again in (pickle.loads(pickle.dumps(p)), copy.copy(p), copy.deepcopy(p)):
            self.assertEqual(again.ids, p.ids)
            other = again.solve()
            self.assertEqual(again.format(other), p.format(plan))
            self.assertEqual(again.pools_of(other), p.pools_of(plan))
            again.add(1, (0, 1), id="new")
            self.assertEqual((len(p), len(again)), (3, 4))

    def test_plans_are_pickled_and_copied(self):
        p = rich_problem()
        plan = p.solve()
        for again in (pickle.loads(pickle.dumps(plan)), copy.copy(plan), copy.deepcopy(plan)):
            self.assertEqual(p.format(again), p.format(plan))
            self.assertEqual((again.status, again.solver), (plan.status, plan.solver))
            self.assertEqual(again.to_html(), plan.to_html())

    def test_a_given_plans_arena_counts_empty_buffers(self):
        p = berth.Problem(alignment=4)
        p.add(8, (0, 2))
        p.add(0, (0, 2), offset=100)
        given = p.plan(list(p.solve()))
        self.assertEqual((given.arena, p.verify(given)), (100, None))
        slabs = berth.Problem(max_slab=1 << 20)
        for _ in range(5):
            slabs.add(1, (0, 2))
        with self.assertRaisesRegex(berth.InputError, "64 bits"):
            slabs.plan([1 << 62] * 5, slabs=range(5))

    def test_a_given_plan_is_of_the_problem_as_it_was(self):
        p = berth.Problem()
        p.add_pool("a")
        p.add_pool("b")
        p.add(10, (0, 1))

        class Adds:
            def __index__(self):
                p.add_pool("late")
                return 0

        with self.assertRaisesRegex(berth.InputError, "late"):
            p.plan([Adds()], pools=["late"])

    def test_a_plan_keeps_the_problem_that_it_answers(self):
        p = berth.Problem()
        p.add(10, (0, 1), id="there before")
        plan = p.solve()
        p.add(10, (0, 1), id="added behind")
        self.assertIn("there before", plan.to_html())
        self.assertNotIn("added behind", plan.to_html())

    def test_broken_pickles_are_refused(self):
        for whole in (rich_problem(), rich_problem().solve()):
            state = whole.__getstate__()
            kind = type(whole)
            for part in range(len(state)):
                for cut in range(len(state[part])):
                    broken = list(state)
                    broken[part] = state[part][:cut]
                    with self.assertRaises(berth.InputError):
                        kind.__new__(kind).__setstate__(tuple(broken))
                make = random.Random(7)
                for _ in range(500):  # whatever comes of it, it is no crash
                    bent = bytearray(state[part])
                    bent[make.randrange(len(bent))] = make.randrange(256)
                    broken = list(state)
                    broken[part] = bytes(bent)
                    try:
                        made = kind.__new__(kind)
                        made.__setstate__(tuple(broken))
                    except berth.InputError:
                        continue
                    try:
                        made.solve(effort="fast") if kind is berth.Problem else made.to_html()
                    except berth.InputError:
                        pass

    def test_names_of_a_pickle_are_text(self):
        p = berth.Problem()
        p.add_dimension("batch", 1, 2)
        p.add_pool("bank")
        p.add("3*batch", (0, 1), id="data")
        packed = p._packed()
        for name in (b"batch", b"bank", b"data"):
            with self.assertRaisesRegex(berth.InputError, "not UTF-8"):
                berth.Problem._of_packed(packed.replace(name, b"\xff" + name[1:]))

    def test_tensors_of_broken_pickles_lie_in_their_arenas(self):
        p = berth.Problem(alignment=8, granularity=4)
        for i in range(3):
            p.add(100 * (i + 1), (i, i + 2), id=str(i), alignment=[None, 64][i % 2])
        state = p.solve().__getstate__()
        pool = berth.Pool("null:1GiB")
        make = random.Random(11)
        taken = 0
        for _ in range(2000):
            part = make.randrange(2)
            broken = list(state)
            at = make.randrange(2, len(state[part]))
            broken[part] = with_number(state[part] + b"\0", at, make.choice((0, 1, 3, 64, 1 << 10, 1 << 62)))[:-1]
            try:
                plan = of_state(berth.Plan, *broken)
                arena = pool.arena(plan)
            except (berth.InputError, MemoryError):
                continue
            taken += 1
            for i in range(len(arena)):
                self.assertLessEqual(plan[i] + arena.tensor(i).nbytes, arena.nbytes)
        self.assertGreater(taken, 100)

    def test_a_pickled_plan_has_the_arena_that_its_offsets_take(self):
        p = berth.Problem()
        p.add(4096, (0, 2), id="a")
        p.add(1 << 20, (1, 3), id="b")
        problem, plan = p.solve().__getstate__()
        for arena in (0, 64, p.solve().arena - 1, 1 << 40):
            with self.assertRaisesRegex(berth.InputError, "packed plan: .*arena"):
                of_state(berth.Plan, problem, with_number(plan, 3, arena))
        larger = with_number(problem, behind(problem, "b"), 1 << 40)
        with self.assertRaisesRegex(berth.InputError, "packed plan: .*arena"):
            of_state(berth.Plan, larger, plan)

    def test_a_pickled_plan_is_of_a_valid_problem(self):
        p = berth.Problem()
        p.add(4096, (0, 2), id="a", alignment=64)
        problem, plan = p.solve().__getstate__()
        without_alignment = with_number(problem, behind(problem, "problem") + 2, 0)
        with self.assertRaisesRegex(berth.InputError, "alignment"):
            of_state(berth.Plan, without_alignment, plan)

    def test_a_pickled_plan_may_break_the_rules_as_before(self):
        p = rich_problem()
        wrong = p.plan([16, 16, 16], pools=["fast", "fast", "slow"])
        self.assertEqual(p.verify(pickle.loads(pickle.dumps(wrong))), p.verify(wrong))
        self.assertIsNotNone(p.verify(wrong))
        none = berth.Problem(capacity=1)
        none.add(2, (0, 1))
        self.assertEqual(pickle.loads(pickle.dumps(none.solve())).status, "infeasible")
        slabs = berth.Problem(max_slab=1000)
        for i in range(5):
            slabs.add(400, (i, i + 3))
        plan = slabs.solve()
        self.assertEqual(slabs.format(pickle.loads(pickle.dumps(plan))), slabs.format(plan))

    def test_a_pickled_problem_has_the_sizes_that_its_dimensions_give(self):
        p = berth.Problem()
        p.add_dimension("n", 1, 100)
        p.add("4*n", (0, 2), id="aa")
        self.assertEqual(pickle.loads(pickle.dumps(p)).max_live, 400)
        (packed,) = p.__getstate__()
        broken = {
            "size": with_number(packed, behind(packed, "aa"), 1 << 20),
            "dimension": with_number(packed, behind(packed, "n"), 101),  # its least
        }
        for what, each in broken.items():
            with self.subTest(what), self.assertRaisesRegex(berth.InputError, "packed problem: .*" + what):
                of_state(berth.Problem, each)

    def test_pictures(self):
        plan = rich_problem().solve()
        self.assertIn("<svg", plan._repr_html_())
        self.assertIn("<html", plan.to_html("a title"))
        self.assertIn("a title", plan.to_html("a title"))
        none = berth.Problem(capacity=1)
        none.add(2, (0, 1), id="<x>")
        self.assertIn("infeasible", none.solve()._repr_html_())
        with self.assertRaisesRegex(berth.InputError, "no plan to show"):
            none.solve().to_html()
        wide = berth.Problem()
        wide.add(2, (0, 1), id="<x>")
        self.assertIn("&lt;x&gt;", wide.solve()._repr_html_())


class Files(unittest.TestCase):
    def test_paths_that_are_no_text_are_named(self):
        path = os.fsdecode(b"/nowhere/\xff.csv")
        with self.assertRaisesRegex(berth.InputError, "^" + path) as caught:
            berth.read(path)
        self.assertEqual(caught.exception.file, path)

    def test_a_zero_byte_in_a_path_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "p.csv"
            path.write_text("id,lower,upper,size\nx,0,2,10\n")
            for ask in (berth.read, lambda p: berth.fit(p, memory=1, dims={"batch": (1, 2)})):
                for wrong in (f"{path}\0.json", os.fsencode(path) + b"\0"):
                    with self.assertRaisesRegex(berth.InputError, "^path: it has a zero byte$"):
                        ask(wrong)

    def test_buffers_added_to_a_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "p.csv"
            path.write_text("id,lower,upper,size\nx,0,2,10\n")
            p = berth.read(path)
            p.add(20, (1, 3), id="new")
            self.assertEqual(pickle.loads(pickle.dumps(p)).ids, ["x", "new"])
            p.add(30, (2, 1), id="reversed")
            with self.assertRaises(berth.InputError) as caught:
                p.solve()
            self.assertEqual((caught.exception.file, caught.exception.line), (str(path), None))
            self.assertRegex(str(caught.exception), "p.csv: buffer 'reversed'")

    def test_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "p.csv"
            path.write_text("id,lower,upper,size\nx,0,2,10\ny,1,3,20\n")
            for form in (path, str(path), os.fsencode(path)):
                self.assertEqual(berth.read(form).solve().arena, 30)
            path.write_text("id,lower,upper,size\nx,0,2,10\ny,1,3,minus\n")
            with self.assertRaises(berth.InputError) as caught:
                berth.read(path)
            self.assertEqual((caught.exception.file, caught.exception.line), (str(path), 3))
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((str(again), again.line), (str(caught.exception), 3))
        with self.assertRaises(TypeError):
            berth.read(3)

    def test_models_where_there_are_kernels(self):
        try:
            p = berth.read("builtin:resnet50")
        except berth.InputError as absent:
            self.assertIn("builtin:resnet50", str(absent))  # it is no file either
            return
        self.assertTrue(p.solve().optimal)
        with self.assertRaisesRegex(berth.InputError, "no such built-in"):
            berth.read("builtin:nothing")


    def test_bounds_that_change_their_dict_do_no_harm(self):
        class Clears:
            def __len__(self):
                dims.clear()
                return 2

            def __getitem__(self, i):
                return 1

        dims = {"n": Clears()}
        with self.assertRaises(berth.InputError):
            berth.fit("/no/such.onnx", memory=1, dims=dims)

    def test_the_largest_value_that_fits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "p.json"
            path.write_text(
                '{"format":"berth-problem/1","dimensions":[{"name":"n","least":1,"most":1000}],'
                '"buffers":[{"id":"x","size":"100*n","lower":0,"upper":2}]}'
            )
            self.assertEqual(berth.read(path).solve().arena, 100000)  # at the largest
            try:
                answer = berth.fit(path, memory=4096, dims={"n": (1, 1000)})
            except berth.InputError as absent:
                self.assertIn("without models", str(absent))
                return
            self.assertEqual((answer["value"], answer["proved"]), (40, True))
            for wrong in ({"n": 3}, {"n": (1, 2, 3)}, {"n": (1, 2), "m": 1}, {"k": (1, 2)}, {"n": (2, 1)}):
                with self.assertRaises(berth.InputError):
                    berth.fit(path, memory=4096, dims=wrong)


class Stopping(unittest.TestCase):
    def test_progress_is_told_and_may_end_the_search(self):
        told = []

        def enough(arena, lower_bound, work):
            told.append((arena, lower_bound, work))
            return False

        p = hard_problem()
        plan = p.solve(effort="best", work=10**12, progress=enough)
        self.assertTrue(told)
        self.assertTrue(plan.deadline_hit)
        self.assertIsNone(p.verify(plan))

    def test_numpys_false_ends_the_search_too(self):
        def stops(told=[]):
            told.append(1)
            if len(told) > 500:
                raise TimeoutError("it goes on")
            return numpy.False_

        p = hard_problem()
        for told in ([], []):
            plan = p.solve(effort="best", work=10**12, progress=lambda *_: stops(told))
            self.assertTrue(plan.deadline_hit)
            plan = asyncio.run(berth.solve_async(p, effort="best", work=10**12, progress=lambda *_: stops(told)))
            self.assertTrue(plan.deadline_hit)
        self.assertFalse(p.solve(effort="fast", progress=lambda *_: 0).deadline_hit)

    def test_what_progress_raises_is_raised(self):
        def fails(*_):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            hard_problem().solve(effort="best", work=10**12, progress=fails)

    def test_control_c(self):
        for best, status in ((False, "interrupted"), (True, "True None")):
            program = (
                "import package_test, sys\n"
                "p = package_test.hard_problem()\n"
                "try:\n"
                "    print('solving', flush=True)\n"
                f"    plan = p.solve(effort='best', work=10**12, best_on_interrupt={best})\n"
                "    print(plan.deadline_hit, p.verify(plan))\n"
                "except KeyboardInterrupt:\n"
                "    print('interrupted')\n"
            )
            child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=HERE)
            self.assertEqual(child.stdout.readline(), "solving\n")
            child.send_signal(signal.SIGINT)  # before solve() or in it: it is heard in either
            said = child.stdout.read().strip()
            child.stdout.close()
            self.assertEqual(child.wait(), 0)
            self.assertIn(said, (status, "interrupted"))

    def test_other_threads_run_meanwhile(self):
        ran = threading.Event()
        threading.Thread(target=ran.set).start()
        # Ends only where the other thread, or this one, has set it: a search that held the lock would go on for hours.
        hard_problem().solve(effort="best", work=10**12, progress=lambda *_: not ran.is_set())
        self.assertTrue(ran.is_set())

    def test_threads_of_the_search_do_not_change_the_plan(self):
        p = hard_problem(60)
        self.assertEqual(p.solve(work=2000).offsets.tolist(), p.solve(work=2000, threads=2).offsets.tolist())

    def test_asyncio(self):
        async def both():
            a, b = rich_problem(), hard_problem(30)
            return await asyncio.gather(berth.solve_async(a), berth.solve_async(b, effort="fast"))

        rich, hard = asyncio.run(both())
        self.assertEqual(rich.offsets.tolist(), rich_problem().solve().offsets.tolist())
        self.assertTrue(len(hard))

        async def cancelled():
            task = asyncio.create_task(berth.solve_async(hard_problem(), effort="best", work=10**12))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())  # waits for its threads: it returns because the search ends


class Changing(unittest.TestCase):
    def test_a_problem_may_be_changed_while_it_is_solved(self):
        p = hard_problem(100)
        plans = []
        thread = threading.Thread(target=lambda: plans.append(p.solve(work=1000)))
        thread.start()
        for _ in range(50):
            p.add(1000, (0, 10))
        thread.join()
        self.assertIn(len(plans[0].offsets), range(100, 151))
        self.assertEqual(len(p), 150)


if __name__ == "__main__":
    unittest.main()
