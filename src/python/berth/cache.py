"""Plans kept by what they answer."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import logging
import math
import os
import pathlib
import sys
import tempfile
import time
import warnings
from typing import Any, Dict, Iterator, List, MutableMapping, Optional, Sequence, Tuple, Union

from ._core import InputError, Plan, Problem
from .many import UNPROVED, entry_of, key_of, most_bytes, plan_from
from .seal import Seal, open_regular

_ENTRY = 1 << 28  # bytes of an entry that is read without its problem
_READ_IN = 0.002  # seconds: a folder that needs more for eight entries is read by several threads
_PATIENCE, _PAUSE = 1.0, 30.0  # seconds: a store whose failure took longer than the first is left alone for the second
_TOUCH = 3600.0  # seconds: an entry that was used is younger than this
_log = logging.getLogger("berth.cache")


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
                status = os.fstat(file.fileno())
                if status.st_size > most:
                    raise KeyError(key)
                if time.time() - status.st_mtime > _TOUCH:
                    try:
                        os.utime(file.fileno())
                    except OSError:
                        pass  # read-only
                return file.read(most)
        except OSError as error:
            raise KeyError(key) from error

    def read_many(self, wanted: Dict[str, int]) -> Dict[str, bytes]:
        """Returns the entries that are there, of those with these keys and these most bytes."""
        found: Dict[str, bytes] = {}

        def one(item: Tuple[str, int]) -> None:
            try:
                found[item[0]] = self.read(*item)
            except KeyError:
                pass

        items = list(wanted.items())
        start = time.monotonic()
        for item in items[:8]:
            one(item)
        if time.monotonic() - start > _READ_IN:  # it waits for a network
            with concurrent.futures.ThreadPoolExecutor(32) as threads:
                list(threads.map(one, items[8:]))
        else:
            list(map(one, items[8:]))
        return found

    def evict(self, max_bytes: float, max_age: float) -> int:
        """Deletes the entries that were not used for `max_age` seconds, and the oldest of those that are above `max_bytes`
        together. Returns how many."""
        now, evicted = time.time(), 0
        files = []
        for file in self.path.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):  # another process moves or deletes it
                status = file.stat()
                if not file.name.startswith(".") or now - status.st_mtime > 3600:  # not what is being written
                    files.append((status, file))
        total = sum(status.st_size for status, _ in files)
        for status, file in sorted(files, key=lambda each: each[0].st_mtime):
            if total <= max_bytes and now - status.st_mtime <= max_age:
                break
            with contextlib.suppress(FileNotFoundError):  # another process did it
                os.unlink(file)
                evicted += 1
            total -= status.st_size
        return evicted

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


class Redis:
    """A Redis server as a store, by the package redis."""

    def __init__(self, url: str, max_age: Optional[float] = None):
        self._server: Any = importlib.import_module("redis").Redis.from_url(url, socket_timeout=_PATIENCE)
        self._age = None if max_age is None else max(int(max_age * 1000), 1)

    def getitems(self, keys: Sequence[str]) -> Dict[str, bytes]:
        entries = self._server.mget(["berth:" + key for key in keys])
        return {key: entry for key, entry in zip(keys, entries) if entry is not None}

    def setitems(self, entries: Dict[str, bytes]) -> None:
        pipe = self._server.pipeline(transaction=False)
        for key, entry in entries.items():
            pipe.set("berth:" + key, entry, px=self._age)
        pipe.execute()


def open_store(where: Union[str, "os.PathLike[str]"], max_age: Optional[float] = None) -> Any:
    """Returns the store at a path or URL: a folder; redis://, rediss:// and unix:// for Redis; others for fsspec."""
    text = os.fspath(where)
    scheme, separator, _ = text.partition("://")
    try:
        if separator and scheme in ("redis", "rediss", "unix"):
            return Redis(text, max_age)
        return importlib.import_module("fsspec").get_mapper(text) if separator else Folder(where)
    except (ImportError, ValueError, OSError) as error:
        raise error if isinstance(error, InputError) else InputError(f"{text}: cannot be a cache: {error}")


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
    put() warns once. A refused entry is a line of the logger "berth.cache".

    store: a folder; a URL (redis://HOST, or any that fsspec knows); a mapping. One with `getitems(keys)` and
    `setitems(entries)`, as fsspec's, is asked for 256 entries at once.
    max_bytes, max_age: the limits of a folder, in bytes and in seconds since an entry was used. Beyond them the oldest
    entries are deleted. Redis takes max_age from when an entry was written."""

    def __init__(
        self,
        store: Any,
        *,
        trusted: bool = False,
        key: Union[str, "os.PathLike[str]", None] = None,
        max_bytes: Optional[int] = None,
        max_age: Optional[float] = None,
    ):
        self.store = open_store(store, max_age) if isinstance(store, (str, os.PathLike)) else store
        if not isinstance(self.store, Folder) and (max_bytes or max_age and not isinstance(self.store, Redis)):
            raise InputError("max_bytes, max_age: this store has limits of its own, or none")
        self._limits = (math.inf if max_bytes is None else max_bytes, math.inf if max_age is None else max_age)
        self.hits = 0
        self.misses = 0  # of which some were
        self.refused = 0  # there, and not used
        self.evicted = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.saved_seconds = 0.0  # that solving the hits took when they were written
        self._evict_at = 0.0  # bytes written
        self._seal = Seal(trusted=trusted, key=key)
        self._warned = False
        self._until = 0.0  # the store is left alone

    def statistics(self) -> Dict[str, float]:
        """Returns hits, misses, refused entries (misses too), evicted entries, bytes, and the seconds of solving saved."""
        names = ("hits", "misses", "refused", "evicted", "bytes_read", "bytes_written", "saved_seconds")
        return {name: getattr(self, name) for name in names}

    def get(self, problem: Problem, **options: Any) -> Optional[Plan]:
        return self._get([(key_of(problem, _whole(options)), problem)])[0]

    def put(self, problem: Problem, plan: Plan, *, seconds: float = 0.0, **options: Any) -> None:
        """Keeps a plan, and the seconds that it took. Does nothing for plans that a deadline or a stop has cut short:
        another day there would be a better one."""
        self._put([(key_of(problem, _whole(options)), problem, plan, seconds)])

    def _get(self, wanted: Sequence[Tuple[str, Problem]]) -> List[Optional[Plan]]:
        entries: Dict[str, Any] = {}
        asked = {name: most_bytes(problem) for name, problem in wanted}
        self._try("cannot be read", lambda: entries.update(self._entries(asked)))
        return [self._use(name, problem, entries.get(name)) for name, problem in wanted]

    def _entries(self, wanted: Dict[str, int]) -> Dict[str, Any]:
        if isinstance(self.store, Folder):
            return self.store.read_many(wanted)
        if hasattr(self.store, "getitems"):
            told = {"on_error": "return"} if hasattr(self.store, "fs") else {}  # fsspec's would raise for one
            found: Dict[str, Any] = self.store.getitems(list(wanted), **told)
            return found
        found, until = {}, time.monotonic() + _PATIENCE
        for name in wanted:
            try:
                found[name] = self.store[name]
            except KeyError:
                pass
            except Exception as error:
                if time.monotonic() > until:
                    raise
                found[name] = error
        return found

    def _use(self, name: str, problem: Problem, entry: Any) -> Optional[Plan]:
        if isinstance(entry, Exception):
            if not isinstance(entry, KeyError):
                self._warn("cannot be read", entry)
            entry = None
        plan, why, seconds = plan_from(problem, entry, self._seal, name, True) if entry is not None else (None, "", 0.0)
        if why:
            self.refused += 1
            _log.log(logging.INFO if why == UNPROVED else logging.WARNING, "%s is solved again: %s", name, why)
        self.hits += plan is not None
        self.misses += plan is None
        self.bytes_read += len(entry) if isinstance(entry, bytes) else 0
        self.saved_seconds += seconds
        return plan

    def _put(self, plans: Sequence[Tuple[str, Problem, Plan, float]]) -> None:
        entries: Dict[str, bytes] = {}
        for name, problem, plan, seconds in plans:
            if not plan.deadline_hit:
                entry = entry_of(plan, self._seal, name, True, seconds)
                if len(entry) <= most_bytes(problem):
                    entries[name] = entry

        if entries:
            self._keep(entries)
        if isinstance(self.store, Folder) and self._limits != (math.inf, math.inf) and self.bytes_written >= self._evict_at:
            most = self._limits[0] * 7 / 8  # room for what is written until then
            self._evict_at = self.bytes_written + min(self._limits[0] / 8, 1 << 20)
            self._try("cannot be evicted", lambda: self._evict(most))

    def _keep(self, entries: Dict[str, bytes]) -> None:
        def write(some: Dict[str, bytes]) -> None:
            if hasattr(self.store, "setitems"):
                self.store.setitems(some)
            else:
                for name in some:
                    self.store[name] = some[name]
            self.bytes_written += sum(map(len, some.values()))

        for some in [entries] if hasattr(self.store, "setitems") else [{name: entries[name]} for name in entries]:
            self._try("keeps nothing", lambda: write(some))  # read-only, full, lost: the plan is solved again

    def _evict(self, most: float) -> None:
        self.evicted += self.store.evict(most, self._limits[1])

    def _try(self, what: str, call: Any) -> None:
        """Calls the store. Its failure, of whatever kind (a lost connection, no memory), is none of the caller's."""
        start = time.monotonic()
        if start < self._until:
            return
        try:
            call()
        except Exception as error:
            self._warn(what, error)
            if time.monotonic() - start > _PATIENCE / 2:
                self._until = time.monotonic() + _PAUSE

    def _warn(self, what: str, error: Exception) -> None:
        _log.info("the plan cache %s: %r", what, error)
        warned, self._warned = self._warned, True
        if not warned:
            warnings.warn(f"the plan cache {what}: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=5)

    def solve(self, problem: Problem, **options: Any) -> Plan:
        """The plan that is kept, or problem.solve(**options), which is then kept."""
        plan = self.get(problem, **options)
        if plan is None:
            start = time.perf_counter()
            plan = problem.solve(**options)
            self.put(problem, plan, seconds=time.perf_counter() - start, **options)
        return plan


def _whole(options: Any) -> Any:
    """With those that were left out, and without those that do not change a plan."""
    known = {"effort": "normal", "work": 0, "deadline": None, "penalty_first": False}
    return {name: options.get(name, usual) for name, usual in known.items()}


def serve(where: str) -> None:
    """Serves a store to `berth plan DIR --cache URL` by standard input and output. "get NAME..." is answered by a line of
    lengths, -1 for none, and the entries; "put NAME LENGTH" is followed by an entry. A failure is a miss."""
    cache = PlanCache(where)
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    for line in iter(asked.readline, b""):
        verb, *rest = line.decode().split()
        if verb == "get":
            found: Dict[str, bytes] = {}
            cache._try("cannot be read", lambda: found.update(cache._entries({name: _ENTRY for name in rest})))
            entries = [entry if isinstance(entry, bytes) else None for entry in map(found.get, rest)]
            answers.write(" ".join(str(-1 if entry is None else len(entry)) for entry in entries).encode() + b"\n")
            answers.write(b"".join(entry for entry in entries if entry is not None))
            answers.flush()
        else:
            cache._keep({rest[0]: asked.read(int(rest[1]))})


if __name__ == "__main__":
    try:
        serve(sys.argv[1])
    except InputError as error:
        sys.exit(str(error))
