"""Many problems through any executor, and the entries in which plans are kept.

Plans are pure functions of a problem and an effort, so that whoever runs tasks may make them: processes, MPI, Dask.
Tasks carry packed problems without names, answers come back packed, and every one is verified before it is used.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import concurrent.futures
import copy
import hashlib
import itertools
import json
import os
import pathlib
import struct
import time
import warnings
from typing import Any, AsyncIterable, AsyncIterator, Callable, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional
from typing import Sequence, Tuple, Union

from ._core import InputError, Plan, Problem, _revision, read
from .seal import Seal, open_regular

# The most problems and buffers of a task: small problems share its cost, large ones go alone. Many problems make some
# 64 tasks or more. The last ones are the shortest, so that no worker is waited for long.
_TASK_PROBLEMS = range(8, 64)
_TASK_BUFFERS = 4000
_TASKS = 64
# The number of executors in a row that may die without one answer before the remaining problems are given up, and of
# those that may die of one problem alone.
_DEATHS, _DEATHS_ALONE = 8, 2
_LOOKUPS = 256  # problems whose cache entries are asked for at once
_SLOW = 0.1  # seconds that the source is waited for before a task is sent with fewer problems
_END: Tuple[int, Any] = (-1, None)  # behind the last problem
_LINE = 1 << 26  # bytes of a journal's line that are read at once: a longer one is no line of ours

Executor = concurrent.futures.Executor
Answer = Tuple[bool, Any, float]  # (True, plan or packed plan, seconds) or (False, the exception, 0)
Result = Tuple[int, Union[Plan, Exception]]


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
    """What decides a plan, hashed: the problem without its names and the order of its buffers, the options, and the
    planner's revision, which a release keeps if it changes no plan."""
    return _key(_of_options(options), problem._key())


def _of_options(options: Dict[str, Any]) -> "hashlib._Hash":
    limit = options["deadline"]
    deadline = "-" if limit is None else struct.unpack("<Q", struct.pack("<d", limit))[0]
    text = f"berth plans {_revision} {options['effort']} {options['work']} {int(options['penalty_first'])} {deadline}\n"
    return hashlib.sha256(text.encode())


def _key(of_options: "hashlib._Hash", packed: bytes) -> str:
    what = of_options.copy()
    what.update(packed)
    return what.hexdigest()


def most_bytes(problem: Problem) -> int:
    """Returns the bytes of the longest entry that is kept or read. A plan of this problem takes far less."""
    return 65536 + 256 * len(problem)


def entry_of(plan: Plan, seal: Seal, name: str, ordered: bool, seconds: float = 0.0) -> bytes:
    """Returns a plan as it is kept under a name. `ordered`: its buffers in an order of their own, not in the caller's."""
    return seal.close(name, plan._packed(ordered), seconds)


class Kept(NamedTuple):
    """The plan that an entry holds, or None and the reason; the seconds that solving it took."""

    plan: Optional[Plan]
    why: str
    seconds: float = 0.0


def plan_from(problem: Problem, entry: object, seal: Seal, name: str, ordered: bool) -> Kept:
    """Returns the plan of the problem that an entry holds, if it may be used. Verifies its offsets. If the seal does not
    say that a friend wrote it, the plan must also prove that no other is better."""
    opened = seal.open(name, entry)
    if opened is None or len(opened.packed) > most_bytes(problem):
        return Kept(None, "damaged, or of another version")
    try:
        plan, proved = problem._unpacked(opened.packed, prove=not opened.believed, ordered=ordered)
    except InputError as error:
        return Kept(None, str(error))
    return Kept(plan, "", opened.seconds) if opened.believed or proved else Kept(None, UNPROVED)


UNPROVED = "no proof and no signature"


def shard_of(content: Union[Problem, str, "os.PathLike[str]"], shards: int) -> int:
    """Returns the shard of a problem or of a file, from 1 to `shards`, by its content. `berth plan DIR --shard` deals files
    by the same rule. Another number of shards moves as few of them as possible (Lamping and Veach's jump hash)."""
    if not 1 <= shards < 1 << 32:
        raise InputError(f"shards: {shards} is not from 1 to 2^32 - 1")
    what = content._key() if isinstance(content, Problem) else pathlib.Path(content).read_bytes()
    random = int.from_bytes(hashlib.sha256(what).digest()[:8], "big")
    shard, following = 0, 0
    while following < shards:
        shard = following
        random = (random * 2862933555777941757 + 1) % (1 << 64)
        following = (shard + 1 << 31) // ((random >> 33) + 1)
    return shard + 1


