"""Plans kept by what they answer."""

from __future__ import annotations

import os
import pathlib
import tempfile
import warnings
from typing import Any, Iterator, MutableMapping, Optional, Union

from ._core import InputError, Plan, Problem
from .many import entry_of, key_of, most_bytes, plan_from
from .seal import Seal, open_regular

_ENTRY = 1 << 28  # bytes of an entry that is read without its problem


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
        return self.read(key, _ENTRY)

    def read(self, key: str, most: int) -> bytes:
        """Returns the entry. Raises KeyError if there is none, or if it is no regular file or longer than `most` bytes."""
        try:
            with os.fdopen(open_regular(self._file(key), follow=False), "rb") as file:
                if os.fstat(file.fileno()).st_size > most:
                    raise KeyError(key)
                return file.read(most)
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
    nor the order of the buffers make a difference: a caller with another order gets the same plan in that order.
    Problems that are the same in more than that (other numbers of alias groups, pairs of one or the other of two like
    buffers) may have two keys: a miss, never a wrong plan.

    An entry's offsets are verified, and the entry has to prove that no plan is better: whatever became of it, a wrong
    entry costs time and nothing else. A certificate proves an arena that fills its bound, without paid reuse penalties,
    in the cheapest memories, and that a memory is too small. All other plans, and those of buffers with hints, are
    solved again, unless

      key      a file of 32 bytes or more: entries that were signed with it are used
      trusted  only friends write into the store: all entries are used

    and the checksum and the offsets are right. A store that fails, in whatever way, has no entry: get() says None, and
    put() warns once."""

    def __init__(
        self,
        store: Union[str, "os.PathLike[str]", MutableMapping[str, bytes]],
        *,
        trusted: bool = False,
        key: Union[str, "os.PathLike[str]", None] = None,
    ):
        self.store = store if isinstance(store, MutableMapping) else Folder(store)
        self.hits = 0
        self.misses = 0  # of which some were
        self.refused = 0  # there, and not used
        self._seal = Seal(trusted=trusted, key=key)
        self._warned = False

    def get(self, problem: Problem, **options: Any) -> Optional[Plan]:
        name = key_of(problem, _whole(options))
        plan = None
        try:
            entry = self.store.read(name, most_bytes(problem)) if isinstance(self.store, Folder) else self.store[name]
            plan = plan_from(problem, entry, self._seal, name, True)
            self.refused += plan is None
        except KeyError:
            pass
        except Exception as error:  # the store's own, of whatever kind: a lost connection, no memory
            self._warn("cannot be read", error)
        self.hits += plan is not None
        self.misses += plan is None
        return plan

    def put(self, problem: Problem, plan: Plan, **options: Any) -> None:
        """Keeps a plan. Does nothing for plans that a deadline or a stop has cut short: another day there would be a
        better one."""
        if plan.deadline_hit:
            return
        name = key_of(problem, _whole(options))
        entry = entry_of(plan, self._seal, name, True)
        try:
            if len(entry) <= most_bytes(problem):
                self.store[name] = entry
        except Exception as error:  # read-only, full, lost: a plan that is not kept is solved again
            self._warn("keeps nothing", error)

    def _warn(self, what: str, error: Exception) -> None:
        warned, self._warned = self._warned, True
        if not warned:
            warnings.warn(f"the plan cache {what}: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)

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
