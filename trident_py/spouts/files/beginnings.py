"""Whether a new file begins as one that is followed: then it may be a copy of that, on its way to take its place."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from attrs import define, field

from trident_py.spouts.files.content import UNREADABLE, check_reached, open_content
from trident_py.spouts.files.cursor import FileCursor
from trident_py.spouts.files.identity import HASHED_BYTES, START_BYTES, digest

_COMPARED_MAX = 8
"""So many files are read to compare; beyond, it is taken for granted, which costs the new file a moment's waiting."""


@define
class Beginnings:
    """The first bytes of followed files, for look-up."""

    _by_start: dict[bytes, list[FileCursor]] = field(factory=dict, init=False)
    _by_head: dict[tuple[bytes, int, str], FileCursor] = field(factory=dict, init=False)
    _lengths: dict[bytes, set[int]] = field(factory=dict, init=False)
    _starts: list[bytes] = field(factory=list, init=False)

    @classmethod
    def of(cls, cursors: Iterable[FileCursor]) -> Beginnings:
        """Return those of files that have been looked at."""
        beginnings = cls()
        for cursor in cursors:
            beginnings.add(cursor)
        return beginnings

    def add(self, cursor: FileCursor) -> None:
        """Take a file up that has been looked at."""
        identity, start = cursor.identity, cursor.start
        if identity is None or not identity.length:
            return
        if start not in self._by_start:
            insort(self._starts, start)
        self._by_start.setdefault(start, []).append(cursor)
        self._by_head.setdefault((start, identity.head_bytes, identity.head), cursor)
        self._lengths.setdefault(start, set()).add(identity.head_bytes)

    def like(self, head: bytes) -> FileCursor | None:
        """Make a file that begins with ``head``, all or the first KiB of another one, or with which ``head`` begins."""
        for size in range(1, min(len(head), START_BYTES) + 1):
            start = head[:size]
            for length in self._lengths.get(start, ()):
                if length <= len(head) and (found := self._by_head.get((start, length, digest(head[:length])))):
                    return found
        return self._longer(head) if len(head) < HASHED_BYTES else None

    def _longer(self, head: bytes) -> FileCursor | None:
        compared = 0
        first = head[:START_BYTES]
        for index in range(bisect_left(self._starts, first), len(self._starts)):
            if not self._starts[index].startswith(first):
                return None
            for cursor in self._by_start[self._starts[index]]:
                if cursor.seen > len(head):
                    compared += 1
                    if compared > _COMPARED_MAX or _has(cursor.path, head):
                        return cursor
        return None


def _has(path: str, head: bytes) -> bool:
    try:
        with open_content(path) as content:
            return content.read_at(0, len(head)) == head
    except UNREADABLE as error:
        check_reached(path, error)
        return True
