"""ExecuTorch's hook on stand-ins for its specs: what exir/memory_planning.py reads and writes of them, and its check."""

import functools
import random
import types
import unittest

import berth
import berth.executorch


class Spec:
    """Of TensorSpec: a size, a lifetime with both ends in it, and where it is to lie."""

    def __init__(self, size, lifetime, mem_id=None):
        self.size, self.lifetime, self.mem_id = size, list(lifetime), mem_id
        self.mem_offset = self.mem_obj_id = None
        self.allocated_memory = size

    def realign(self, alignment):
        self.allocated_memory = (self.size + alignment - 1) // alignment * alignment
        return self.allocated_memory


def made(seed, count=60):
    make = random.Random(seed)
    specs = []
    for _ in range(count):
        first = make.randrange(40)
        specs.append(Spec(make.choice((0, make.randrange(5000))), (first, first + make.randrange(9)), make.choice((None, 1, 3))))
    return specs


def violations(specs, sizes, alignment):
    """As the exporter's own check, by pairs."""
    for s in specs:
        if s.mem_offset % alignment or s.mem_offset + s.allocated_memory > sizes[s.mem_id]:
            yield s
    for i, a in enumerate(specs):
        for b in specs[i + 1 :]:
            alive = a.lifetime[0] <= b.lifetime[1] and b.lifetime[0] <= a.lifetime[1]
            lies = a.mem_id == b.mem_id and a.mem_offset < b.mem_offset + b.allocated_memory and b.mem_offset < a.mem_offset + a.allocated_memory
            if lies and (alive or a.mem_obj_id != b.mem_obj_id):
                yield a, b


NOTHING = types.SimpleNamespace()


class Hook(unittest.TestCase):
    def test_no_two_that_are_alive_overlap(self):
        for seed in range(20):
            specs = made(seed)
            sizes = berth.executorch.plan(16, set(specs), NOTHING, None, 0)
            self.assertEqual(list(violations(specs, sizes, 16)), [])
            self.assertEqual((len(sizes), sizes[0], sizes[2]), (4, 0, 0))
            for memory in (1, 3):
                held = [s for s in specs if s.mem_id == memory]
                live = max(sum(s.allocated_memory for s in held if s.lifetime[0] <= t <= s.lifetime[1]) for t in range(50))
                self.assertLessEqual(live, sizes[memory])
                self.assertLess(sizes[memory], 1.2 * live)

    def test_whatever_the_order_the_answer_is_one(self):
        for seed in range(5):
            one, two = made(seed), made(seed)
            order = list(range(len(two)))
            random.Random(seed).shuffle(order)
            sizes = berth.executorch.plan(16, iter(one), NOTHING)
            self.assertEqual(berth.executorch.plan(16, [two[i] for i in order], NOTHING), sizes)

    def test_what_is_taken_already_stays(self):
        specs = [Spec(100, (0, 3)), Spec(100, (2, 5)), Spec(50, (0, 9), 2)]
        module = types.SimpleNamespace(input_mem_buffer_sizes=[0, 1001, 0, 77])
        sizes = berth.executorch.plan(64, specs, module, None, 10)
        self.assertEqual(sizes, [0, 1024 + 256 + 10, 64 + 10, 77])
        self.assertEqual(sorted(s.mem_offset for s in specs[:2]), [1024, 1152])
        self.assertEqual(module.input_mem_buffer_sizes, [0, 1001, 0, 77])

    def test_nothing_to_plan_and_what_has_no_lifetime(self):
        self.assertEqual(berth.executorch.plan(16, [], NOTHING), [0, 0])
        specs = [Spec(8, (0, 1)), Spec(8, (None, None))]
        with self.assertRaisesRegex(berth.InputError, "no lifetime"):
            berth.executorch.plan(16, specs, NOTHING)
        self.assertIsNone(specs[0].mem_offset)
        specs = [Spec(8, (0, 1)), Spec(8, (3, 2), 2)]  # the second memory has no plan
        with self.assertRaises(berth.InputError):
            berth.executorch.plan(16, specs, NOTHING)
        self.assertEqual([(s.allocated_memory, s.mem_id, s.mem_offset) for s in specs], [(8, None, None), (8, 2, None)])
        specs = [Spec(8, (0, 1))]
        best = functools.partial(berth.executorch.plan, effort="best")
        self.assertEqual(best(16, [specs[0], specs[0]], NOTHING), [0, 16])


if __name__ == "__main__":
    unittest.main()
