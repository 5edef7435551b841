"""Sessions by event time, kept in a state for each group, and looked up by the time at which they end.

The open sessions of a group are one value. A bin has the groups whose sessions end in one grain of time. So a
transaction reads only the sessions that get rows or may end. A session that continues stays in the bin of its first
end. When that time comes, it moves to the bin of its present end, so once for each gap of time.

The value of a group is a line of JSON. For a built-in aggregator, it has one partial value for each session. Else the
rows follow. If the rows of a session exceed `SEAL_BYTES`, they move to a separate slot of the group.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar

import pyarrow as pa
from attrs import evolve, field, frozen

from trident_py.interfaces.states import RemovableMapState
from trident_py.rows.batches import read_batch, write_batch
from trident_py.rows.row import Row, row_class
from trident_py.states.keys import decode_key, encode_key
from trident_py.windows.bins import SEAL_BYTES, Bins
from trident_py.windows.event_store import EventWindows, FiredWindow, TimedRow
from trident_py.windows.windows import SessionWindow

_PORTION_GROUPS = 512
"""The number of groups that are read at once if their sessions may end."""

_GROUPS = pa.schema([pa.field("key", pa.string(), nullable=False)])
_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)


@frozen
class _Session:
    """An open session.

    Attributes:
        start: the time of its first row.
        last: the time of its last row.
        content: the rows that are in no slot, or the partial value.
        bin: the bin that has its group; None: none yet.
        slots: the slots with its other rows.
    """

    start: int
    last: int
    content: Any
    bin: int | None = None
    slots: tuple[int, ...] = ()


@frozen
class _Group:
    """The open sessions of one group, which don't touch each other, and the number of its last slot."""

    sessions: Sequence[_Session] = ()
    slots: int = 0