def solve_packed(packed: Sequence[bytes], options: Dict[str, Any]) -> List[Answer]:
    """A task of another process."""
    return _solve(packed, lambda each: Problem._of_packed(each).solve(**options)._packed())


def solve_here(problems: Sequence[Problem], options: Dict[str, Any]) -> List[Answer]:
    """A task of this process."""
    return _solve(problems, lambda each: each.solve(**options))


def _solve(problems: Sequence[Any], solve: Callable[[Any], Any]) -> List[Answer]:
    answers: List[Answer] = []
    for each in problems:
        start = time.perf_counter()
        try:
            answers.append((True, solve(each), time.perf_counter() - start))
        except (InputError, MemoryError) as error:
            answers.append((False, error, 0.0))
    return answers


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
        self._at: Dict[bytes, int] = {}  # where each key's line begins
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise InputError(f"{self.path}: a journal is a regular file")
        self._file = open(self.path, "ab")
        try:
            self._lines = os.fdopen(open_regular(self.path), "rb")
        except BaseException:
            self._file.close()
            raise
        at = 0
        for line in iter(lambda: self._lines.readline(_LINE), b""):
            name, _ = self._read(line)
            if name is not None:
                self._at[name] = at
            at += len(line)
        if at > 0:
            self._file.write(b"\n")  # behind what was cut off; an empty line is passed over as well

    @staticmethod
    def _read(line: bytes) -> Tuple[Optional[bytes], bytes]:
        try:
            record = json.loads(line)
            return bytes.fromhex(record["key"]), base64.b64decode(record["entry"], validate=True)
        except (ValueError, TypeError, KeyError, RecursionError):
            return None, b""

    def get(self, key: str, problem: Problem) -> Optional[Plan]:
        at = self._at.get(bytes.fromhex(key))
        if at is None:
            return None
        self._lines.seek(at)
        found, entry = self._read(self._lines.readline(_LINE))
        return plan_from(problem, entry, self._seal, key, ordered=False).plan if found == bytes.fromhex(key) else None

    def add(self, key: str, plan: Plan, seconds: float = 0.0) -> None:
        record = {"key": key, "entry": base64.b64encode(entry_of(plan, self._seal, key, False, seconds)).decode()}
        self._at[bytes.fromhex(key)] = self._file.tell()
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
        self._lines.close()
        try:
            self._file.close()
        except OSError as error:  # what add() has said of already: the file is closed, and the plans are there
            warnings.warn(f"{self.path}: {error}; its last plans are not in the journal", RuntimeWarning, stacklevel=2)


class _Job(NamedTuple):
    """A problem as it was when it was read. Equal problems are one job."""

    key: str
    packed: bytes
    problem: Problem
    name: str  # of the cache's entry; empty without a cache


