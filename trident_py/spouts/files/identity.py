"""Which file is which, whatever its name: by what it contains, with device and inode as a hint."""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from hashlib import blake2b

from attrs import frozen

from coordinators.values.canonical import Json
from trident_py.spouts.files.content import Content

HASHED_BYTES = 1024
"""How much of the beginning, and of the end of what was seen, tells a file from others."""

START_BYTES = 64
"""Up to this much of the beginning tells whether a file that is shorter than what was hashed is the same so far."""

_START_SIZES = (1, 2, 4, 8, 16, 32, START_BYTES)
_DIGEST_BYTES, _DIGEST_CHARS = 6, 8

Hint = tuple[int, int]
"""Device and inode."""

Stamp = tuple[int, int, int, int]
"""Device, inode, size and time of the last change: while they stay, nobody wrote to the file."""


def hint_of(status: os.stat_result) -> Hint:
    """Return device and inode of a file."""
    return status.st_dev, status.st_ino


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what changes when a file does."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def digest(data: bytes) -> str:
    """Make a hash of ``data``, short enough to be stored a hundred thousand times."""
    return urlsafe_b64encode(blake2b(data, digest_size=_DIGEST_BYTES).digest()).decode()


@frozen
class Identity:
    """What a file is recognised by: all that was seen of it, told by two hashes.

    Not only what was read: of a file that was read no further than a header, that would be any file with this header.

    Attributes:
        hint: where it was found. A copy, a restored backup or another mount has another one and is the same file.
        length: how much was seen.
        head: the hash of the first `HASHED_BYTES` of that, or less where there is less.
        last: the hash of the last `HASHED_BYTES` of that, or less.
        packed: how large it is on disk, if it is compressed: then as long as that and the hint stay, it isn't unpacked.
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
        """Return that of an open file, up to ``length``; None: it is shorter."""
        size = min(HASHED_BYTES, length)
        head = content.read_at(0, size)
        last = content.read_at(length - size, size) if length > size else head
        if len(head) < size or len(last) < size:
            return None
        return cls(hint_of(content.status), length, digest(head), digest(last), content.packed, start_of(head))

    @property
    def head_bytes(self) -> int:
        """Of how many bytes ``head`` is the hash."""
        return min(HASHED_BYTES, self.length)

    def fits(self, content: Content) -> bool:
        """Tell whether an open file has all that was seen, as far as the hashes tell."""
        size = self.head_bytes
        head = content.read_at(0, size)
        if len(head) < size or digest(head) != self.head:
            return False
        last = content.read_at(self.length - size, size)
        return len(last) == size and digest(last) == self.last

    def begins(self, content: Content) -> bool:
        """Tell whether an open file has the same beginning, as far as it goes and hashes tell.

        One of nothing yet has.
        """
        head = content.read_at(0, self.head_bytes)
        return digest(head) == self.head if len(head) == self.head_bytes else self.start.startswith(start_of(head))

    def is_untouched(self, status: os.stat_result) -> bool:
        """Tell whether device, inode and size say already that a compressed file is this one."""
        return bool(self.packed) and (*self.hint, self.packed) == (status.st_dev, status.st_ino, status.st_size)

    @property
    def stored(self) -> list[Json]:
        """As JSON, without the length."""
        head = self.head + self.start
        if self.packed:
            return [*self.hint, head, self.last, self.packed]
        return [*self.hint, head] if self.length <= HASHED_BYTES else [*self.hint, head, self.last]

    @classmethod
    def parse(cls, stored: object, length: int) -> Identity | None:
        """Read it from JSON; None: it is none."""
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
    """Return what `Identity.start` is for a file that begins so.

    That of a shorter one is the beginning of a longer one's.
    """
    return "".join(digest(head[:size])[0] for size in _START_SIZES if size <= len(head))
