"""Graphs, dimensions and moves from Python, against what the files and the tool say of the same."""

import json
import os
import pickle
import random
import tempfile
import unittest

import berth


class Graphs(unittest.TestCase):
    def test_lifetimes_follow_from_the_nodes(self):
        g = berth.Graph()
        x = g.input("x", 100)
        w = g.constant("w", 5000)
        h = g.node("conv", [x, w], 200, workspace=50)
        r = g.node("relu", [h], 200, in_place=[0])
        v = g.view(r, 100, 100)
        y = g.node("add", [v, x], 100)
        g.output(y)
        p, of = g.problem(), g.buffers()
        self.assertEqual(len(g), 6)
        self.assertEqual([of[w], of[h] == of[r], of[r] == of[v]], [None, True, True])
        self.assertEqual(len({of[x], of[h], of[y]}), 3)
        self.assertEqual(p.ids[of[x]], "x")
        self.assertIn("workspace of conv", p.ids)
        plan = p.solve()
        self.assertIsNone(p.verify(plan))
        self.assertEqual(plan.status, "optimal")

    def test_results_states_and_writes(self):
        g = berth.Graph()
        x, s = g.input("x", 64), g.state("cache", 256)
        a, b = g.node("split", [x], [32, 32])
        written = g.node("store", [a], into=g.view(s, 32, 64))
        g.output(g.node("read", [written, b], 64))
        p, of = g.problem(), g.buffers()
        self.assertEqual(of[written], of[s])
        self.assertEqual(p.ids[of[s]], "cache")
        self.assertIsNone(p.verify(p.solve()))
        several = berth.Graph()
        for _ in range(3):
            several.state(f"s{_}", 8)
        self.assertEqual([several.problem().ids[i] for i in several.buffers()], ["s0", "s1", "s2"])

    def test_what_is_wrong_is_told_where_it_is_asked_for(self):
        def graph(make):
            g = berth.Graph()
            make(g, g.input("x", 8))
            return g

        for make in (
            lambda g, x: g.view(x, 8, 4),
            lambda g, x: g.node("n", [7], 8),
            lambda g, x: g.input("x", 8),
            lambda g, x: g.output(9),
            lambda g, x: g.node("n", [x], 8, in_place=[3]),
            lambda g, x: g.node("n", [x]),
            lambda g, x: g.node("n", [x], 8, into=x),
            lambda g, x: g.input("y", -1),
            lambda g, x: g.input("y", 1 << 63),
        ):
            with self.assertRaises(berth.InputError):
                graph(make).problem()
        with self.assertRaises(berth.InputError):
            graph(lambda g, x: None).problem(rules="toaster")


def with_dimensions():
    p = berth.Problem(alignment=64)
    p.add(1000, (0, 9), id="fixed")
    p.add_dimension("batch", 1, 32)
    p.add_dimension("seq", 1, 512)
    p.add("4*batch*seq + 256", (0, 2), id="x")
    p.add(100000, (1, 3), id="y")
    p.add("batch", (2, 5), id="z")
    return p


