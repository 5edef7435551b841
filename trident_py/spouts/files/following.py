"""The followed files of a pattern: each look recognises files under new names, and finds new files."""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice

from attrs import define, field

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.content import UNREADABLE, check_reached, file_errors, is_compressed, open_content
from trident_py.spouts.files.cursor import STILL_SECONDS, FileCursor, Sight
from trident_py.spouts.files.identity import (
    HASHED_BYTES,
    START_BYTES,
    Hint,
    Identity,
    digest,
    hint_of,
    stamp_of,
    start_of,
)
from trident_py.spouts.files.paths import PathPattern, status_of
from trident_py.spouts.files.splits import Split
from trident_py.spouts.files.whereabouts import Here, Likeness, Other, Sighting, Whereabouts, beside, find

_COMPARED_MAX = 8
"""The number of files to read for a comparison; a further file counts as equal, which only delays the new file."""


@define
class Beginnings:
    """An index of the first bytes of followed files."""

    _by_start: dict[bytes, list[FileCursor]] = field(factory=dict, init=False)
    _by_head: dict[tuple[bytes, int, str], FileCursor] = field(factory=dict, init=False)
    _lengths: dict[bytes, set[int]] = field(factory=dict, init=False)
    _starts: list[bytes] = field(factory=list, init=False)

    @classmethod
    def of(cls, cursors: Iterable[FileCursor]) -> Beginnings:
        """Return the index of those files that have been read."""
        beginnings = cls()
        for cursor in cursors:
            beginnings.add(cursor)
        return beginnings

    def add(self, cursor: FileCursor) -> None:
        """Add a file that has been read."""
        identity, start = cursor.identity, cursor.start
        if identity is None or not identity.length:
            return
        if start not in self._by_start:
            insort(self._starts, start)
        self._by_start.setdefault(start, []).append(cursor)
        self._by_head.setdefault((start, identity.head_bytes, identity.head), cursor)
        self._lengths.setdefault(start, set()).add(identity.head_bytes)

    def like(self, head: bytes) -> FileCursor | None:
        """Return a file that begins with ``head`` or its first KiB, or that is the beginning of ``head``."""
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


_ALIKE_MAX = 8
"""The maximum number of files with the same beginning to compare."""


@define
class Suspects:
    """An index of files found by one look that may be the followed files that are missing.

    Attributes:
        followed: followed files at their expected paths.
        strangers: the status of files that are not followed, by path.
        sights: the last seen states of the strangers.
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
        """Return a sort key: whether a file has the device, inode and hashes, and how many bytes were hashed."""
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
        """Return whether its device and inode have other bytes now, so that ``others`` may be copies of it.

        If the other bytes are equal to its first ones, any new file may have this header. Then only a copy with more of
        its bytes is evidence.
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
        """Return strangers with the same head, shorter ones that begin like it, and those that are being packed."""
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


Statuses = dict[str, os.stat_result]


