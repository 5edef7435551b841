"""The files that may be one that isn't found where it was."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from attrs import define, field

from trident_py.spouts.files.content import UNREADABLE, check_reached, is_compressed, open_content
from trident_py.spouts.files.cursor import FileCursor, Sight
from trident_py.spouts.files.identity import HASHED_BYTES, Hint, Identity, digest, hint_of, start_of
from trident_py.spouts.files.lookup import beside
from trident_py.spouts.files.whereabouts import Here, Likeness, Other

_ALIKE_MAX = 8
"""So many files with the same beginning are enough to decide by."""


@define
class Suspects:
    """What one look has found that is nobody's, and what else is in the directories; for look-up.

    Attributes:
        followed: what is in its place.
        strangers: what nobody follows yet.
        sights: since when each of these has been as it is.
    """

    followed: Mapping[str, FileCursor]
    strangers: Mapping[str, os.stat_result]
    sights: Mapping[str, Sight]
    now: float
    _by_hint: dict[Hint, str] = field(init=False)
    _by_size: list[str] = field(init=False)
    _copies: dict[FileCursor, FileCursor] = field(init=False)
    _beside: dict[str, dict[int, str]] = field(factory=dict, init=False)
    _by_head: dict[int, dict[str, list[str]]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._by_hint = {hint_of(status): path for path, status in self.strangers.items()}
        self._by_size = sorted(
            self.strangers, key=lambda path: (not is_compressed(path), -self.strangers[path].st_size, path)
        )
        self._copies = {cursor.copy_of: cursor for cursor in self.followed.values() if cursor.copy_of}

    def certainty(self, cursor: FileCursor) -> tuple[bool, int]:
        """Tell whether a file has its device, inode and hashes, and how many bytes these tell it by: for sorting."""
        if cursor.identity is None:
            return False, 0
        found = [
            self._other(cursor, cursor.identity, path, has_hint=True)
            for path in self._hinted(cursor, cursor.identity.hint)
        ]
        return any(other and other.likeness is Likeness.EQUAL for other in found), cursor.identity.length

    def of(self, cursor: FileCursor, here: Here) -> list[Other]:
        """Return the files that begin like ``cursor``'s, the most likely first."""
        identity = cursor.identity
        if identity is None or here is Here.CHANGING:
            return []
        hinted = self._hinted(cursor, identity.hint)
        found = [self._other(cursor, identity, path, has_hint=True) for path in hinted]
        if here is not Here.SAME and not any(other and other.likeness is Likeness.EQUAL for other in found):
            alike = (self._other(cursor, identity, path) for path in self._alike(cursor, identity))
            found += islice((other for other in alike if other), _ALIKE_MAX)
            if copy := self._copies.get(cursor):
                found.append(self._other(cursor, identity, copy.path))
            is_sought = here is Here.OTHER or cursor.unread > 0  # else it was packed, or nothing is missing
            paths = (path for path in self._outside(cursor) if is_sought or is_compressed(path))
            outside = (self._other(cursor, identity, path) for path in paths)
            found += [other for other in outside if other and other.likeness is Likeness.EQUAL]
        return [other for other in found if other]

    def is_cut(self, cursor: FileCursor, others: Sequence[Other]) -> bool:
        """Tell whether its device and inode have other bytes now, where ``others`` are like it.

        Then they may be copies.

        Where they are its first ones, it may be any new file with this header: only a copy with more of it tells then.
        """
        if not (cursor.identity and self._at(cursor.path, cursor.identity.hint)):
            return False
        own = next((other for other in others if other.has_hint), None)
        copies = (other for other in others if not (other.has_hint or other.is_followed))
        return own is None or (not own.is_evidence and any(other.is_evidence for other in copies))

    def _hinted(self, cursor: FileCursor, hint: Hint) -> list[str]:
        path = self._at(cursor.path, hint)
        return [path] if path and path != cursor.path else []

    def _at(self, path: str, hint: Hint) -> str | None:
        return self._by_hint.get(hint) or self._in_directory(path).get(hint[1])

    def _in_directory(self, path: str) -> dict[int, str]:
        directory = os.path.dirname(path)
        if directory not in self._beside:
            self._beside[directory] = {entry.inode(): entry.path for entry in beside(os.path.join(directory, ""))}
        return self._beside[directory]

    def _outside(self, cursor: FileCursor) -> Iterator[str]:
        for path in self._in_directory(cursor.path).values():
            if path != cursor.path and path not in self.followed and path not in self.strangers:
                yield path

    def _alike(self, cursor: FileCursor, identity: Identity) -> Iterator[str]:
        """Return strangers with the same head, shorter ones that begin like it, and those that are packed."""
        heads = self._heads(identity.head_bytes)
        starts = (identity.start[:size] for size in range(len(identity.start), -1, -1))
        paths = chain.from_iterable(heads.get(key, ()) for key in (identity.head, _PACKING, *starts))
        return (path for path in paths if path != cursor.path and path in self.strangers)

    def _heads(self, size: int) -> dict[str, list[str]]:
        if size not in self._by_head:
            heads = self._by_head[size] = {}
            for path in self._by_size:
                heads.setdefault(_head(path, size), []).append(path)
        return self._by_head[size]

    def _other(self, cursor: FileCursor, identity: Identity, path: str, *, has_hint: bool = False) -> Other | None:
        is_still = path not in self.sights or self.sights[path].is_still(self.now)
        try:
            with open_content(path) as content:
                hint, shared = hint_of(content.status), len(content.read_at(0, identity.head_bytes))
                has_bytes = bool(content.read_at(0, 1))
                if is_compressed(path) and not is_still:
                    likeness = Likeness.UNKNOWN if identity.begins(content) else None
                else:
                    likeness = cursor.likeness(content)
        except UNREADABLE as error:
            check_reached(path, error)
            hint, has_bytes, shared, likeness = identity.hint, not is_still, 0, Likeness.UNKNOWN
        is_empty = not has_bytes and (is_still or hint == identity.hint)  # else it may be a copy that was just begun
        if likeness is None or is_empty:
            return None
        is_other_form = is_compressed(path) != cursor.is_compressed or hint[1] == identity.hint[1]
        return Other(
            path=path,
            likeness=likeness,
            has_hint=has_hint and hint == identity.hint,
            is_followed=path in self.followed,
            is_still=is_still,
            is_evidence=shared == HASHED_BYTES or (likeness is Likeness.EQUAL and is_other_form),
        )


_PACKING = "being packed"


def _head(path: str, size: int) -> str:
    try:
        with open_content(path) as content:
            head = content.read_at(0, size)
    except UNREADABLE as error:
        check_reached(path, error)
        head = b""
    if len(head) == size:
        return digest(head)
    return _PACKING if is_compressed(path) else start_of(head)
