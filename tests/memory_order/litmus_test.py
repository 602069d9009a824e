#!/usr/bin/env python3
"""Checks the lock-free protocols of the pool under every interleaving of a weak memory model, and that the checker refutes
each protocol with one order or fence taken away. usage: litmus_test.py REPOSITORY

Each protocol is a small program after the source. `source` has the lines that it stands for: if one changes, the program
here has to follow."""
import pathlib
import sys
import unittest

from machine import (Broken, Machine, await_, cas, check, exchange, fence, get, jump, label, let, load, membarrier, put,
                     store)

ROOT = pathlib.Path(sys.argv.pop(1))


class Protocol(unittest.TestCase):
    source = {}

    def program(self, **orders):
        raise unittest.SkipTest("of no protocol")

    def test_the_source_says_the_same(self):
        for file, lines in self.source.items():
            text = (ROOT / file).read_text()
            for line in lines:
                self.assertTrue(line in text, f"{file} has no line {line!r}: the program here has to follow")

    def holds(self, **orders):
        machine = self.program(**orders)
        self.assertGreater(machine.ends, 0)
        return machine

    def refuted(self, **orders):
        with self.assertRaises(Broken, msg=str(orders)):
            self.program(**orders)


class EnterAndSeize(Protocol):
    """A thread enters its cache without a fence, twice; another seizes it once. `cache` is what both change."""

    source = {
        "src/pool/thread_cache.hpp": [
            "inside_.store(true, std::memory_order_relaxed);",
            "if (gate_.load(std::memory_order_acquire) == gate::open) [[likely]]",
            "void leave() noexcept { inside_.store(false, std::memory_order_release); }",
            "for (const auto& c : caches) c->gate_.store(gate::seized, std::memory_order_seq_cst);\n    fence();",
            "void give_back() noexcept { gate_.store(idle_gate(), std::memory_order_release); }",
        ],
        "src/pool/thread_cache.cpp": [
            "void thread_cache::fence() noexcept {\n  asymmetric_fence();",
            "while (inside_.load(std::memory_order_seq_cst)) std::this_thread::yield();",
            "inside_.store(true, std::memory_order_seq_cst);\n  if (gate_.load(std::memory_order_seq_cst) != gate::seized)",
        ],
        "src/core/asymmetric_fence.cpp": ["syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0"],
    }

    def program(self, barrier=membarrier, enter="relaxed", gate="acquire", leave="release", give_back="release",
                wait="acquire", gate_first=False):
        def once(n):
            ask = [load("gate", "gate", gate)]
            enters = [store("inside", True, enter)]
            return [
                *(ask + enters if gate_first else enters + ask),
                jump(f"out {n}", lambda r: r["gate"] != "open"),
                get("was", "cache"),
                put("cache", lambda r: r["was"] + 1),
                label(f"out {n}"),
                store("inside", False, leave),
            ]

        seizer = [
            store("gate", "seized", "seq_cst"),
            *([barrier] if barrier else []),
            await_("inside", lambda inside: not inside, wait),
            get("was", "cache"),
            put("cache", lambda r: r["was"] + 1),
            store("gate", "open", give_back),
        ]
        return Machine({"gate": "open", "inside": False, "cache": 0}, once(1) + once(2), seizer).run()

    def test_with_membarrier(self):
        self.holds()
        self.refuted(barrier=None)
        self.refuted(barrier=fence)  # in the seizing thread alone
        self.refuted(gate="relaxed")
        self.refuted(leave="relaxed")
        self.refuted(give_back="relaxed")
        self.refuted(wait="relaxed")
        self.refuted(gate_first=True)

    def test_without_membarrier_the_owner_pays(self):
        dear = {"barrier": None, "enter": "seq_cst", "gate": "seq_cst", "wait": "seq_cst"}
        self.holds(**dear)
        self.refuted(**{**dear, "gate": "acquire"})
        self.refuted(**{**dear, "wait": "acquire"})