@define
class FollowedFiles:
    """The followed files: their identities and their positions.

    Attributes:
        pattern: the pattern that finds them.
    """

    pattern: PathPattern
    _cursors: dict[str, FileCursor] = field(factory=dict, init=False)  # by the path where each is
    _gone: dict[str, FileCursor] = field(factory=dict, init=False)  # by the path where each was
    _wanted: list[FileCursor] = field(factory=list, init=False)  # those that may be elsewhere by now
    _outside: list[FileCursor] = field(factory=list, init=False)  # in the order in which they got other names
    _stored: dict[str, FileCursor] = field(factory=dict, init=False)  # by the name that a position is stored under
    _sights: dict[str, Sight] = field(factory=dict, init=False)  # by path, of files that are not followed yet

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Restore the cursors that `Split.cursor` stored, by path."""
        restored = [FileCursor.restored(path, cursor) for path, cursor in cursors.items()]
        self._cursors = {cursor.path: cursor for cursor in restored if cursor.seen}  # else its file has another name
        self._stored = dict(self._cursors)
        for name, cursor in self._stored.items():
            cursor.stored_name = name

    def look(self, now: float) -> None:
        """Look at the pattern's files, at time ``now`` of a monotonic clock.

        Raises:
            SpoutError: lines that were seen are gone, files can't be told apart, or one can't be read.
        """
        found = self.pattern.find()
        strangers = {path: status for path, status in found.items() if not self._is_as_before(path, status)}
        for path in self._cursors.keys() - found.keys():
            self._miss(path, strangers)
        for path in strangers:
            cursor = self._cursors.pop(path, None) or self._gone.pop(path, None)
            if cursor and cursor.seen:  # of an empty file nothing is known
                self._wanted.append(cursor)
        seen = self._sights
        self._sights = {path: Sight.again(seen.get(path), stamp_of(status), now) for path, status in strangers.items()}
        kept = self._find_wanted(found, strangers, now)
        self._welcome([path for path in sorted(strangers) if path not in kept and path in found], now)
        self._sights = {path: sight for path, sight in self._sights.items() if path not in self._cursors}

    def unread(self) -> list[FileCursor]:
        """Return the files with unread lines; first those with names that the pattern doesn't match any more."""
        cursors = [cursor for cursor in self._cursors.values() if cursor.unread and cursor.sight]
        return sorted(cursors, key=lambda cursor: (not cursor.is_outside, cursor.path))

    def is_waiting(self, now: float) -> bool:
        """Return whether a file waits to be identified or read, until it has not changed for a while."""
        if self._wanted or self._sights:
            return True
        return any(cursor.sight and not cursor.sight.is_still(now) for cursor in self.unread())

    def next_splits(self, cursor: FileCursor, budget: int, now: float) -> list[Split]:
        """Return the next lines of a file, if there are any, after the new names of cursors stored under its path.

        Raises:
            SpoutError: it can't be read, or continues inside a line that was read.
        """
        renamed = self._renamed(cursor)
        if renamed is None:
            return []
        with file_errors(cursor.path):
            try:
                content = open_content(cursor.path)
            except FileNotFoundError:
                return []  # the next look finds it
            with content:
                split = cursor.next_split(content, budget, now)
        if split is None:
            return []
        moved = [each.split_beside(cursor) for each in renamed] + [split]
        left = {each.stored_name for each in (*renamed, cursor) if self._stored.get(each.stored_name) is each}
        return [Split(name, 0, 0, 0, None) for name in sorted(left - {each.path for each in moved})] + moved

    def advance(self, cursor: FileCursor, splits: list[Split]) -> None:
        """Record that a batch has these splits of `next_splits`."""
        moved: list[FileCursor] = [*(self._renamed(cursor) or ()), cursor]
        for each in moved:
            if self._stored.get(each.stored_name) is each:
                del self._stored[each.stored_name]
        for overtaken in [each for each in self._outside if each is not cursor and each.name == cursor.name]:
            if overtaken.position:  # else it is read later, still under this name
                overtaken.name, overtaken.origin = overtaken.name_beside(cursor)
                self._outside.remove(overtaken)
        for each in moved:
            self._stored[each.name], each.stored_name = each, each.name
        cursor.advance(splits[-1])

    def _renamed(self, cursor: FileCursor) -> list[FileCursor] | None:
        """Return the cursors to store under new paths before ``cursor`` reuses their old one; None: not yet known."""
        if any(wanted.name == cursor.name for wanted in self._wanted):
            return None
        for outside in self._outside:
            if outside is cursor:
                break
            if outside.name == cursor.name and outside.unread:
                return None
        renamed: list[FileCursor] = []
        former = self._stored.get(cursor.name)
        while former and former not in (cursor, *renamed):
            if former in self._wanted:
                return None
            if self._cursors.get(former.path) is not former:
                break
            renamed.append(former)
            former = self._stored.get(former.name_beside(cursor)[0])
        return renamed[::-1]

    # --- looking ------------------------------------------------------------------------------------------------------

    def _is_as_before(self, path: str, status: os.stat_result) -> bool:
        cursor = self._cursors.get(path)
        if cursor is None:
            return False
        if cursor.sight is None:
            if not (cursor.identity and cursor.identity.is_untouched(status)):
                return False
            cursor.sight = Sight(stamp_of(status), float("-inf"))
        return cursor.sight.stamp == stamp_of(status)

    def _miss(self, path: str, strangers: Statuses) -> None:
        cursor, status = self._cursors[path], status_of(path)
        if status is None:
            del self._cursors[path]
            if cursor.seen:
                self._wanted.append(cursor)
        elif self._is_ours(cursor) and not self._is_as_before(path, status):
            strangers[path] = status

    def _is_ours(self, cursor: FileCursor) -> bool:
        """Return whether a file left the pattern by a rename; False if a changed pattern left it out."""
        return cursor.sight is not None or (cursor.origin != "" and self.pattern.matches(cursor.origin))

    def _find_wanted(self, found: Statuses, strangers: Statuses, now: float) -> set[str]:
        """Match missing files to new paths, which leave ``strangers``; return paths that are still uncertain."""
        kept: set[str] = set()
        missing: list[FileCursor] = []
        wanted, self._wanted = self._wanted, []
        try:
            while wanted:
                if not self._is_here(wanted[-1], strangers, now):
                    missing.append(wanted[-1])
                wanted.pop()
            if missing:
                suspects = Suspects(self._cursors, strangers, self._sights, now)
                missing.sort(key=suspects.certainty)  # the last is found first
            while missing:
                kept.update(self._find(missing[-1], suspects, found, strangers, now))
                missing.pop()
        finally:
            self._wanted += wanted + missing  # a file server may be away: then all is looked for again
        return kept

    def _find(
        self, cursor: FileCursor, suspects: Suspects, found: Statuses, strangers: Statuses, now: float
    ) -> Iterable[str]:
        here = self._here(cursor, strangers, now)
        others = suspects.of(cursor, here)
        sighting = Sighting(
            here=here,
            is_identified=cursor.identity is not None,
            is_unread=cursor.unread > 0,
            is_cut=suspects.is_cut(cursor, others),
            was_missed=cursor.is_missed,
            others=others,
        )
        whereabouts, other = find(sighting)
        match whereabouts:
            case Whereabouts.HERE | Whereabouts.MOVED:
                path = other.path if other else cursor.path
                if self._take(cursor, path, strangers, now):
                    self._name(cursor, is_outside=path not in found)
                    return ()
            case Whereabouts.WAIT:
                cursor.is_missed = here is Here.NOTHING
            case Whereabouts.READ:
                if here is Here.NOTHING:
                    self._gone[cursor.path] = cursor
                return ()
            case _:
                raise _error(cursor, whereabouts, other)
        self._wanted.append(cursor)
        return (cursor.path, *(each.path for each in others))

    def _is_here(self, cursor: FileCursor, strangers: Statuses, now: float) -> bool:
        """Return whether the file is still at its path, with the same device and inode; then record its state."""
        status = strangers.get(cursor.path)
        if status is None or (cursor.identity and cursor.identity.hint != hint_of(status)):
            return False
        if cursor.is_compressed and not self._sights[cursor.path].is_still(now):
            return False
        return self._take(cursor, cursor.path, strangers, now)

    def _here(self, cursor: FileCursor, strangers: Statuses, now: float) -> Here:
        path = cursor.path
        if path not in strangers:
            return Here.NOTHING
        if cursor.is_compressed and not self._sights[path].is_still(now):
            return Here.CHANGING
        try:
            with file_errors(path, FileNotFoundError), open_content(path) as content:
                return cursor.here(content)
        except FileNotFoundError:
            return Here.NOTHING

    def _take(self, cursor: FileCursor, path: str, strangers: Statuses, now: float) -> bool:
        """Record that the file is at ``path``, with its current state; return False if it has moved again."""
        try:
            with file_errors(path, FileNotFoundError), open_content(path) as content:
                if cursor.here(content) is not Here.SAME:
                    return False
                if not cursor.take(content, self._sights.get(path) or Sight(stamp_of(content.status), now), now):
                    return False
        except FileNotFoundError:
            return False
        cursor.path = path
        self._cursors[path] = cursor
        strangers.pop(path, None)
        return True

    def _name(self, cursor: FileCursor, *, is_outside: bool) -> None:
        if is_outside and not cursor.origin:
            if cursor not in self._outside:
                self._outside.append(cursor)
            return
        cursor.name = cursor.path
        if not is_outside:
            cursor.origin = ""
        if cursor in self._outside:
            self._outside.remove(cursor)

    def _welcome(self, paths: Iterable[str], now: float) -> None:
        """Follow new files from their beginning, except files that may be unfinished copies of followed ones."""
        beginnings = None
        for path in paths:
            sight = self._sights[path]
            if is_compressed(path) and not sight.is_still(now):
                continue
            if beginnings is None:
                beginnings = Beginnings.of(cursor for cursor in self._cursors.values() if cursor.sight)
            with suppress(FileNotFoundError), file_errors(path, FileNotFoundError), open_content(path) as content:
                original = beginnings.like(content.read_at(0, HASHED_BYTES))
                if original and not sight.is_still(now):
                    continue
                cursor = FileCursor(path, path, copy_of=original)
                if cursor.take(content, sight, now):
                    self._cursors[path] = cursor
                    beginnings.add(cursor)


