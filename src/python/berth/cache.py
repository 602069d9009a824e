"""Plans kept by what they answer."""

from __future__ import annotations

import os
import pathlib
import tempfile
import warnings
from typing import Any, Iterator, MutableMapping, Optional, Union

from ._core import InputError, Plan, Problem
from .many import entry_of, key_of, plan_from


class Folder(MutableMapping[str, bytes]):
    """A folder as a mapping: one file a key, in one of 256 folders. Files are written beside their place, under names that
    start with a point, and renamed, so that several processes may share it."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]):
        self.path = pathlib.Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if not self.path.is_dir():
                raise InputError(f"{self.path}: cannot be a cache's folder: {error.strerror}") from error

    def _file(self, key: str) -> pathlib.Path:
        return self.path / key[:2] / key[2:]

    def __getitem__(self, key: str) -> bytes:
        try:
            return self._file(key).read_bytes()
        except OSError as error:
            raise KeyError(key) from error

    def __setitem__(self, key: str, value: bytes) -> None:
        to = self._file(key)
        to.parent.mkdir(exist_ok=True)
        number, name = tempfile.mkstemp(dir=to.parent, prefix=".")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(value)
            os.replace(name, to)
        except BaseException:
            os.unlink(name)
            raise

    def __delitem__(self, key: str) -> None:
        try:
            self._file(key).unlink()
        except OSError as error:
            raise KeyError(key) from error

    def __iter__(self) -> Iterator[str]:
        for file in self.path.glob("??/[!.]*"):
            yield file.parent.name + file.name

    def __len__(self) -> int:
        return sum(1 for _ in self)


class PlanCache:
    """Plans by the hash of their problem and of the effort, in a folder or in any mapping of str to bytes. Neither names
    nor the order of the buffers make a difference: who asks in another order gets the same plan in that order. Problems
    that are the same in more than that (other numbers of alias groups, pairs of one or the other of two like buffers) may
    have two keys: a miss, never a wrong plan.

    An entry's offsets are verified, and its certificate has to prove that no plan is better: whoever wrote it, and
    whatever became of it since, a wrong entry costs time and nothing else. Plans that only an exhausted search proves, or
    nothing, and those of buffers with hints, can be judged so by nobody, and are solved again, unless `trusted` says that
    only friends write there: then they are used where their checksum and their offsets are right.
    """

    def __init__(self, store: Union[str, "os.PathLike[str]", MutableMapping[str, bytes]], *, trusted: bool = False):
        self.store = store if isinstance(store, MutableMapping) else Folder(store)
        self.trusted = trusted
        self.hits = 0
        self.misses = 0  # of which some were
        self.refused = 0  # there, and not used
        self._warned = False

    def get(self, problem: Problem, **options: Any) -> Optional[Plan]:
        try:
            entry = self.store[key_of(problem, _whole(options))]
        except KeyError:
            self.misses += 1
            return None
        plan = plan_from(problem, entry, self.trusted, True)
        if plan is None:
            self.refused += 1
            self.misses += 1
        else:
            self.hits += 1
        return plan

    def put(self, problem: Problem, plan: Plan, **options: Any) -> None:
        """Not for plans that a deadline or a stop has cut short: another day there would be a better one."""
        if plan.deadline_hit:
            return
        try:
            self.store[key_of(problem, _whole(options))] = entry_of(plan, True)
        except OSError as error:  # read-only, or full: what is not kept is solved again
            if not self._warned:
                warnings.warn(f"the plan cache keeps nothing: {error}", RuntimeWarning, stacklevel=2)
            self._warned = True

    def solve(self, problem: Problem, **options: Any) -> Plan:
        """The plan that is kept, or problem.solve(**options), which is then kept."""
        plan = self.get(problem, **options)
        if plan is None:
            plan = problem.solve(**options)
            self.put(problem, plan, **options)
        return plan


def _whole(options: Any) -> Any:
    """With those that were left out, and without those that do not change a plan."""
    known = {"effort": "normal", "work": 0, "deadline": None, "penalty_first": False}
    return {name: options.get(name, usual) for name, usual in known.items()}