class PendingStack(Protocol):
    """Two threads push a block each, one of them the other thread's block as well; a third takes all, twice."""

    source = {
        "src/pool/pending_frees.hpp": [
            "last->next = top_.load(std::memory_order_relaxed);",
            "top_.compare_exchange_weak(last->next, chain, std::memory_order_release, std::memory_order_relaxed)",
            "taken_ = top_.exchange(nullptr, std::memory_order_acquire);",
        ],
    }

    @staticmethod
    def push(block, order, n):
        return [
            put(f"data {block}", block),
            load("head", "pending"),
            label(f"again {n}"),
            put(f"next {block}", lambda r: r["head"]),
            let("expected", lambda r: r["head"]),
            cas("head", "pending", lambda r: r["expected"], block, order),
            jump(f"again {n}", lambda r: r["head"] != r["expected"]),
        ]

    @staticmethod
    def take_all(order, n):
        return [
            exchange("block", "pending", None, order),
            label(f"walk {n}"),
            jump(f"done {n}", lambda r: r["block"] is None),
            get("data", lambda r: f"data {r['block']}"),
            check(lambda r: r["data"] == r["block"], "a block with another's data"),
            let("sum", lambda r: r.get("sum", 0) + r["block"]),
            get("block", lambda r: f"next {r['block']}"),
            jump(f"walk {n}"),
            label(f"done {n}"),
        ]

    def program(self, pushes="release", takes="acquire"):
        start = {"pending": None, **{f"{what} {b}": None for b in (1, 2, 4) for what in ("data", "next")}}

        def whole(registers, newest):
            left, block = 0, newest["pending"]
            while block is not None:
                left, block = left + block, newest[f"next {block}"]
            return registers[2].get("sum", 0) + left == 7  # each block once

        return Machine(start, self.push(1, pushes, 1) + self.push(4, pushes, 2), self.push(2, pushes, 1),
                       self.take_all(takes, 1) + self.take_all(takes, 2)).run(whole)

    def test_every_block_comes_once(self):
        self.holds()
        self.refuted(pushes="relaxed")
        self.refuted(takes="relaxed")

    def test_taking_one_block_alone_would_lose_some(self):
        """Why the stack is emptied as a whole (ABA): two threads take one block each, and one puts its block back."""

        def take_one(n):
            return [
                label(f"again {n}"),
                load("head", "pending", "acquire"),
                jump(f"out {n}", lambda r: r["head"] is None),
                load("next", lambda r: f"next {r['head']}"),
                cas("was", "pending", lambda r: r["head"], lambda r: r["next"], "acq_rel"),
                jump(f"again {n}", lambda r: r["was"] != r["head"]),
                label(f"out {n}"),
                let("mine", lambda r: r.get("mine", ()) + ((r["head"],) if r["head"] else ())),
            ]

        puts_back = [
            let("first", lambda r: r["mine"][0]),
            load("head", "pending"),
            store(lambda r: f"next {r['first']}", lambda r: r["head"]),
            cas("was", "pending", lambda r: r["head"], lambda r: r["first"], "acq_rel"),
            let("mine", lambda r: r["mine"][1:] if r["was"] == r["head"] else r["mine"]),
        ]

        def whole(registers, newest):
            held = [b for r in registers for b in r["mine"]]
            block = newest["pending"]
            while block is not None and len(held) < 9:
                held, block = held + [block], newest[f"next {block}"]
            return sorted(held) == [1, 2]

        start = {"pending": 1, "next 1": 2, "next 2": None}
        with self.assertRaises(Broken):
            Machine(start, take_one(1), take_one(1) + take_one(2) + puts_back).run(whole)


class BlockMap(Protocol):
    """A table of three places in which blocks a and b have their home in the first. A reader looks for b, which lives,
    while a is erased and b moves into its place, and while the table is outgrown."""

    source = {
        "src/pool/block_map.hpp": [
            "const std::uint32_t moves = moves_.load(std::memory_order_acquire);",
            "if (e != nullptr || (moves % 2 == 0 && moves_.load(std::memory_order_relaxed) == moves)) return e;",
            "moves_.store(moves + 1, std::memory_order_relaxed);",
            "t.slots[hole].store(moved, std::memory_order_release);",
            "t.slots[hole].store(nullptr, std::memory_order_release);",
            "moves_.store(moves + 2, std::memory_order_release);",
            "extent* e = t->slots[i].load(std::memory_order_acquire);",
            "const table* t = table_.load(std::memory_order_acquire);",
            "table_.store(t.get(), std::memory_order_release);",
        ],
    }

    @staticmethod
    def find(again, slots, table):
        return [
            label("find"),
            load("moves", "moves", "acquire"),
            load("table", "table", table),
            let("i", 0),
            label("probe"),
            load("found", lambda r: f"{r['table']} {r['i']}", slots),
            jump("probed", lambda r: r["found"] in (None, "b")),
            let("i", lambda r: r["i"] + 1),
            jump("probe"),
            label("probed"),
            jump("right", lambda r: r["found"] is not None),
            *([load("now", "moves"), jump("find", lambda r: r["moves"] % 2 == 1 or r["now"] != r["moves"])] if again else []),
            check(lambda r: False, "a block that lives is not found"),
            label("right"),
            check(lambda r: r["found"] == "b", "another block is found"),
        ]

    def program(self, again=True, slots="acquire", table="acquire", counts=True, cleared="release", published="release"):
        erase = [
            *([store("moves", 1)] if counts else []),
            store("old 0", "b", "release"),
            store("old 1", None, cleared),
            *([store("moves", 2, "release")] if counts else []),
        ]
        grow = [store("new 0", "b"), store("table", "new", published)]
        start = {"moves": 0, "table": "old", "old 0": "a", "old 1": "b", "old 2": None, "new 0": None, "new 1": None}
        return Machine(start, erase + grow, self.find(again, slots, table)).run()

    def test_a_block_that_lives_is_found(self):
        self.holds()
        self.refuted(again=False)
        self.refuted(counts=False)
        self.refuted(slots="relaxed")
        self.refuted(cleared="relaxed")  # the reader sees the empty place and not that entries move
        self.refuted(published="relaxed")
        self.refuted(table="relaxed")


