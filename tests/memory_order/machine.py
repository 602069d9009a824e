"""A small model checker for lock-free code: runs every interleaving of a few threads under a weak memory model.

The model is the view machine of C++'s release and acquire (Kang et al., "A Promising Semantics for Relaxed-Memory
Concurrency", POPL 2017, without promises; the fences as in Dang et al., RustBelt relaxed, POPL 2020). Each location has the
history of its values. A thread's view says, for each location, the oldest value that the thread may still read.

  store       appends a value; with release it carries the thread's view
  load        reads any value that is not older than the view; with acquire the thread joins the view that came with it
  exchange,   read the newest value and append; what came with the value read stays with the new one (release sequence)
  cas
  fence       joins the thread's view and one view that all fences share, both ways (seq_cst)
  membarrier  a fence in every thread at once (membarrier(2), private expedited)
  get, put    accesses that are not atomic: the checker objects if the newest value is not in the thread's view (a race)

Threads run in program order, so loads are not delayed behind later stores: load buffering is outside the model. A seq_cst
access is a fence before an acquire load or a release store.

A program is a list of steps; a step is a function made by one of the constructors below. Registers and locations are names.
Loops are jumps back; the state space stays finite as long as registers do and stores in loops are bounded."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

Registers = Dict[str, Any]
Value = Union[Any, Callable[[Registers], Any]]


class Step(NamedTuple):
    kind: str
    where: Any = None  # the location, or a function of the registers
    what: Any = None
    into: Optional[str] = None
    order: str = "relaxed"
    expected: Any = None
    note: str = ""


def store(where: Value, what: Value, order: str = "relaxed") -> Step:
    return Step("store", where, what, order=order)


def load(into: str, where: Value, order: str = "relaxed") -> Step:
    return Step("load", where, into=into, order=order)


def await_(where: Value, what: Callable[[Any], bool], order: str = "relaxed") -> Step:
    """Loads until what(value): runs only where such a value can be read."""
    return Step("await", where, what, order=order)


def exchange(into: str, where: Value, what: Value, order: str = "relaxed") -> Step:
    return Step("exchange", where, what, into=into, order=order)


def cas(into: str, where: Value, expected: Value, what: Value, order: str = "relaxed") -> Step:
    """Compares and swaps: `into` becomes the value read, which equals `expected` if the swap was made."""
    return Step("cas", where, what, into=into, order=order, expected=expected)


def put(where: Value, what: Value) -> Step:
    return Step("put", where, what)


def get(into: str, where: Value) -> Step:
    return Step("get", where, into=into)


def let(into: str, what: Value) -> Step:
    return Step("let", what=what, into=into)


def check(what: Callable[[Registers], bool], note: str) -> Step:
    return Step("check", what=what, note=note)


def jump(target: str, when: Optional[Callable[[Registers], bool]] = None) -> Step:
    return Step("jump", target, when)


def label(name: str) -> Step:
    return Step("label", name)


fence = Step("fence")
membarrier = Step("membarrier")


class Broken(Exception):
    """A race, or a check that fails."""


class _Thread(NamedTuple):
    at: int
    registers: Tuple[Tuple[str, Any], ...]
    view: Tuple[int, ...]


class _State(NamedTuple):
    threads: Tuple[_Thread, ...]
    memory: Tuple[Tuple[Tuple[Any, Tuple[int, ...]], ...], ...]  # by location: its values, each with a view
    shared: Tuple[int, ...]  # of all fences


def _joined(a: Tuple[int, ...], b: Tuple[int, ...]) -> Tuple[int, ...]:
    return a if a == b else tuple(map(max, a, b))


class Machine:
    """Explores all runs of some threads from the given values. Raises Broken for the first bad one."""

    def __init__(self, start: Dict[str, Any], *threads: Sequence[Step], most_states: int = 2_000_000):
        self.names = list(start)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.code: List[List[Step]] = [list(steps) for steps in threads]
        self.labels = [{s.where: i for i, s in enumerate(steps) if s.kind == "label"} for steps in self.code]
        none = (0,) * len(start)
        self.start = _State(
            tuple(_Thread(0, (), none) for _ in threads), tuple(((value, none),) for value in start.values()), none
        )
        self.most_states = most_states
        self.states = 0
        self.ends = 0  # states in which all threads are done
        self.stuck = 0  # in which some thread waits for ever

    def run(self, at_end: Optional[Callable[[List[Registers], Dict[str, Any]], bool]] = None) -> "Machine":
        """`at_end` judges the registers of the threads and the newest value of each location."""
        seen = {self.start}
        left = [self.start]
        while left:
            state = left.pop()
            self.states += 1
            if self.states > self.most_states:
                raise RuntimeError("more states than allowed")
            fresh = [after for t in range(len(self.code)) for after in self._after(state, t)]
            if not fresh:
                if all(t.at == len(code) for t, code in zip(state.threads, self.code)):
                    self.ends += 1
                    newest = {name: state.memory[i][-1][0] for i, name in enumerate(self.names)}
                    if at_end is not None and not at_end([dict(t.registers) for t in state.threads], newest):
                        raise Broken(f"the end: {newest}")
                else:
                    self.stuck += 1
            for after in fresh:
                if after not in seen:
                    seen.add(after)
                    left.append(after)
        return self

    def _after(self, state: _State, number: int) -> List[_State]:
        """All states that one step of that thread leads to."""
        thread = state.threads[number]
        if thread.at == len(self.code[number]):
            return []
        step = self.code[number][thread.at]
        registers = dict(thread.registers)

        def of(value: Any) -> Any:
            return value(registers) if callable(value) else value

        def moved(view: Tuple[int, ...], memory: Any = state.memory, shared: Any = state.shared, at: int = thread.at + 1) -> _State:
            mine = _Thread(at, tuple(sorted(registers.items())), view)
            return _State(state.threads[:number] + (mine,) + state.threads[number + 1 :], memory, shared)

        if step.kind == "label":
            return [moved(thread.view)]
        if step.kind == "let":
            registers[str(step.into)] = of(step.what)
            return [moved(thread.view)]
        if step.kind == "jump":
            taken = step.what is None or step.what(registers)
            return [moved(thread.view, at=self.labels[number][step.where] if taken else thread.at + 1)]
        if step.kind == "check":
            if not step.what(registers):
                raise Broken(f"thread {number}: {step.note}: {registers}")
            return [moved(thread.view)]
        if step.kind == "membarrier":
            all_views = state.shared
            for t in state.threads:
                all_views = _joined(all_views, t.view)
            return [_State(tuple(t._replace(at=t.at + (i == number), view=all_views) for i, t in enumerate(state.threads)),
                           state.memory, all_views)]
        view, shared = thread.view, state.shared
        if step.kind == "fence" or step.order == "seq_cst":
            view = shared = _joined(view, shared)
        if step.kind == "fence":
            return [moved(view, shared=shared)]
        return self._access(state, number, step, registers, of, moved, view, shared)

    def _access(self, state: Any, number: int, step: Step, registers: Registers, of: Any, moved: Any, view: Any, shared: Any) -> List[_State]:
        place = self.index[of(step.where)]
        history = state.memory[place]
        newest = len(history) - 1
        acquires = step.order in ("acquire", "acq_rel", "seq_cst")
        releases = step.order in ("release", "acq_rel", "seq_cst")

        def seen(value: int, with_view: bool) -> Tuple[int, ...]:
            after = _joined(view, history[value][1]) if with_view else view
            return after[:place] + (max(value, after[place]),) + after[place + 1 :]

        def appended(what: Any, at: Tuple[int, ...], passed_on: Tuple[int, ...]) -> Tuple[Any, Any]:
            at = at[:place] + (newest + 1,) + at[place + 1 :]
            carried = _joined(passed_on, at) if releases or step.kind == "put" else passed_on
            memory = state.memory[:place] + (history + ((what, carried),),) + state.memory[place + 1 :]
            return at, memory

        none = (0,) * len(self.names)
        if step.kind in ("get", "put") and view[place] != newest:
            raise Broken(f"thread {number}: a race at {of(step.where)}: {registers}")
        if step.kind == "get":
            registers[str(step.into)] = history[newest][0]
            return [moved(view)]
        if step.kind in ("store", "put"):
            at, memory = appended(of(step.what), view, none)
            return [moved(at, memory, shared)]
        if step.kind in ("exchange", "cas"):  # the newest value, in whatever order the histories are explored
            value = history[newest][0]
            made = step.kind == "exchange" or value == of(step.expected)
            what = of(step.what)
            registers[str(step.into)] = value
            at = seen(newest, acquires)
            if not made:
                return [moved(at, shared=shared)]
            at, memory = appended(what, at, history[newest][1])
            return [moved(at, memory, shared)]
        choices = range(view[place], newest + 1)
        if step.kind == "await":
            return [moved(seen(v, acquires), shared=shared) for v in choices if step.what(history[v][0])]
        states = []
        for v in choices:
            registers[str(step.into)] = history[v][0]
            states.append(moved(seen(v, acquires), shared=shared))
        return states
