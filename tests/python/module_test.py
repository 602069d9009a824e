"""The Python module against what the C++ tests know: small problems whose answers are plain."""

import json
import os
import tempfile
import threading
import unittest

import berth


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


class Planning(unittest.TestCase):
    def test_buffers_that_never_meet_share_bytes(self):
        p = berth.Problem(alignment=64)
        x = p.add(100, (0, 2), id="x")
        y = p.add(200, (1, 3), id="y")
        z = p.add(128, (2, 4), id="z")
        plan = p.solve()
        self.assertEqual((len(p), p.ids), (3, ["x", "y", "z"]))
        self.assertEqual(plan.status, "optimal")
        self.assertEqual(plan.arena, max(o + s for o, s in zip(plan.offsets, [100, 200, 128])))
        self.assertTrue(all(o % 64 == 0 for o in plan.offsets))
        self.assertLessEqual(plan.arena, 64 * 4 + 128)
        spans = {i: (plan.offsets[i], plan.offsets[i] + s) for i, s in ((x, 100), (y, 200), (z, 128))}
        self.assertFalse(overlap(spans[x], spans[y]) or overlap(spans[y], spans[z]))
        self.assertIsNone(p.verify(plan))

    def test_every_constraint_arrives(self):
        p = berth.Problem()
        pinned = p.add(10, (0, 9), offset=30)
        gap = p.add(10, lifetimes=[(0, 2), (4, 6)])
        between = p.add(10, (2, 4), alignment=16)
        one, two = (p.add(5, (6, 7), alias_group=1) for _ in range(2))
        apart = p.add(10, (8, 9))
        p.separate(gap, apart)
        plan = p.solve()
        self.assertEqual(plan.offsets[pinned], 30)
        self.assertEqual(plan.offsets[between] % 16, 0)
        self.assertEqual(plan.offsets[one], plan.offsets[two])
        self.assertGreaterEqual(abs(plan.offsets[gap] - plan.offsets[apart]), 10)
        self.assertEqual(plan.arena, 40)

    def test_penalties_come_second(self):
        p = berth.Problem(capacity=20)
        a, b = p.add(10, (0, 1)), p.add(10, (1, 2))
        p.add(20, (2, 3))
        p.penalize(a, b, 5)
        plan = p.solve()
        self.assertEqual((plan.arena, plan.reuse_penalty), (20, 0))

    def test_conflicts_replace_lifetimes(self):
        p = berth.Problem()
        for _ in range(3):
            p.add(10)
        p.set_conflicts([(0, 1), (1, 2)])
        self.assertEqual(p.solve().arena, 20)

    def test_several_pools(self):
        p = berth.Problem()
        p.add_pool("fast", capacity=10)
        p.add_pool("slow", cost=1)
        p.add(10, (0, 2), pools=["slow"])
        p.add(10, (0, 2))
        plan = p.solve()
        self.assertEqual(p.pools_of(plan), ["slow", "fast"])

    def test_no_is_an_answer(self):
        p = berth.Problem(capacity=15)
        p.add(10, (0, 2))
        p.add(10, (1, 3))
        plan = p.solve(effort="best")
        self.assertEqual((plan.status, len(plan.offsets)), ("infeasible", 0))
        self.assertTrue(plan.reason)
        self.assertEqual(plan.lower_bound, 20)

    def test_rules_of_a_chip(self):
        self.assertIn("ascend_310p_dvpp", berth.rules())
        p = berth.Problem(rules="ascend_310p_dvpp")
        p.add(100, (0, 1))
        self.assertGreater(p.solve().arena, 100)


class Verifying(unittest.TestCase):
    def setUp(self):
        self.problem = berth.Problem()
        self.problem.add(10, (0, 2), id="x")
        self.problem.add(10, (1, 3), id="y")

    def test_a_plan_from_elsewhere(self):
        plan = self.problem.plan([0, 10])
        self.assertEqual(plan.arena, 20)
        self.assertIsNone(self.problem.verify(plan))

    def test_an_overlap_is_named(self):
        said = self.problem.verify(self.problem.plan([0, 9]))
        self.assertIn("'x'", said)
        self.assertIn("'y'", said)

    def test_only_verified_plans_are_written(self):
        with self.assertRaisesRegex(ValueError, "overlap.*'x'"):
            self.problem.format(self.problem.plan([0, 9]))
        written = json.loads(self.problem.format(self.problem.solve()))
        self.assertEqual(written["arena_bytes"], 20)
        self.assertIn("static", self.problem.format(self.problem.solve(), "h"))
        self.assertTrue(self.problem.format(self.problem.solve(), "csv").startswith("id,"))


class Refusing(unittest.TestCase):
    def refuses(self, what, call, *arguments, **named):
        with self.assertRaisesRegex(ValueError, what):
            call(*arguments, **named)

    def test_what_is_no_problem(self):
        self.refuses("size: -1", berth.Problem().add, -1, (0, 1))
        self.refuses("size: 36893488147419103232", berth.Problem().add, 2**65, (0, 1))
        self.refuses("no buffer 3", berth.Problem().separate, 0, 3)
        self.refuses("no pool 'l1'", berth.Problem().add, 1, (0, 1), pools=["l1"])
        self.refuses("none named 'moon'", berth.Problem, rules="moon")
        self.refuses("capacity: -5", berth.Problem, capacity=-5)
        p = berth.Problem()
        p.add(1, (0, 1), id="x")
        self.refuses("'x' is there already", p.add, 1, (0, 1), id="x")
        self.refuses("effort: 'most'", p.solve, effort="most")
        self.refuses("deadline", p.solve, deadline=float("nan"))
        self.refuses("offsets", p.plan, [])
        p.add(1, (5, 2), id="backwards")
        self.refuses("'backwards'", p.solve)

    def test_a_type_that_is_none(self):
        with self.assertRaises(TypeError):
            berth.Problem().add("much", (0, 1))

    def test_a_file(self):
        self.refuses("nowhere.csv", berth.read, "nowhere.csv")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.csv")
            with open(path, "w") as file:
                file.write("id,lower,upper,size\nx,0,2,10\ny,1,3,minus\n")
            self.refuses(":3: ", berth.read, path)
            with open(path, "w") as file:
                file.write("id,lower,upper,size\nx,0,2,10\ny,1,3,20\n")
            self.assertEqual(berth.read(path).solve().arena, 30)
            start = '{"format":"berth-problem/1","buffers":[{"id":"x","size":4,"lower":0,"upper":2'
            for more in (',"uses":[]}],"pools":[{"id":"p"}]}', '}],"steps":[[0,1]],"pools":[{"id":"p"}]}'):
                with open(path, "w") as file:
                    file.write(start + more)
                self.assertEqual(berth.read(path).solve().arena, 4)


class Threads(unittest.TestCase):
    def test_the_same_answer_from_several(self):
        p = berth.Problem()
        for i in range(200):
            p.add(1 + i * 7 % 31, (i, i + 1 + i * 5 % 17))
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(list(p.solve().offsets))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(answers), 4)
        self.assertTrue(all(a == answers[0] for a in answers))


if __name__ == "__main__":
    unittest.main()