class ThreadDirectory(Protocol):
    """A thread enters itself, finds itself and leaves. A thread that begins behind its end has its thread register: it
    must not find what the first had. Another one that lives looks past the entry meanwhile, and a cache is used again."""

    source = {
        "include/berth/core/thread_directory.hpp": [
            "T* const one = entries_[(home(me) + i) % count].load(std::memory_order_acquire);",
            "if (one->owner.load(std::memory_order_relaxed) == me) return one;",
            "one->owner.store(me, std::memory_order_relaxed);\n      e.store(one, std::memory_order_release);",
            "e.store(&gone, std::memory_order_relaxed);",
            "one->owner.store(0, std::memory_order_relaxed);",
        ],
    }

    @staticmethod
    def find(me, order="acquire"):
        """`found` becomes the thread's own, or None."""
        return [
            load("one", "entry", order),
            get("made", lambda r: f"{r['one']} made"),
            load("owner", lambda r: f"{r['one']} owner"),
            let("found", lambda r: r["one"] if r["owner"] == me else None),
        ]

    def program(self, publishes="release", looks="acquire", takes_out=True, disowns=True):
        start = {"entry": "nobodys", "ended": False,
                 **{f"{c} {what}": value for c in ("nobodys", "gone", "cache") for what, value in (("made", True), ("owner", 0))}}
        start["cache made"] = False
        first = [
            put("cache made", True),  # the constructor
            store("cache owner", 7),
            store("entry", "cache", publishes),
            *self.find(7),
            check(lambda r: r["found"] == "cache", "a thread does not find its own"),
            *([store("entry", "gone")] if takes_out else []),
            *([store("cache owner", 0)] if disowns else []),
            store("ended", True, "release"),  # what ends a thread orders it before the next one with its register
        ]
        second = [
            await_("ended", lambda ended: ended, "acquire"),
            *self.find(7),
            check(lambda r: r["found"] is None, "a thread finds what another one had"),
            store("cache owner", 7),
            store("entry", "cache", publishes),
            *self.find(7),
            check(lambda r: r["found"] == "cache", "a thread does not find its own"),
        ]
        bystander = [*self.find(9, looks), check(lambda r: r["found"] is None, "a thread finds what another one has")]
        return Machine(start, first, second, bystander).run()

    def test_a_thread_finds_its_own_and_nothing_else(self):
        self.holds()
        self.holds(takes_out=False)  # one of the two is enough
        self.holds(disowns=False)
        self.refuted(takes_out=False, disowns=False)
        self.refuted(publishes="relaxed")
        self.refuted(looks="relaxed")


class TheMachine(unittest.TestCase):
    """Litmus tests whose answers are known."""

    @staticmethod
    def both_read_old(*between, order="relaxed"):
        def side(mine, other):
            return [store(mine, 1, order), *between, load("r", other, order)]

        ends = []
        Machine({"x": 0, "y": 0}, side("x", "y"), side("y", "x")).run(lambda r, _: ends.append([t["r"] for t in r]) or True)
        return [0, 0] in ends

    def test_store_buffering(self):
        self.assertTrue(self.both_read_old())
        self.assertTrue(self.both_read_old(order="release"))
        self.assertFalse(self.both_read_old(fence))
        self.assertFalse(self.both_read_old(membarrier))
        self.assertFalse(self.both_read_old(order="seq_cst"))

    def test_message_passing(self):
        for releases, acquires, safe in (("release", "acquire", True), ("relaxed", "acquire", False), ("release", "relaxed", False)):
            writer = [put("data", 1), store("flag", True, releases)]
            reader = [await_("flag", bool, acquires), get("r", "data")]
            machine = Machine({"data": 0, "flag": False}, writer, reader)
            if safe:
                machine.run(lambda r, _: r[1]["r"] == 1)
            else:
                with self.assertRaises(Broken):
                    machine.run()

    def test_a_release_sequence_goes_on_through_an_exchange_and_not_through_a_store(self):
        def program(between):
            writer = [put("data", 1), store("flag", 1, "release")]
            reader = [await_("flag", lambda f: f == 2, "acquire"), get("r", "data")]
            return Machine({"data": 0, "flag": 0}, writer, [await_("flag", lambda f: f == 1), between], reader)

        program(exchange("old", "flag", 2)).run()
        with self.assertRaises(Broken):
            program(store("flag", 2)).run()

    def test_values_of_one_location_are_read_in_their_order(self):
        reader = [load("a", "x"), load("b", "x")]
        Machine({"x": 0}, [store("x", 1), store("x", 2)], reader).run(lambda r, _: r[1]["a"] <= r[1]["b"])

    def test_loops_end_and_waits_for_ever_are_counted(self):
        machine = Machine({"x": 0}, [label("again"), load("r", "x"), jump("again", lambda r: r["r"] == 0)], [store("x", 1)]).run()
        self.assertEqual((machine.ends > 0, machine.stuck), (True, 0))
        self.assertGreater(Machine({"x": 0}, [await_("x", bool)]).run().stuck, 0)


if __name__ == "__main__":
    unittest.main()
