"""Checksums and signatures of kept plans: which bytes may be used without a proof."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import struct
from typing import NamedTuple, Optional, Union

from ._core import InputError

_DIGEST = 32  # bytes of SHA-256
_KEY = range(32, 4097)  # bytes of a key file
_HEAD = struct.Struct("<Bf")  # the layout's version, the seconds that solving took
_VERSION = 2


def open_regular(path: Union[str, "os.PathLike[str]"], *, follow: bool = True) -> int:
    """Opens a regular file for reading and returns its descriptor. Never waits for a pipe. Raises OSError, also if the
    path is no regular file."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{os.fspath(path)!r} is no regular file")
    return file


def read_key(path: Union[str, "os.PathLike[str]"]) -> bytes:
    """Returns the key of a farm, the bytes of a file. Raises InputError if the file is not there, is shorter than 32 bytes
    or longer than 4096, or can be read by all users of the machine."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_KEY.stop)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be read as a key: {error}") from error
    if len(key) not in _KEY:
        raise InputError(f"{os.fspath(path)}: a key has 32 to 4096 bytes")
    if mode & stat.S_IROTH:
        raise InputError(f"{os.fspath(path)}: a key that all users can read is none (chmod o-r)")
    return key


class Opened(NamedTuple):
    """The bytes of a kept plan, whether they may be used without a proof, and the seconds that solving took."""

    packed: bytes
    believed: bool
    seconds: float


class Seal:
    """What an entry has before its plan: a checksum of all that follows; a signature, which is zeros without a key; the
    layout's version in a byte; the seconds of solving as a float, the lowest byte first.

    The signature is the HMAC (RFC 2104) with SHA-256 of the entry's name and plan, so that an entry under another name
    is not believed. `trusted` believes every entry whose checksum is right."""

    def __init__(self, *, trusted: bool = False, key: Union[str, "os.PathLike[str]", None] = None):
        self._trusted = trusted
        self._key = None if key is None else read_key(key)

    def close(self, name: str, packed: bytes, seconds: float = 0.0) -> bytes:
        body = _HEAD.pack(_VERSION, seconds) + packed
        rest = (bytes(_DIGEST) if self._key is None else self._sign(name, body)) + body
        return hashlib.sha256(rest).digest() + rest

    def open(self, name: str, entry: object) -> Optional[Opened]:
        """Returns what the entry holds, or None if it is damaged or of another version."""
        if not isinstance(entry, (bytes, bytearray, memoryview)):
            return None
        rest = bytes(entry)[_DIGEST:]
        if len(rest) < _DIGEST + _HEAD.size or hashlib.sha256(rest).digest() != bytes(entry[:_DIGEST]):
            return None
        signature, body = rest[:_DIGEST], rest[_DIGEST:]
        version, seconds = _HEAD.unpack_from(body)
        if version != _VERSION:
            return None
        signed = self._key is not None and hmac.compare_digest(signature, self._sign(name, body))
        return Opened(body[_HEAD.size :], self._trusted or signed, seconds if 0 <= seconds < 1e6 else 0.0)

    def _sign(self, name: str, body: bytes) -> bytes:
        assert self._key is not None
        return hmac.digest(self._key, f"berth plan {name}\n".encode() + body, "sha256")