@frozen(kw_only=True)
class SessionEventWindows(EventWindows[SessionWindow]):
    """Sessions by event time, separate for each group."""

    @property
    def _grain(self) -> int:
        return self.window.grain_micros

    @property
    def _bin_fields(self) -> pa.Schema:
        return _GROUPS

    def _next_bound(self, first: int, watermark: int | None) -> int:
        return (first + 1) * self._grain

    def _add(self, bins: Bins, rows: Sequence[TimedRow]) -> None:
        new = self._begun(rows)
        entries: dict[tuple[str, int], bytes] = {}
        placed: dict[int, list[str]] = {}
        for key, before in self._groups(bins.state, list(new)).items():
            joined = _Group(self._joined([*before.sessions, *new[key]]), before.slots)
            group = self._sealed(key, joined, entries)
            sessions = [self._placed(key, each, placed) for each in group.sessions]
            entries[key, 0] = self._stored(_Group(sessions, group.slots))
        if entries:
            bins.state.multi_put(list(entries), list(entries.values()))
        bins.add(_tables(placed))

    def _due(self, bins: Bins, before: int | None, upto: int) -> Iterator[FiredWindow]:
        while due := sorted(name for name in bins.full if name < upto // self._grain):
            names, keys = self._some(bins, due)
            for start in range(0, len(keys), _PORTION_GROUPS):
                yield from self._ended(bins, names[-1], keys[start : start + _PORTION_GROUPS])
            bins.remove(names)

    def _some(self, bins: Bins, due: Sequence[int]) -> tuple[list[int], list[str]]:
        """Return the first bins, as many as have a portion of groups together, at least one; and these groups."""
        names, keys = list[int](), dict[str, None]()
        for name in due:
            found = pa.Table.from_batches(bins.read(name), _GROUPS).column("key").to_pylist()
            if names and len(keys) + len(found) > _PORTION_GROUPS:
                break
            names.append(name)
            keys |= dict.fromkeys(found)
        return names, list(keys)

    def _ended(self, bins: Bins, last: int, keys: Sequence[str]) -> Iterator[FiredWindow]:
        """Yield the sessions of these groups that end in bins up to ``last``; then remove them, and move the others."""
        state, placed, fired = bins.state, dict[int, list[str]](), list[tuple[int, str, _Session]]()
        left: dict[str, _Group] = {}
        for key, group in self._groups(state, keys).items():
            ends = [(self._end_bin(session), session) for session in group.sessions]
            fired += [(end, key, session) for end, session in ends if end <= last]
            stay = [self._moved(key, session, last, placed) for end, session in ends if end > last]
            left[key] = _Group(stay, group.slots)
        gone = [(key, 0) for key, group in left.items() if not group.sessions]
        for _, key, session in sorted(fired, key=itemgetter(0)):
            rows, end = self._rows(state, key, session), session.last + self.window.gap_micros
            yield FiredWindow(session.start, end, rows, has_one_key=True)
            gone += [(key, slot) for slot in session.slots]
        entries = {(key, 0): self._stored(group) for key, group in left.items() if group.sessions}
        if entries:
            state.multi_put(list(entries), list(entries.values()))
        if gone:
            state.multi_remove(gone)
        bins.add(_tables(placed))

    def _moved(self, key: str, session: _Session, last: int, placed: dict[int, list[str]]) -> _Session:
        """Put a session that ends later into the bin of its end, if its present bin is not after ``last``."""
        is_passed = session.bin is not None and session.bin <= last
        return self._placed(key, evolve(session, bin=None), placed) if is_passed else session

    def _joined(self, sessions: Sequence[_Session]) -> list[_Session]:
        """Join sessions that touch; ``sessions`` are the stored ones, then new ones."""
        touching: list[list[_Session]] = []
        last = None
        for each in sorted(sessions, key=lambda session: session.start):
            if last is None or each.start > last + self.window.gap_micros:
                touching.append([])
                last = each.last
            touching[-1].append(each)
            last = max(last, each.last)
        return [self._one(each) for each in touching]

    def _one(self, sessions: Sequence[_Session]) -> _Session:
        """Return one session for all, which are ordered by start; of equal ones the stored one is first."""
        if len(sessions) == 1:
            return sessions[0]
        return _Session(
            start=sessions[0].start,
            last=max(each.last for each in sessions),
            content=self._combined([each.content for each in sessions]),
            bin=max((each.bin for each in sessions if each.bin is not None), default=None),
            slots=tuple(slot for each in sessions for slot in each.slots),
        )

    def _placed(self, key: str, session: _Session, placed: dict[int, list[str]]) -> _Session:
        """Put the group into the bin of the session's end, unless a bin has it already."""
        if session.bin is not None:
            return session
        end = self._end_bin(session)
        placed.setdefault(end, []).append(key)
        return evolve(session, bin=end)

    def _end_bin(self, session: _Session) -> int:
        return (session.last + self.window.gap_micros) // self._grain

    def _groups(self, state: RemovableMapState[bytes], keys: Sequence[str]) -> dict[str, _Group]:
        stored = state.multi_get([(key, 0) for key in keys]) if keys else []
        return {key: self._group(bytes(value)) if value else _Group() for key, value in zip(keys, stored, strict=True)}

    def _sealed(self, key: str, group: _Group, entries: dict[tuple[str, int], bytes]) -> _Group:
        """Return the group after contents that are too large have moved to ``entries``."""
        return group

    @abstractmethod
    def _begun(self, rows: Sequence[TimedRow]) -> dict[str, list[_Session]]:
        """Return a session for each row, or for several that follow each other, by group."""

    @abstractmethod
    def _combined(self, contents: Sequence[Any]) -> Any:
        """Return the content of one session for all."""

    @abstractmethod
    def _group(self, value: bytes) -> _Group:
        """Return the group that `_stored` has written."""

    @abstractmethod
    def _stored(self, group: _Group) -> bytes:
        """Return the value to store for a group."""

    @abstractmethod
    def _rows(self, state: RemovableMapState[bytes], key: str, session: _Session) -> list[Row]:
        """Return the rows of a session that ends."""


@frozen(kw_only=True)
class RowSessions(SessionEventWindows):
    """Sessions with their rows."""

    def _begun(self, rows: Sequence[TimedRow]) -> dict[str, list[_Session]]:
        timed = [(row.key, row.at, row) for row in rows if row.at is not None]
        timed.sort(key=lambda each: each[:2])
        whole, found, start = self._table([row for *_, row in timed]), dict[str, list[_Session]](), 0
        for key, same in groupby(timed, key=lambda each: each[0]):
            found[key] = []
            for at, equal in groupby(same, key=lambda each: each[1]):
                rows_at = len(list(equal))
                found[key].append(_Session(at, at, whole.slice(start, rows_at)))
                start += rows_at
        return found

    def _combined(self, contents: Sequence[Any]) -> pa.Table:
        return pa.concat_tables(contents)

    def _sealed(self, key: str, group: _Group, entries: dict[tuple[str, int], bytes]) -> _Group:
        sessions, slots = [], group.slots
        for each in group.sessions:
            if each.content.nbytes > SEAL_BYTES:
                slots += 1
                entries[key, slots] = write_batch(each.content)
                each = evolve(each, content=self._arrow.empty_table(), slots=(*each.slots, slots))
            sessions.append(each)
        return _Group(sessions, slots)

    def _group(self, value: bytes) -> _Group:
        line, _, rows = value.partition(b"\n")
        whole = pa.Table.from_batches([read_batch(rows, self._arrow)] if rows else [], self._arrow)
        found, start, sessions = json.loads(line), 0, []
        for first, last, its_bin, slots, count in found["sessions"]:
            sessions.append(_Session(first, last, whole.slice(start, count), its_bin, tuple(slots)))
            start += count
        return _Group(sessions, found["slots"])

    def _stored(self, group: _Group) -> bytes:
        sessions = [(each.start, each.last, each.bin, each.slots, each.content.num_rows) for each in group.sessions]
        line = _JSON.encode({"sessions": sessions, "slots": group.slots}).encode()
        rows = pa.concat_tables([each.content for each in group.sessions])
        return line + b"\n" + (write_batch(rows) if rows.num_rows else b"")

    def _rows(self, state: RemovableMapState[bytes], key: str, session: _Session) -> list[Row]:
        stored = state.multi_get([(key, slot) for slot in session.slots]) if session.slots else []
        full = [read_batch(value, self._arrow) for value in stored if value is not None]
        return self._sorted([*full, *session.content.to_batches()])


@frozen(kw_only=True)
class PartialSessions(SessionEventWindows):
    """Sessions with one partial value of an aggregator each.

    A row is the values of its key, then the partial value.

    Attributes:
        combine: returns the value of two.
    """

    prefix: ClassVar[str] = "event_partial"

    combine: Callable[[Any, Any], Any] = field(eq=False, repr=False)

    def _begun(self, rows: Sequence[TimedRow]) -> dict[str, list[_Session]]:
        found: dict[str, list[_Session]] = {}
        for row in rows:
            if row.at is not None and row.newest is not None:
                found.setdefault(row.key, []).append(_Session(row.at, row.newest, row.values[-1]))
        return found

    def _combined(self, contents: Sequence[Any]) -> Any:
        return reduce(self.combine, contents)

    def _group(self, value: bytes) -> _Group:
        line, _, contents = value.decode().partition("\n")
        return _Group(
            [
                _Session(first, last, content, its_bin)
                for (first, last, its_bin), content in zip(json.loads(line), decode_key(contents), strict=True)
            ]
        )

    def _stored(self, group: _Group) -> bytes:
        times = [(each.start, each.last, each.bin) for each in group.sessions]
        return f"{_JSON.encode(times)}\n{encode_key([each.content for each in group.sessions])}".encode()

    def _rows(self, state: RemovableMapState[bytes], key: str, session: _Session) -> list[Row]:
        return [row_class(tuple(self.schema.names))._make((*decode_key(key), session.content))]


def _tables(placed: Mapping[int, Sequence[str]]) -> dict[int, pa.Table]:
    return {name: pa.table({"key": keys}, schema=_GROUPS) for name, keys in placed.items()}
