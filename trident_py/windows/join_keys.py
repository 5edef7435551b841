"""The rows of the keys of a join over time: read, joined, and written again, for some keys at a time.

The rows of a key are one value: a line of JSON, then its rows of each side. If those of one side exceed `SEAL_BYTES`,
they move to a separate slot of the key. A slot is read again only if a new row of the other side is near its times, or
if one of its rows comes out.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql.types import StructType

from trident_py.errors import StateError
from trident_py.interfaces.states import RemovableMapState
from trident_py.rows.batches import read_batch
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_schema, arrow_table
from trident_py.windows.event_store import TimedRow
from trident_py.windows.time_index import Entry, TimeIndex
from trident_py.windows.watermark import Watermark

Partners: TypeAlias = tuple[Sequence[Any] | None, Sequence[Any] | None]
"""A left row and a right row that match, or one of them without a partner."""

NewRows: TypeAlias = tuple[Sequence[TimedRow], Sequence[TimedRow]]
"""The new rows of a key: those of the left side, and those of the right side."""

_Found: TypeAlias = tuple[int | None, int | None]
"""Partners, as positions in the memory of their sides."""

SEAL_BYTES = 16 * 1024
"""If the loose rows of one side of a key have more bytes, they move to a slot. Fewer are written with the key."""

_PORTION_KEYS = 500
"""The number of keys that are in memory at one time."""

_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)


@frozen(kw_only=True)
class JoinSide:
    """One side of a join over time.

    Attributes:
        schema: the fields of its rows.
        keys: the fields by which its rows match those of the other side.
        timestamp: the field with the time of a row.
        rules: the rules of its watermark.
        is_kept: whether a row without a partner comes out.
    """

    schema: StructType
    keys: tuple[str, ...]
    timestamp: str
    rules: Watermark
    is_kept: bool
    arrow: pa.Schema = field(init=False, repr=False, eq=False)

    @arrow.default
    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema)


@frozen
class _Slot:
    """Rows of one side of a key in a separate value.

    Attributes:
        number: the number of the slot in its key.
        first: the least time of its rows.
        last: the greatest one.
        done: a bit for each row that has come out.
        due: see `_Memory.due`.
    """

    number: int
    first: int
    last: int
    done: int
    due: int


@define
class _Half:
    """The rows of one side of a key. Those in memory are positions in the `_Memory` of the side.

    Attributes:
        due: the time with which the key is in `TimeIndex`; None: it need not be there.
        slots: the slots with rows.
        loose: the rows in no slot; the new ones are the last.
        new: the new rows.
        batch: the loose rows to store, after the others have gone.
        read: the rows of slots in memory, by the slot's number.
    """

    due: int | None = None
    slots: list[_Slot] = field(factory=list)
    loose: list[int] = field(factory=list)
    new: range = range(0)
    batch: pa.RecordBatch | None = None
    read: dict[int, range] = field(factory=dict)

    @property
    def in_memory(self) -> list[int]:
        return [*(position for rows in self.read.values() for position in rows), *self.loose]


@define
class _Key:
    """The rows of one key.

    Attributes:
        text: the text of its values.
        stored: its stored value.
        last_slot: the number of its last slot.
    """

    text: str
    stored: bytes | None
    last_slot: int = 0
    halves: tuple[_Half, _Half] = field(factory=lambda: (_Half(), _Half()))


@define(kw_only=True)
class _Memory:
    """The rows of one side of some keys, by position. Those of a key are in the order in which they came.

    Attributes:
        bound: a row is over if this is after its time plus ``within``. None: no row is over.
        done: 1 for each row that has come out. Only for a side that is kept.
    """

    side: JoinSide
    within: int
    bound: int | None
    batches: list[pa.RecordBatch] = field(factory=list)
    done: bytearray = field(factory=bytearray)
    times: list[int] = field(factory=list)
    rows: pa.RecordBatch | None = None

    def add(self, batch: pa.RecordBatch, done: int = 0) -> range:
        """Add rows; ``done`` has a bit for each that has come out."""
        start, count = len(self.done), batch.num_rows
        self.batches.append(batch)
        self.done += bytes(done >> bit & 1 for bit in range(count)) if done else bytes(count)
        return range(start, start + count)

    def finish(self) -> None:
        """Make the rows and their times readable, after the last was added."""
        table = pa.Table.from_batches(self.batches, self.side.arrow).combine_chunks()
        self.times = table.column(self.side.timestamp).cast(pa.int64()).to_pylist()
        self.rows = next(iter(table.to_batches()), None)

    def take(self, positions: Sequence[int]) -> pa.RecordBatch:
        """Return these rows, at least one, in ascending order."""
        if self.rows is None:
            raise AssertionError("there are no rows")
        first, count = positions[0], len(positions)
        if positions[-1] - first == count - 1:  # a tenth of the time
            return self.rows.slice(first, count)
        return self.rows.take(pa.array(positions, pa.int64()))

    def values(self, positions: set[int | None]) -> dict[int | None, Sequence[Any]]:
        wanted = sorted(each for each in positions if each is not None)
        return dict(zip(wanted, rows_of(self.take(wanted)), strict=True)) if wanted else {}

    def ordered(self, positions: Sequence[int]) -> list[tuple[int, int]]:
        return sorted((self.times[position], position) for position in positions)

    def is_over(self, time: int) -> bool:
        return self.bound is not None and time + self.within < self.bound

    def slot(self, number: int, positions: Sequence[int]) -> _Slot:
        """Describe these rows in a slot."""
        times = [self.times[position] for position in positions]
        return _Slot(number, min(times), max(times), self.mask(positions), self.due(positions))

    def mask(self, positions: Sequence[int]) -> int:
        """Return a bit for each of these rows that has come out."""
        if not self.side.is_kept:
            return 0
        return sum(1 << bit for bit, position in enumerate(positions) if self.done[position])

    def due(self, positions: Sequence[int]) -> int:
        """Return the time after which one of these rows comes out; if none does, that after which all are over."""
        alone = [self.times[each] for each in positions if not self.done[each]] if self.side.is_kept else []
        return (min(alone) if alone else max(self.times[each] for each in positions)) + self.within


@frozen(kw_only=True)
class JoinedKeys:
    """The rows of all keys, in one transaction.

    Attributes:
        within: the greatest difference of the times of two rows that match, in microseconds.
        due: for each side, the keys by the time after which rows of that side come out, or go.
        bounds: for each side, see `_Memory.bound`.
    """

    state: RemovableMapState[bytes]
    within: int
    sides: tuple[JoinSide, JoinSide]
    due: tuple[TimeIndex, TimeIndex]
    bounds: tuple[int | None, int | None]

    def touch(self, new: Mapping[str, NewRows]) -> Iterator[Partners]:
        """Join the new rows of these keys, and remove their rows that are over; yield what comes out."""
        given = list(new.items())
        for start in range(0, len(given), _PORTION_KEYS):
            yield from self._touch(dict(given[start : start + _PORTION_KEYS]))

    def _touch(self, new: Mapping[str, NewRows]) -> list[Partners]:
        left, right = (
            _Memory(side=side, within=self.within, bound=bound)
            for side, bound in zip(self.sides, self.bounds, strict=True)
        )
        some = _SomeKeys(self, (left, right))
        keys = some.read(new)
        found = [each for key in keys for each in (*some.pairs(key), *some.alone(key))]
        some.write(keys)
        lefts, rights = left.values({one for one, _ in found}), right.values({other for _, other in found})
        return [(lefts.get(one), rights.get(other)) for one, other in found]


@frozen
class _Written:
    """The values to store, and the keys to remove."""

    entries: dict[tuple[str, int], bytes]
    gone: list[tuple[str, int]]

    def to(self, state: RemovableMapState[bytes]) -> None:
        if self.entries:
            state.multi_put(list(self.entries), list(self.entries.values()))
        if self.gone:
            state.multi_remove(self.gone)


@frozen
class _SomeKeys:
    """Some keys in memory."""

    join: JoinedKeys
    memories: tuple[_Memory, _Memory]

    def read(self, new: Mapping[str, NewRows]) -> list[_Key]:
        """Read these keys, and the slots that are needed."""
        values = self.join.state.multi_get([(text, 0) for text in new])
        keys = [_Key(text, None if value is None else bytes(value)) for text, value in zip(new, values, strict=True)]
        loose = [self._parse(key) for key in keys]
        self._read_slots([(key, side, slot) for key in keys for side, slot in self._needed(key, new[key.text])])
        for number, memory in enumerate(self.memories):
            for key, batches in zip(keys, loose, strict=True):
                if (found := batches[number]) is not None:
                    key.halves[number].loose = list(memory.add(*found))
            rows = [row.values for given in new.values() for row in given[number]]
            position = len(memory.done)
            for batch in arrow_table(rows, memory.side.schema).to_batches() if rows else ():
                memory.add(batch)
            for key in keys:
                half = key.halves[number]
                half.new = range(position, position + len(new[key.text][number]))
                half.loose += half.new
                position = half.new.stop
            memory.finish()
        return keys

    def pairs(self, key: _Key) -> Iterator[_Found]:
        """Yield the pairs of new rows: of those of the left side in order, then of those of the right side."""
        left, right = key.halves
        earlier = [each for each in right.in_memory if each not in right.new]
        yield from self._matches(0, left.new, earlier)
        for other, one in self._matches(1, right.new, left.in_memory):
            yield one, other

    def alone(self, key: _Key) -> Iterator[_Found]:
        """Yield the rows that are over and have no partner, and remove all loose rows that are over."""
        for number, (memory, half) in enumerate(zip(self.memories, key.halves, strict=True)):
            for position in half.in_memory if memory.side.is_kept else ():
                if memory.is_over(memory.times[position]) and not memory.done[position]:
                    memory.done[position] = 1
                    yield (position, None) if number == 0 else (None, position)
            half.loose = [each for each in half.loose if not memory.is_over(memory.times[each])]

    def write(self, keys: Sequence[_Key]) -> None:
        """Write the keys that have changed; put each into `TimeIndex` with its next time."""
        written = _Written({}, [])
        for number, memory in enumerate(self.memories):
            due: list[Entry] = []
            for key in keys:
                half = key.halves[number]
                self._slots(memory, key, half, written)
                if (time := _next_due(memory, half)) is not None:
                    half.due = time
                    due.append((time, key.text))
            self.join.due[number].add(due, memory.bound or 0)
        for key in keys:
            value = self._value(key)
            if value is None:
                written.gone.extend([(key.text, 0)] if key.stored is not None else [])
            elif value != key.stored:
                written.entries[key.text, 0] = value
        written.to(self.join.state)

    def _matches(self, number: int, new: Sequence[int], others: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the pairs of new rows of one side, in order, with rows of the other side, in the order of times."""
        mine, theirs, within = self.memories[number], self.memories[1 - number], self.join.within
        ordered = theirs.ordered(others) if new else []
        for position in new:
            time = mine.times[position]
            for _, other in ordered[
                bisect_left(ordered, (time - within,)) : bisect_left(ordered, (time + within + 1,))
            ]:
                mine.done[position] = theirs.done[other] = 1
                yield position, other

    def _parse(self, key: _Key) -> list[tuple[pa.RecordBatch, int] | None]:
        """Read the slots and times of a key; return the loose rows of each side, with those that have come out."""
        if key.stored is None:
            return [None, None]
        line, _, rows = key.stored.partition(b"\n")
        stored, start = json.loads(line), 0
        key.last_slot = stored["slots"]
        found: list[tuple[pa.RecordBatch, int] | None] = []
        for side, half, (due, done, size, slots) in zip(self.join.sides, key.halves, stored["sides"], strict=True):
            half.due, half.slots = (
                due,
                [_Slot(number, first, last, int(mask, 16), at) for number, first, last, mask, at in slots],
            )
            found.append((read_batch(rows[start : start + size], side.arrow), int(done, 16)) if size else None)
            start += size
        return found

    def _needed(self, key: _Key, new: NewRows) -> Iterator[tuple[int, _Slot]]:
        """Yield the slots, each with its side, that may have partners of new rows, or rows that come out."""
        for number, (memory, half) in enumerate(zip(self.memories, key.halves, strict=True)):
            times = [row.at for row in new[1 - number] if row.at is not None]
            for slot in half.slots:
                is_due = memory.side.is_kept and memory.bound is not None and slot.due < memory.bound
                if is_due or any(
                    slot.first <= time + memory.within and time - memory.within <= slot.last for time in times
                ):
                    yield number, slot

    def _read_slots(self, wanted: Sequence[tuple[_Key, int, _Slot]]) -> None:
        places = [(key.text, slot.number) for key, _, slot in wanted]
        for (key, number, slot), value in zip(wanted, self.join.state.multi_get(places) if places else (), strict=True):
            if value is None:
                raise StateError(f"rows of the join at {key.text} are gone, slot {slot.number}; restore the state")
            memory = self.memories[number]
            key.halves[number].read[slot.number] = memory.add(read_batch(value, memory.side.arrow), slot.done)

    def _slots(self, memory: _Memory, key: _Key, half: _Half, written: _Written) -> None:
        """Remove the slots that are over, describe those that were read again, and begin one if there are many rows."""
        written.gone.extend((key.text, slot.number) for slot in half.slots if memory.is_over(slot.last))
        half.slots = [
            memory.slot(slot.number, half.read[slot.number]) if slot.number in half.read else slot
            for slot in half.slots
            if not memory.is_over(slot.last)
        ]
        half.batch = memory.take(half.loose) if half.loose else None
        if half.batch is not None and half.batch.nbytes > SEAL_BYTES:
            key.last_slot += 1
            written.entries[key.text, key.last_slot] = _bytes(half.batch)
            half.slots.append(memory.slot(key.last_slot, half.loose))
            half.loose, half.batch = [], None

    def _value(self, key: _Key) -> bytes | None:
        """Return the value to store for a key; None if no row is left."""
        if not any(half.loose or half.slots for half in key.halves):
            return None
        sides, stored = [], []
        for memory, half in zip(self.memories, key.halves, strict=True):
            stored.append(b"" if half.batch is None else _bytes(half.batch))
            slots = [(slot.number, slot.first, slot.last, f"{slot.done:x}", slot.due) for slot in half.slots]
            sides.append((half.due, f"{memory.mask(half.loose):x}", len(stored[-1]), slots))
        line = _JSON.encode({"slots": key.last_slot, "sides": sides}).encode()
        return b"\n".join([line, b"".join(stored)])


def _next_due(memory: _Memory, half: _Half) -> int | None:
    """Return the time with which the key must be put into `TimeIndex`; None if it is there, or no row is left."""
    times = [slot.due for slot in half.slots]
    if half.loose:
        times.append(memory.due(half.loose))
    if not times:
        half.due = None
        return None
    is_there = half.due is not None and (memory.bound is None or half.due >= memory.bound)
    return None if is_there and half.due is not None and half.due <= min(times) else min(times)


def _bytes(batch: pa.RecordBatch) -> bytes:
    stored: bytes = batch.serialize().to_pybytes()
    return stored
