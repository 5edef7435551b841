"""Which file is which, whatever its name: by what it contains, with device and inode as a hint."""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from hashlib import blake2b

from attrs import evolve, frozen

from coordinators.canonical import Json
from trident_py.spouts.files.content import Content

HASHED_BYTES = 1024
"""How much of the beginning, and of what is before a position, tells a file from others."""

START_BYTES = 64
"""Where a file is shorter than what was hashed, this much of its beginning tells whether it is the same so far."""

_DIGEST_BYTES = 6
_DIGEST_CHARS, _START_CHARS = 8, 4

Hint = tuple[int, int]
"""Device and inode."""

Stamp = tuple[int, int, int, int]
"""Device, inode, size and time of the last change: while they stay, nobody wrote to the file."""


def hint_of(status: os.stat_result) -> Hint:
    """Device and inode of a file."""
    return status.st_dev, status.st_ino


def stamp_of(status: os.stat_result) -> Stamp:
    """What changes when a file does."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def digest(data: bytes) -> str:
    """A hash of ``data``, short enough to be stored a hundred thousand times."""
    return urlsafe_b64encode(blake2b(data, digest_size=_DIGEST_BYTES).digest()).decode()


@frozen
class Identity:
    """What a file is recognised by: everything before a position, told by two hashes.

    Attributes:
        hint: where it was found. A copy, a restored backup or another mount has another one and is the same file.
        length: the position.
        head: the hash of the first `HASHED_BYTES` before the position, or less where there is less.
        last: the hash of the last `HASHED_BYTES` before the position, or less.
        packed: how large it is on disk, if it is compressed: then as long as that and the hint stay, it isn't unpacked.
        start: the hash of the first `START_BYTES`, if the position is beyond them.
    """

    hint: Hint
    length: int
    head: str
    last: str
    packed: int = 0
    start: str = ""

    @classmethod
    def of(cls, content: Content, length: int) -> Identity | None:
        """That of an open file, up to ``length``; None: it is shorter."""
        size = min(HASHED_BYTES, length)
        head = content.read_at(0, size)
        last = content.read_at(length - size, size) if length > size else head
        if len(head) < size or len(last) < size:
            return None
        start = _start_of(head) if size > START_BYTES else ""
        return cls(hint_of(content.status), length, digest(head), digest(last), content.packed, start)

    @property
    def head_bytes(self) -> int:
        """Of how many bytes ``head`` is the hash."""
        return min(HASHED_BYTES, self.length)

    def fits(self, content: Content) -> bool:
        """Whether an open file has the same bytes before the position, as far as the hashes tell."""
        size = self.head_bytes
        head = content.read_at(0, size)
        if len(head) < size or digest(head) != self.head:
            return False
        last = content.read_at(self.length - size, size)
        return len(last) == size and digest(last) == self.last

    def begins(self, content: Content) -> bool:
        """Whether an open file has the same beginning, as far as it goes. One of nothing yet has."""
        head = content.read_at(0, self.head_bytes)
        if len(head) == self.head_bytes:
            return digest(head) == self.head
        return len(head) < START_BYTES or self.start in ("", _start_of(head))

    def found_in(self, content: Content) -> Identity:
        """The same where it was found now."""
        return evolve(self, hint=hint_of(content.status), packed=content.packed)

    def is_untouched(self, status: os.stat_result) -> bool:
        """Whether device, inode and size say already that a compressed file is this one."""
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
        """From JSON; None: it is none."""
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


def _start_of(head: bytes) -> str:
    return digest(head[:START_BYTES])[:_START_CHARS]