def _error(cursor: FileCursor, whereabouts: Whereabouts, other: Other | None) -> SpoutError:
    name = other.path if other else ""
    match whereabouts:
        case Whereabouts.LOST:
            return cursor.error(
                "is not there any more as it was, nor is a file with its bytes in its directory; to fix this: put it "
                "back, under this or another name of the directory"
            )
        case Whereabouts.DOUBTFUL:
            return cursor.error(
                f"was cut or replaced, and {name!r} begins like it but ends before the bytes that were read of it: it "
                f"may be a copy that lacks its end, all of which was read; to fix this: move {name!r} out of the "
                f"pattern if it is, or put {cursor.path!r} back as it was"
            )
        case Whereabouts.ALIKE:
            return cursor.error(
                f"is not there any more, and the new file {name!r} begins with the same bytes, too few to tell "
                f"whether it is that file; to fix this: rename it to {cursor.path!r} if it is, or put a file with "
                f"these {cursor.position} bytes there, and the new one is read as a separate file"
            )
        case Whereabouts.TAKEN_TWICE:
            return cursor.error(
                f"was cut or replaced, and {name!r}, which has the same lines, was read as a separate file after it "
                f"had not changed for {STILL_SECONDS:.0f} s: if it is a copy, its lines were read twice; to fix this: "
                f"make copies outside of the pattern, and move {name!r} there or put {cursor.path!r} back as it was"
            )
        case _:
            return cursor.error(
                "has other bytes now, and its position, stored by an old version, can't tell which bytes were read; "
                "to fix this: restore the former content"
            )