class _Here:
    """The engine without an executor: submit() returns behind the answer."""

    def submit(self, solve: Callable[..., Any], *arguments: Any) -> "concurrent.futures.Future[Any]":
        future: "concurrent.futures.Future[Any]" = concurrent.futures.Future()
        try:
            future.set_result(solve(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class _Engine:
    """Sends tasks to an executor. A dead executor is made again if it can be, and its unanswered jobs go first: alone, so
    that one which kills its worker takes no others along, and one at a time if no job was answered before the death."""

    def __init__(self, executor: Union[Executor, Callable[[], Executor], None], window: int, options: Dict[str, Any]):
        self._options = options
        self._given = executor is None or isinstance(executor, Executor) or not callable(executor)
        self._make: Any = executor
        self._running: Any = None if not self._given else executor or _Here()
        self._here = executor is None
        self._sent: Dict["concurrent.futures.Future[List[Answer]]", List[_Job]] = {}
        self._queue: Deque[_Job] = collections.deque()
        self._lost: List[_Job] = []
        self._suspects: Deque[_Job] = collections.deque()
        self._deaths, self._answered = 0, False
        self._died_alone: Dict[str, int] = {}
        self.most = 1 if self._here else min(max(window // _TASKS, _TASK_PROBLEMS.start), _TASK_PROBLEMS.stop)

    @property
    def wants(self) -> bool:
        """Whether more jobs may come: not while jobs of a dead executor are left, or a task waits to be sent here."""
        behind = self._suspects or self._lost or (self._here and self._queue) or (self._deaths > 0 and self._sent)
        return not behind

    @property
    def idle(self) -> bool:
        return not (self._sent or self._queue or self._suspects)

    def add(self, jobs: Iterable[_Job]) -> None:
        self._queue.extend(jobs)

    def send(self, all_of_them: bool) -> None:
        """Sends full tasks, and the last jobs too if `all_of_them`, or if no task is running."""
        if self._deaths >= (1 if self._given else _DEATHS):
            return
        while self._suspects and not self._lost and not (self._deaths > 1 and self._sent):
            self._submit([self._suspects.popleft()])
        while self._queue and not (self._suspects or self._lost) and not (self._here and self._sent):
            task, buffers = [self._queue[0]], len(self._queue[0].problem)
            for job in itertools.islice(self._queue, 1, self.most):
                buffers += len(job.problem)
                if buffers > _TASK_BUFFERS:
                    break
                task.append(job)
            if len(task) == len(self._queue) < self.most and self._sent and not all_of_them:
                return
            for _ in task:
                self._queue.popleft()
            self._submit(task)

    def _submit(self, task: List[_Job]) -> None:
        if self._running is None:
            self._running = self._make()
        in_process = isinstance(self._running, (_Here, concurrent.futures.ThreadPoolExecutor))
        what = [job.problem if in_process else job.packed for job in task]
        try:
            self._sent[self._running.submit(solve_here if in_process else solve_packed, what, self._options)] = task
        except RuntimeError:  # a BrokenExecutor, or it was shut down
            self._lost += task

    def answers(self, wait: bool) -> Iterator[List[Tuple[_Job, Answer]]]:
        """Yields the tasks that are answered, at least one if `wait`."""
        for future in concurrent.futures.wait(self._sent, None if wait else 0, concurrent.futures.FIRST_COMPLETED).done:
            task = self._sent.pop(future)
            try:
                answers = future.result()
            except (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError):
                self._lost += task
                continue
            except Exception as error:  # the executor's own: a lost worker of Dask, what cannot be pickled
                if len(task) > 1:  # one of them may be the cause: each goes alone
                    self._suspects.extend(task)
                    continue
                answers = [(False, error, 0.0)]
            self._answered = True
            yield list(zip(task, answers))
        given_up = self._deaths >= (1 if self._given else _DEATHS)
        if (self._lost and not self._sent) or given_up:
            yield self._bury()
        elif not self._suspects and not self._sent:
            self._deaths = 0

    def _bury(self) -> List[Tuple[_Job, Answer]]:
        """Returns the answers to the jobs that are given up: one that was alone too often, or all of them."""
        dead: List[_Job] = []
        if self._lost:
            if self._deaths > 1:  # one at a time
                key = self._lost[0].key
                self._died_alone[key] = self._died_alone.get(key, 0) + 1
                dead = self._lost if self._died_alone[key] >= _DEATHS_ALONE else []
            self._deaths = min(self._deaths + 1, 1) if self._answered else self._deaths + 1
            self._answered = False
            self.close()
            self._suspects.extendleft([] if dead else self._lost)
            self._lost = []
        if self._deaths >= (1 if self._given else _DEATHS):
            dead = [*dead, *self._suspects, *self._queue]
            self._suspects.clear()
            self._queue.clear()
        error = concurrent.futures.BrokenExecutor("the executor died before it answered")
        return [(job, (False, error, 0.0)) for job in dead]

    def close(self) -> None:
        """Cancels the tasks that have not begun. Waits for the others, if this engine made the executor."""
        for future in self._sent:
            future.cancel()
        if not self._given and self._running is not None:
            self._running.shutdown(wait=True, cancel_futures=True)
            self._running = None


class _Window:
    """The problems that were read and have no answer yet."""

    def __init__(self, problems: Iterable[Any], options: Dict[str, Any], cache: Any, journal: Optional[Journal], window: int):
        self._source, self._options, self._cache, self._journal = enumerate(problems), options, cache, journal
        self._of_options = _of_options(options)
        self._window = window
        self._items: Dict[str, List[Tuple[int, Problem]]] = {}
        self._recent: Dict[str, bytes] = {}  # packed plans, the oldest first
        self.inside = 0
        self.ended = False

    def read(self, most: int) -> Tuple[List[Result], List[_Job]]:
        """Reads up to so many problems, fewer from a slow source. Returns the answers that are kept, and new jobs."""
        most = min(most if self._cache is None else max(most, _LOOKUPS), self._window - self.inside)
        waited = 0.0
        done: List[Result] = []
        jobs: List[_Job] = []
        while most > 0 and waited < _SLOW:
            start = time.monotonic()
            index, item = next(self._source, _END)
            waited += time.monotonic() - start
            if index < 0:
                self.ended = True
                break
            most -= 1
            try:
                problem = item if isinstance(item, Problem) else read(os.fspath(item))
            except TypeError:
                done.append((index, TypeError(f"{type(item).__name__} is no berth.Problem and no path")))
            except (InputError, OSError) as error:
                done.append((index, error))
            else:
                done += self._ask(index, problem, jobs)
        if self._cache is not None and jobs:
            plans = self._cache._get([(job.name, job.problem) for job in jobs])
            for job, plan in zip(jobs, plans):
                if plan is not None:
                    if self._journal:
                        self._journal.add(job.key, plan)
                    done += self._give(job.key, plan)
            jobs = [job for job, plan in zip(jobs, plans) if plan is None]
        return done, jobs

    def _ask(self, index: int, problem: Problem, jobs: List[_Job]) -> List[Result]:
        packed = problem._packed(False)
        key = _key(self._of_options, packed)
        problem = copy.copy(problem)  # the caller may change it from here on
        if key in self._items:
            self._items[key].append((index, problem))
        elif key in self._recent:
            return [(index, problem._unpacked(self._recent[key], prove=False)[0])]
        else:
            plan = self._journal.get(key, problem) if self._journal else None
            if plan is not None:
                return [(index, plan)]
            self._items[key] = [(index, problem)]
            jobs.append(_Job(key, packed, problem, key_of(problem, self._options) if self._cache is not None else ""))
        self.inside += 1
        return []

    def _give(self, key: str, plan: Plan) -> Iterator[Result]:
        """Gives a plan of the first problem with this key to all that have it."""
        items = self._items.pop(key)
        self.inside -= len(items)
        packed = self._recent[key] = plan._packed()
        if len(self._recent) > self._window:
            del self._recent[next(iter(self._recent))]
        for index, problem in items:
            yield index, plan if problem is items[0][1] else problem._unpacked(packed, prove=False)[0]

    def take(self, answered: List[Tuple[_Job, Answer]]) -> Iterator[Result]:
        """Keeps the plans of a task, and then yields them."""
        good: List[Tuple[_Job, Plan, float]] = []
        failed: List[Tuple[_Job, Exception]] = []
        for job, (is_plan, answer, seconds) in answered:
            try:
                if not is_plan:
                    job.problem._require_valid()  # the same in the problem's own names
                    raise answer
                plan = answer if isinstance(answer, Plan) else job.problem._unpacked(answer, prove=False)[0]
                good.append((job, plan, seconds))
            except Exception as error:
                failed.append((job, error))
        for job, plan, seconds in good if self._journal else ():
            self._journal.add(job.key, plan, seconds)  # type: ignore[union-attr]
        if self._cache is not None:
            self._cache._put([(job.name, job.problem, plan, seconds) for job, plan, seconds in good])
        for job, why in failed:
            items = self._items.pop(job.key)
            self.inside -= len(items)
            yield from ((index, why) for index, _ in items)
        for job, plan, _ in good:
            yield from self._give(job.key, plan)


def plan_stream(
    problems: Iterable[Union[Problem, str, "os.PathLike[str]"]],
    *,
    executor: Union[Executor, Callable[[], Executor], None] = None,
    window: int = 4096,
    effort: str = "normal",
    work: int = 0,
    deadline: Optional[float] = None,
    penalty_first: bool = False,
    cache: Any = None,
    journal: Union[str, "os.PathLike[str]", Journal, None] = None,
) -> Iterator[Result]:
    """Yields (index, plan) for each problem or problem file, as plans come. A problem without an answer yields its
    exception in the plan's place, and costs no other.

    window: the most problems that are read and not answered; `problems` is not read further.
    executor, cache, journal: those of plan_many. Threads solve the problems themselves, without packing them.

    Closing the iterator cancels all tasks that have not begun."""
    options = {"effort": effort, "work": work, "deadline": deadline, "penalty_first": penalty_first}
    Problem().solve(effort=effort, work=work, deadline=deadline, penalty_first=penalty_first)  # options are good, or raise
    if window < 1:
        raise InputError(f"window: {window} is below 1")
    return _stream(problems, executor, window, options, cache, journal)


def _stream(problems: Any, executor: Any, window: int, options: Dict[str, Any], cache: Any, journal: Any) -> Iterator[Result]:
    source = iter(problems)  # what is no iterable is refused before a file is opened
    book = journal if isinstance(journal, Journal) or journal is None else Journal(journal)
    engine = _Engine(executor, window, options)
    here = _Window(source, options, cache, book, window)
    try:
        while not (here.ended and engine.idle):
            reads = engine.wants and not here.ended and here.inside < window
            if reads:
                done, jobs = here.read(engine.most)
                engine.add(jobs)
                yield from done
            engine.send(all_of_them=here.ended or here.inside >= window)
            for answered in engine.answers(wait=not reads):
                yield from here.take(answered)
    finally:
        engine.close()
        if book is not None and book is not journal:
            book.close()


async def plan_stream_async(problems: Union[Iterable[Any], AsyncIterable[Any]], **options: Any) -> AsyncIterator[Result]:
    """plan_stream on a thread of its own, for asyncio. `problems` may be an asynchronous generator. Closing the iterator,
    or cancelling the task, ends the stream."""
    loop = asyncio.get_running_loop()
    asked: List["concurrent.futures.Future[Any]"] = []
    ended = object()
    closing = False

    async def following(source: AsyncIterator[Any]) -> Any:
        return await source.__anext__()

    def pulled(source: AsyncIterator[Any]) -> Iterator[Any]:
        while not closing:
            asked[:] = [asyncio.run_coroutine_threadsafe(following(source), loop)]
            if closing:
                asked[0].cancel()
            try:
                yield asked[0].result()
            except StopAsyncIteration:
                return

    here = pulled(problems.__aiter__()) if isinstance(problems, AsyncIterable) else problems
    stream = plan_stream(here, **options)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        try:
            while True:
                result: Any = await loop.run_in_executor(thread, next, stream, ended)
                if result is ended:
                    return
                yield result
        finally:
            closing = True
            for future in asked:
                future.cancel()
            await asyncio.shield(loop.run_in_executor(thread, stream.close))  # type: ignore[attr-defined]


def _bar(total: int) -> Optional[Callable[[int, int], Any]]:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    bar = tqdm(total=total, unit="problem")
    return lambda done, _: bar.update(done - bar.n)


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
    """Plans of all problems (or problem files), in their order: plan_stream with a window of all of them, the largest first.

    executor: any concurrent.futures.Executor (process pools, mpi4py's MPIPoolExecutor, Dask's client.get_executor()), or
    a function that makes one: it is called again where one dies. None: here, one after the other.
    cache: a PlanCache. journal: a file that keeps plans as they come, and from which the next call goes on: a path, or a
    Journal, which the caller closes.
    progress: True for tqdm's bar where tqdm is, or a function of (done, total).

    Raises ManyError, behind the last answer, where some problems have none.
    """
    items = list(problems)
    order = sorted(range(len(items)), key=lambda i: len(items[i]) if isinstance(items[i], Problem) else 0, reverse=True)
    plans: List[Optional[Plan]] = [None] * len(items)
    failures: Dict[int, BaseException] = {}
    stream = plan_stream(
        (items[i] for i in order),
        executor=executor,
        window=max(len(items), 1),
        effort=effort,
        work=work,
        deadline=deadline,
        penalty_first=penalty_first,
        cache=cache,
        journal=journal,
    )
    tell = progress if callable(progress) else _bar(len(items)) if progress is True else None
    try:
        if tell is not None:
            tell(0, len(items))
        for done, (at, answer) in enumerate(stream, 1):
            if isinstance(answer, Plan):
                plans[order[at]] = answer
            else:
                failures[order[at]] = answer
            if tell is not None:
                tell(done, len(items))
    finally:
        stream.close()  # type: ignore[attr-defined]
    if failures:
        lowest = min(failures)
        text = f"{len(failures)} of {len(items)} problems have no answer; the first, {lowest}: {failures[lowest]}"
        raise ManyError(text, plans, failures)
    return [plan for plan in plans if plan is not None]
