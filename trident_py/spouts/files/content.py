"""The content of a file, as bytes at positions: for a compressed file, its unpacked bytes."""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
from attrs import define, field

from trident_py.errors import FailedException, SpoutError

_WORD = 8
_PAGE_WORDS = 1 << 16
_BITS = 64
_MASK = (1 << _BITS) - 1


def _scattered(first: int, count: int) -> np.ndarray:
    """Return the numbers of SplitMix64 for ``first`` and the ``count - 1`` integers after it."""
    mixed = (np.arange(count, dtype=np.uint64) + np.uint64(first & _MASK)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


# Odd, as a product with an even number loses bits. The upper four bytes of a word have weights of their own: in one
# product with the whole word, those of its last byte would be eight bits wide.
_WEIGHTS, _UPPER_WEIGHTS = _scattered(1, 2 * _PAGE_WORDS).reshape(2, _PAGE_WORDS) | np.uint64(1)


def seed_of(*names: str) -> int:
    """Return a seed derived from ``names``, so that equal bytes of different files have different hashes."""
    return int.from_bytes(hashlib.blake2b("\0".join(names).encode(errors="surrogatepass"), digest_size=8).digest())


def hash_bytes(seed: int, position: int, block: bytes) -> int:
    """Return the part of a content's hash for ``block`` at ``position``; ``seed`` identifies the content.

    The hash of a content is the sum of these parts, however it is cut into tasks and blocks. Each byte is multiplied by
    a number that follows from its position, so another byte, or the same byte elsewhere, gives another sum. NumPy does
    this for eight bytes at once, in a hundredth of the time that reading lines takes.
    """
    skipped = position % _WORD
    words = np.zeros(-(-(skipped + len(block)) // _WORD), "<u8")
    words.view(np.uint8)[skipped : skipped + len(block)] = np.frombuffer(block, np.uint8)
    at, end, total = position // _WORD, position // _WORD + len(words), 0
    while at < end:
        page, within = divmod(at, _PAGE_WORDS)
        part, words = np.split(words, [_PAGE_WORDS - within])
        places = slice(within, within + len(part))
        lower, upper = np.dot(part, _WEIGHTS[places]), np.dot(part >> np.uint64(32), _UPPER_WEIGHTS[places])
        total += (int(lower) + int(upper)) * (int(_scattered(seed + page, 1)[0]) | 1)
        at += len(part)
    return total & _MASK


UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""The exceptions for a file that can't be read or unpacked."""

_AWAY = {
    getattr(errno, name)
    for name in (
        *("EIO", "ESTALE", "ENODEV", "ENXIO", "EREMOTEIO", "ENOTCONN", "ETIMEDOUT", "ECONNREFUSED", "ECONNRESET"),
        *("ECONNABORTED", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ESHUTDOWN"),
    )
    if hasattr(errno, name)
}
"""The errors of a disk or file server that doesn't answer; some systems lack some of them."""

_PULL_BYTES = 256 * 1024
_KEPT_BYTES = 4 * 1024


def _zstd(file: BinaryIO) -> pa.NativeFile:
    if isinstance(file, pa.NativeFile):
        return pa.CompressedInputStream(file, "zstd")
    own = os.fdopen(os.dup(file.fileno()), "rb", buffering=0)  # Arrow closes the file that it gets
    return pa.CompressedInputStream(pa.PythonFile(own, "r"), "zstd")


_UNPACKERS: Mapping[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstd,
}


def is_compressed(path: str) -> bool:
    """Return whether the suffix is that of a compressed file: .gz, .bz2, .xz or .zst."""
    return os.path.splitext(path)[1] in _UNPACKERS


def check_reached(path: str, error: BaseException) -> None:
    """Check that an error of a file does not mean that its disk or server is unavailable.

    Raises:
        FailedException: the disk or server is unavailable; a retry may succeed.
    """
    if isinstance(error, OSError) and error.errno in _AWAY:
        raise FailedException(f"file {path!r} can't be reached: {error.strerror}") from error


@contextmanager
def file_errors(path: str, *passed: type[OSError]) -> Iterator[None]:
    """Convert errors of a file into errors that name it, except those in ``passed``.

    Raises:
        FailedException: the disk or server is unavailable; a retry may succeed.
        SpoutError: the file is gone, can't be read, or is damaged.
    """
    try:
        yield
    except passed:
        raise
    except FileNotFoundError as error:
        raise SpoutError(
            f"file {path!r} is gone, with lines that were not read or may be needed again; to fix this: put it back, "
            f"under this or another name of its directory"
        ) from error
    except PermissionError as error:
        raise SpoutError(
            f"file {path!r} cannot be read: {error.strerror}; to fix this: make it readable for this user"
        ) from error
    except UNREADABLE as error:
        check_reached(path, error)
        raise SpoutError(
            f"file {path!r} cannot be read: {error}; to fix this: repair it, or move it out of the pattern"
        ) from error


@define(slots=False)
class Content:
    """The bytes of an open file, even if its name changes."""

    file: BinaryIO

    def __enter__(self) -> Self:
        """Return it, open."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self.file.close()

    @property
    def status(self) -> os.stat_result:
        """The status of the open file: device, inode, and size on disk."""
        return os.fstat(self.file.fileno())

    @property
    def size(self) -> int:
        """The number of bytes; for a compressed file, it is known only after the file was unpacked to its end."""
        return self.status.st_size

    @property
    def packed(self) -> int:
        """The size of a compressed file on disk; 0: it isn't compressed."""
        return 0

    def read_at(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from ``position`` on; fewer at the end."""
        return os.pread(self.file.fileno(), size, position)


@define(slots=False)
class UnpackedContent(Content):
    """The unpacked bytes of a compressed file.

    Its first and its most recent few KiB are kept in memory. A read before these unpacks the file again from its
    beginning.
    """

    unpack: Callable[[BinaryIO], Any]
    _stream: Any = field(default=None, init=False)
    _upto: int = field(default=0, init=False)
    _recent: bytes = field(default=b"", init=False)  # the bytes before `_upto`
    _first: bytes = field(default=b"", init=False)

    @property
    def packed(self) -> int:
        """The size of the file on disk."""
        return self.status.st_size

    @cached_property
    def size(self) -> int:
        """The number of unpacked bytes."""
        while self._pull(_KEPT_BYTES):
            pass
        return self._upto

    def read_at(self, position: int, size: int) -> bytes:
        if position + size <= len(self._first):
            return self._first[position : position + size]
        if position < self._upto - len(self._recent):
            self._stream = None
        while (self._stream is None or self._upto < position + size) and self._pull(max(size, _KEPT_BYTES)):
            pass
        start = max(0, position - (self._upto - len(self._recent)))
        return self._recent[start : start + size]

    def _pull(self, kept: int) -> bool:
        if self._stream is None:
            self.file.seek(0)
            self._stream, self._upto, self._recent = self.unpack(self.file), 0, b""
        pulled: bytes = self._stream.read(_PULL_BYTES)
        if not self._upto:
            self._first = pulled[:_KEPT_BYTES]
        self._recent = self._recent[-kept:] + pulled
        self._upto += len(pulled)
        return bool(pulled)


@define(slots=False)
class StreamContent(Content):
    """The bytes of a file that isn't on a disk."""

    def read_at(self, position: int, size: int) -> bytes:
        self.file.seek(position)
        return self.file.read(size)


def all_of(file: Any, path: str) -> bytes:
    """Return all bytes of an open file with this name, unpacked."""
    unpack = _UNPACKERS.get(os.path.splitext(path)[1])
    data: bytes = (unpack(file) if unpack else file).read()
    return data


def content_of(file: Any, path: str) -> Content:
    """Return the content of an open file with this name."""
    unpack = _UNPACKERS.get(os.path.splitext(path)[1])
    return UnpackedContent(file, unpack) if unpack else StreamContent(file)


def open_content(path: str) -> Content:
    """Return the content of the file that has this path now; close it, by ``with``.

    Raises:
        OSError: it can't be opened.
    """
    unpack = _UNPACKERS.get(os.path.splitext(path)[1])
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - whoever asks for it closes it
    return UnpackedContent(file, unpack) if unpack else Content(file)
