"""The identity of a file under any name: hashes of its content, with device and inode as a hint."""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from hashlib import blake2b

from attrs import frozen

from coordinators.values.canonical import Json
from trident_py.spouts.files.content import Content

HASHED_BYTES = 1024
"""The number of bytes at the beginning, and at the end of the seen bytes, that are hashed."""

START_BYTES = 64
"""The number of bytes at the beginning by which a file is compared that is shorter than the hashed bytes."""

_START_SIZES = (1, 2, 4, 8, 16, 32, START_BYTES)
_DIGEST_BYTES, _DIGEST_CHARS = 6, 8

Hint = tuple[int, int]
"""Device and inode."""

Stamp = tuple[int, int, int, int]
"""Device, inode, size and time of the last change: while they are the same, the file is unchanged."""


def hint_of(status: os.stat_result) -> Hint:
    """Return device and inode of a file."""
    return status.st_dev, status.st_ino


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file, which changes when the file does."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def digest(data: bytes) -> str:
    """Return a hash of ``data``, short enough to be stored a hundred thousand times."""
    return urlsafe_b64encode(blake2b(data, digest_size=_DIGEST_BYTES).digest()).decode()


@frozen
class Identity:
    """The identity of a file: two hashes of the bytes that were seen of it.

    The bytes that were only read would not be sufficient: if only a header was read, any file with this header would
    match.

    Attributes:
        hint: the device and inode where it was found. A copy, a restored backup or another mount has others, and is the
            same file.
        length: the number of seen bytes.
        head: the hash of the first `HASHED_BYTES` of them, or of all if there are fewer.
        last: the hash of the last `HASHED_BYTES` of them, or of all if there are fewer.
        packed: its size on disk, if it is compressed; while size and hint are the same, it isn't unpacked.
        start: a character each for the hashes of the first 1, 2, 4 … `START_BYTES` bytes, as far as it is that long.
    """

    hint: Hint
    length: int
    head: str
    last: str
    packed: int = 0
    start: str = ""

    @classmethod
    def of(cls, content: Content, length: int) -> Identity | None:
        """Return the identity of an open file, up to ``length``; None: it is shorter."""
        size = min(HASHED_BYTES, length)
        head = content.read_at(0, size)
        last = content.read_at(length - size, size) if length > size else head
        if len(head) < size or len(last) < size:
            return None
        return cls(hint_of(content.status), length, digest(head), digest(last), content.packed, start_of(head))

    @property
    def head_bytes(self) -> int:
        """The number of bytes in the hash ``head``."""
        return min(HASHED_BYTES, self.length)

    def fits(self, content: Content) -> bool:
        """Return whether an open file has all seen bytes, according to the hashes."""
        size = self.head_bytes
        head = content.read_at(0, size)
        if len(head) < size or digest(head) != self.head:
            return False
        last = content.read_at(self.length - size, size)
        return len(last) == size and digest(last) == self.last

    def begins(self, content: Content) -> bool:
        """Return whether an open file has the same beginning, up to its end, according to the hashes.

        An empty file has.
        """
        head = content.read_at(0, self.head_bytes)
        return digest(head) == self.head if len(head) == self.head_bytes else self.start.startswith(start_of(head))

    def is_untouched(self, status: os.stat_result) -> bool:
        """Return whether device, inode and size are sufficient to identify a compressed file as this one."""
        return bool(self.packed) and (*self.hint, self.packed) == (status.st_dev, status.st_ino, status.st_size)

    @property
    def stored(self) -> list[Json]:
        """The JSON form, without the length."""
        head = self.head + self.start
        if self.packed:
            return [*self.hint, head, self.last, self.packed]
        return [*self.hint, head] if self.length <= HASHED_BYTES else [*self.hint, head, self.last]

    @classmethod
    def parse(cls, stored: object, length: int) -> Identity | None:
        """Return the identity with this JSON form; None: it is not such a form."""
        match stored:
            case [int() as device, int() as inode, str() as both]:
                last, packed = both[:_DIGEST_CHARS], 0
            case [int() as device, int() as inode, str() as both, str() as last]:
                packed = 0
            case [int() as device, int() as inode, str() as both, str() as last, int() as packed]:
                pass
            case _:
                return None
        return cls((device, inode), length, both[:_DIGEST_CHARS], last, packed, both[_DIGEST_CHARS:])


def start_of(head: bytes) -> str:
    """Return `Identity.start` for a file with this beginning.

    For a shorter file, it is a prefix of the one of a longer file.
    """
    return "".join(digest(head[:size])[0] for size in _START_SIZES if size <= len(head))