class Dimensions(unittest.TestCase):
    def test_one_plan_holds_at_every_value(self):
        p = with_dimensions()
        s = p.solve()
        self.assertIsNone(p.verify(s))
        self.assertEqual(sorted(s.order), [0, 1, 2, 3])
        make = random.Random(3)
        for _ in range(50):
            batch, seq = make.randint(1, 32), make.randint(1, 512)
            arena, offsets = s.at(batch=batch, seq=seq)
            q = berth.Problem(alignment=64)
            for size, live in ((1000, (0, 9)), (4 * batch * seq + 256, (0, 2)), (100000, (1, 3)), (batch, (2, 5))):
                q.add(size, live)
            self.assertIsNone(q.verify(q.plan(offsets)))
            self.assertEqual(q.plan(offsets).arena, arena)
            self.assertLessEqual(arena, s.arena)
        self.assertEqual(s.at(batch=32, seq=512)[0], s.arena)

    def test_it_is_what_a_file_says(self):
        text = {
            "format": "berth-problem/1",
            "alignment": 64,
            "dimensions": [{"name": "batch", "least": 1, "most": 32}, {"name": "seq", "least": 1, "most": 512}],
            "buffers": [
                {"id": "fixed", "size": 1000, "lower": 0, "upper": 9},
                {"id": "x", "size": "4*batch*seq + 256", "lower": 0, "upper": 2},
                {"id": "y", "size": 100000, "lower": 1, "upper": 3},
                {"id": "z", "size": "batch", "lower": 2, "upper": 5},
            ],
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.json")
            with open(path, "w") as file:
                json.dump(text, file)
            of_file = berth.read(path)
        for p in (with_dimensions(), pickle.loads(pickle.dumps(with_dimensions()))):
            self.assertEqual(of_file.solve().order, p.solve().order)
            said, told = (json.loads(each.format(each.solve())) for each in (of_file, p))
            self.assertEqual((said["dimensions"], said["buffers"]), (told["dimensions"], told["buffers"]))
        self.assertIn("batch", of_file.format(of_file.solve(), "h"))
        s = of_file.solve()
        self.assertEqual(pickle.loads(pickle.dumps(s)).at(batch=3, seq=5), s.at(batch=3, seq=5))

    def test_wrong_arguments(self):
        p = with_dimensions()
        s = p.solve()
        for wrong in (
            lambda: p.add("4*width", (0, 1)),
            lambda: p.add("batch - 1", (0, 1)),
            lambda: p.add(f"{1 << 62}*batch", (0, 1)),
            lambda: p.add_dimension("batch", 1, 2),
            lambda: p.add_dimension("2x", 1, 2),
            lambda: p.add_dimension("width", 2, 1),
            lambda: s.at(batch=1),
            lambda: s.at(batch=33, seq=1),
            lambda: s.at(batch=1, seq=1, width=1),
            lambda: p.format(s, "csv"),
            lambda: berth.Problem().solve().at(batch=1),
        ):
            with self.assertRaises(berth.InputError):
                wrong()
        with self.assertRaises(TypeError):
            berth.Problem().add("batch", (0, 1))  # which has no dimensions
        self.assertEqual(len(p), 4)
        p.add(8, (0, 1), offset=0)
        with self.assertRaises(berth.InputError):
            p.solve()  # an order keeps no pins


TRAFFIC = {
    "format": "berth-problem/1",
    "pools": [{"id": "fast", "capacity": 100, "cost": 0.01}, {"id": "slow", "cost": 1}],
    "transfers": [
        {"from": "slow", "to": "fast", "bandwidth": 100},
        {"from": "fast", "to": "slow", "bandwidth": 100},
    ],
    "buffers": [
        {"id": "a", "size": 100, "lower": 0, "upper": 20, "uses": [{"at": 0, "bytes": 1000}, {"at": 1, "bytes": 1000}]},
        {"id": "b", "size": 100, "lower": 4, "upper": 30, "uses": [{"at": 10, "bytes": 1000}, {"at": 25, "bytes": 1000}]},
    ],
}


class Moves(unittest.TestCase):
    def test_buffers_change_their_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.json")
            with open(path, "w") as file:
                json.dump(TRAFFIC, file)
            of_file = berth.read(path)
        p = berth.Problem()
        p.add_pool("fast", capacity=100, cost=0.01)
        p.add_pool("slow", cost=1)
        p.add_link("slow", "fast", 100)
        p.add_link("fast", "slow", 100)
        for name, live, uses in (("a", (0, 20), (0, 1)), ("b", (4, 30), (10, 25))):
            buffer = p.add(100, live, id=name)
            for at in reversed(uses):
                p.add_use(buffer, at, 1000)
        for each in (of_file, p):
            plan = each.solve()
            self.assertIsNone(each.verify(plan))
            self.assertEqual(plan.cost, plan.access + plan.stall)
            self.assertLessEqual(plan.cost_bound, plan.cost)
            self.assertTrue(plan.moves)
            self.assertEqual(len(plan.offsets), len(plan.stays))
            self.assertEqual({stay[0] for stay in plan.stays}, {0, 1})
            self.assertEqual((plan.stays, plan.moves), (of_file.solve().stays, of_file.solve().moves))
            said = json.loads(each.format(plan))
            self.assertLessEqual(said["cost"], said["unmoved_time"])
            self.assertEqual({b["id"] for b in said["buffers"]}, {"a", "b"})
            again = pickle.loads(pickle.dumps(plan))
            self.assertEqual((again.stays, again.moves, again.cost), (plan.stays, plan.moves, plan.cost))
            self.assertTrue(plan.to_html())
        p.add_step(3, 2.5)
        p.add_use(0, 25, 1)
        with self.assertRaisesRegex(berth.InputError, "outside of its lifetime"):
            p.solve()


if __name__ == "__main__":
    unittest.main()
