"""Many problems through any executor, and the entries in which plans are kept.

Plans are pure functions of a problem and an effort, so that whoever runs tasks may make them: processes, MPI, Dask.
Tasks carry packed problems without names, answers come back packed, and every one is verified before it is used.
"""

from __future__ import annotations

import base64
import concurrent.futures
import hashlib
import itertools
import json
import os
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._core import InputError, Plan, Problem, __version__
from .seal import Seal, open_regular

# The most problems and buffers of a task: small problems share its cost, large ones go alone. Many problems make some
# 64 tasks or more. The last ones are the shortest, so that no worker is waited for long.
_TASK_PROBLEMS = range(8, 64)
_TASK_BUFFERS = 4000
_TASKS = 64
# The number of executors in a row that may die without one answer before the remaining problems are given up.
_DEATHS = 3
_LINE = 1 << 26  # bytes of a journal's line that are read at once: a longer one is no line of ours

Executor = concurrent.futures.Executor
Answer = Tuple[bool, Any]  # (True, packed plan) or (False, the exception)


class ManyError(InputError):
    """Some problems have no answer. `plans` has those that are there and None for the others, `failures` what became of
    each by its index, `index` the first of them."""

    plans: List[Optional[Plan]]
    failures: Dict[int, BaseException]

    def __init__(self, text: str, plans: Sequence[Optional[Plan]] = (), failures: Optional[Dict[int, Any]] = None):
        super().__init__(text)
        self.plans = list(plans)
        self.failures = failures or {}
        self.index = min(self.failures, default=None)


def key_of(problem: Problem, options: Dict[str, Any]) -> str:
    """What decides a plan, hashed: the problem without its names and the order of its buffers, the options and the version
    of the solver."""
    return _key(_of_options(options), problem._key())


def _of_options(options: Dict[str, Any]) -> "hashlib._Hash":
    return hashlib.sha256(f"berth {__version__} {sorted(options.items())}\n".encode())


def _key(of_options: "hashlib._Hash", packed: bytes) -> str:
    what = of_options.copy()
    what.update(packed)
    return what.hexdigest()


def most_bytes(problem: Problem) -> int:
    """Returns the bytes of the longest entry that is kept or read. A plan of this problem takes far less."""
    return 65536 + 256 * len(problem)


def entry_of(plan: Plan, seal: Seal, name: str, ordered: bool) -> bytes:
    """Returns a plan as it is kept under a name. `ordered`: its buffers in an order of their own, not in the caller's."""
    return seal.close(name, plan._packed(ordered))


def plan_from(problem: Problem, entry: object, seal: Seal, name: str, ordered: bool) -> Optional[Plan]:
    """Returns the plan of the problem that an entry holds, or None if it must not be used. Verifies its offsets. If the
    seal does not say that a friend wrote it, the plan must also prove that no other is better."""
    opened = seal.open(name, entry)
    if opened is None or len(opened.packed) > most_bytes(problem):
        return None
    try:
        plan, proved = problem._unpacked(opened.packed, prove=not opened.believed, ordered=ordered)
    except InputError:
        return None
    return plan if opened.believed or proved else None


def solve_packed(packed: Sequence[bytes], options: Dict[str, Any]) -> List[Answer]:
    """A task."""
    answers: List[Answer] = []
    for each in packed:
        try:
            answers.append((True, Problem._of_packed(each).solve(**options)._packed()))
        except (InputError, MemoryError) as error:
            answers.append((False, error))
    return answers


class _Job(NamedTuple):
    """One problem to be solved, for all items that ask for it."""

    key: str
    packed: bytes
    buffers: int


class Journal:
    """Plans as they come, one JSON line each: {"key", "entry"}. The next run reads what a killed one has written, and
    passes over a last line that was cut off.

    A plan of the journal is verified before it is used, and solved again if it does not prove that no other is better.
    `trusted` and `key` are those of PlanCache: with one of them a run goes on with all that it had. Raises InputError
    for a path that is no regular file, and OSError if the file cannot be opened."""

    def __init__(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        trusted: bool = False,
        key: Union[str, "os.PathLike[str]", None] = None,
    ):
        self.path = os.fspath(path)
        self._seal = Seal(trusted=trusted, key=key)
        self._kept: Dict[str, bytes] = {}
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise InputError(f"{self.path}: a journal is a regular file")
        try:
            with os.fdopen(open_regular(self.path), "rb") as file:
                for line in iter(lambda: file.readline(_LINE), b""):
                    self._read(line)
        except FileNotFoundError:
            pass
        self._file = open(self.path, "ab")
        if self._file.tell() > 0:
            self._file.write(b"\n")  # behind what was cut off; an empty line is passed over as well

    def _read(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            self._kept[record["key"]] = base64.b64decode(record["entry"], validate=True)
        except (ValueError, TypeError, KeyError, RecursionError):
            return

    def get(self, key: str, problem: Problem) -> Optional[Plan]:
        entry = self._kept.get(key)
        return None if entry is None else plan_from(problem, entry, self._seal, key, ordered=False)

    def add(self, key: str, plan: Plan) -> None:
        entry = entry_of(plan, self._seal, key, False)
        self._kept[key] = entry
        record = {"key": key, "entry": base64.b64encode(entry).decode()}
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            warnings.warn(f"{self.path}: {error}; this plan is not in the journal", RuntimeWarning, stacklevel=2)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:  # what add() has said of already: the file is closed, and the plans are there
            warnings.warn(f"{self.path}: {error}; its last plans are not in the journal", RuntimeWarning, stacklevel=2)


def _tasks(jobs: Iterable[_Job], count: int, one_each: bool) -> Iterator[List[_Job]]:
    """Of `count` jobs, which come the largest first."""
    most = 1 if one_each else min(max(count // _TASKS, _TASK_PROBLEMS.start), _TASK_PROBLEMS.stop)
    task: List[_Job] = []
    buffers = 0
    for job in jobs:
        if task and (len(task) == most or buffers + job.buffers > _TASK_BUFFERS):
            yield task
            task, buffers = [], 0
        task.append(job)
        buffers += job.buffers
    if task:
        yield task


def _run(executor: Executor, tasks: Iterable[List[_Job]], options: Dict[str, Any]) -> Iterator[Tuple[_Job, Answer]]:
    """What the executor answers, as it comes. Ends early where it dies: what it then owes is not answered."""
    waiting: Dict["concurrent.futures.Future[List[Answer]]", List[_Job]] = {}
    try:
        for task in tasks:
            try:
                future = executor.submit(solve_packed, [job.packed for job in task], options)
            except RuntimeError:  # a BrokenExecutor, or it was shut down
                break
            waiting[future] = task
        for future in concurrent.futures.as_completed(list(waiting)):
            task = waiting.pop(future)
            try:
                answers = future.result()
            except (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError):
                continue
            except Exception as error:  # the executor's own: a lost worker of Dask, what cannot be pickled
                answers = [(False, error)] * len(task)
            yield from zip(task, answers)
    finally:
        for future in waiting:
            future.cancel()


def _by_executors(
    jobs: Iterable[_Job], count: int, executor: Union[Executor, Callable[[], Executor]], options: Dict[str, Any]
) -> Iterator[Tuple[_Job, Answer]]:
    """`jobs` are taken while the first tasks run already: all of them before the first answer is given out."""
    left: Dict[str, _Job] = {}

    def taken() -> Iterator[_Job]:
        for job in coming:
            left[job.key] = job
            yield job

    coming = iter(jobs)
    tasks = _tasks(taken(), count, one_each=False)
    given = isinstance(executor, Executor) or not callable(executor)
    deaths = 0
    while deaths < (1 if given else _DEATHS):
        answered = False
        running = executor if given else executor()  # type: ignore[operator]
        try:
            for job, answer in _run(running, tasks, options):  # type: ignore[arg-type]
                left.update((more.key, more) for more in coming)  # that are there where it died while tasks were sent
                del left[job.key]
                answered = True
                yield job, answer
        finally:
            if not given:
                running.shutdown(wait=True, cancel_futures=True)  # type: ignore[union-attr]
        left.update((more.key, more) for more in coming)
        if not left:
            return
        deaths = deaths + 1 if not answered else min(deaths + 1, 1)
        # Behind a death each problem goes alone, so that one which kills its worker takes no others along.
        tasks = _tasks(list(left.values()), len(left), one_each=True)
    for job in left.values():
        yield job, (False, concurrent.futures.BrokenExecutor("the executor died before it answered"))


def _here(jobs: Iterable[_Job], options: Dict[str, Any]) -> Iterator[Tuple[_Job, Answer]]:
    for job in jobs:
        yield job, solve_packed([job.packed], options)[0]


class _Progress:
    def __init__(self, asked: Any, total: int):
        self._tell: Optional[Callable[[int, int], Any]] = asked if callable(asked) else None
        self._done, self._total, self._bar = 0, total, None
        if asked is True:
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, unit="problem")

    def step(self, count: int = 1) -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        if self._tell is not None:
            self._tell(self._done, self._total)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class _Many:
    """What a call has so far."""

    def __init__(self, problems: List[Any], options: Dict[str, Any], cache: Any, journal: Optional[Journal]):
        self.problems, self.options, self.cache, self.journal = problems, options, cache, journal
        self.plans: List[Optional[Plan]] = [None] * len(problems)
        self.failures: Dict[int, BaseException] = {}
        self.items: Dict[str, List[int]] = {}  # by key

    def jobs(self) -> Iterator[_Job]:
        """What has to be solved, the largest first."""
        of_options = _of_options(self.options)
        sizes = [len(problem) if isinstance(problem, Problem) else -1 for problem in self.problems]
        for index in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
            problem = self.problems[index]
            if not isinstance(problem, Problem):
                self.failures[index] = TypeError(f"{type(problem).__name__} is no berth.Problem")
                continue
            packed = problem._packed(False)
            key = _key(of_options, packed)
            plan = self.journal.get(key, problem) if self.journal else None
            if plan is None and self.cache is not None:
                plan = self.cache.get(problem, **self.options)
                if plan is not None and self.journal:
                    self.journal.add(key, plan)
            self.plans[index] = plan
            if plan is not None:
                continue
            if key in self.items:
                self.items[key].append(index)
            else:
                self.items[key] = [index]
                yield _Job(key, packed, len(problem))

    def take(self, job: _Job, answer: Answer) -> int:
        """Returns how many items it answers."""
        good, what = answer
        items = self.items[job.key]
        for index in items:
            problem = self.problems[index]
            try:
                if not good:
                    problem._require_valid()  # the same in the problem's own names
                    raise what
                self.plans[index] = problem._unpacked(what, prove=False)[0]
            except Exception as error:
                self.failures[index] = error
        first = self.plans[items[0]]
        if first is not None:
            if self.journal:
                self.journal.add(job.key, first)
            if self.cache is not None:
                self.cache.put(self.problems[items[0]], first, **self.options)
        return len(items)


def plan_many(
    problems: Iterable[Problem],
    *,
    executor: Union[Executor, Callable[[], Executor], None] = None,
    effort: str = "normal",
    work: int = 0,
    deadline: Optional[float] = None,
    penalty_first: bool = False,
    cache: Any = None,
    journal: Union[str, "os.PathLike[str]", Journal, None] = None,
    progress: Any = None,
) -> List[Plan]:
    """Plans of all problems, in their order.

    executor: any concurrent.futures.Executor (process pools, mpi4py's MPIPoolExecutor, Dask's client.get_executor()), or
    a function that makes one: it is called again where one dies. None: here, one after the other.
    cache: a PlanCache. journal: a file that keeps plans as they come, and from which the next call goes on: a path, or a
    Journal, which the caller closes.
    progress: True for tqdm's bar where tqdm is, or a function of (done, total).

    Raises ManyError, behind the last answer, where some problems have none.
    """
    options = {"effort": effort, "work": work, "deadline": deadline, "penalty_first": penalty_first}
    Problem().solve(effort=effort, work=work, deadline=deadline, penalty_first=penalty_first)  # options are good, or raise
    book = journal if isinstance(journal, Journal) or journal is None else Journal(journal)
    try:
        many = _Many(list(problems), options, cache, book)
        count, jobs = len(many.problems), many.jobs()
        if executor is None or cache is not None or book is not None:  # else some run before the last ones are packed
            eager = list(jobs)
            count, jobs = len(eager), iter(eager)
        bar = _Progress(progress, len(many.problems))
        try:
            answers = _here(jobs, options) if executor is None else _by_executors(jobs, count, executor, options)
            first: Optional[Tuple[_Job, Answer]] = next(answers, None)
            bar.step(len(many.problems) - sum(len(items) for items in many.items.values()))
            for job, answer in itertools.chain([] if first is None else [first], answers):
                bar.step(many.take(job, answer))
        finally:
            bar.close()
    finally:
        if book is not None and book is not journal:
            book.close()
    if many.failures:
        lowest = min(many.failures)
        text = f"{len(many.failures)} of {len(many.plans)} problems have no answer; the first, {lowest}: {many.failures[lowest]}"
        raise ManyError(text, many.plans, many.failures)
    return [plan for plan in many.plans if plan is not None]
