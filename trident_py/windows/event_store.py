"""Windows by event time, kept in a state: their rows, and the watermark.

One value is the head: the watermark's progress, and the bins that there are. Everything is read from the state in each
transaction, and written under its token. So a replay gives the same, and nothing differs after a rollback.

Windows of a fixed length have a bin for each pane. It has the rows of all keys whose time is in the pane. For a
built-in aggregator, it has one value for each key instead. A bin is removed when its last window has fired, so the
state is as large as what a future window needs.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql.types import StructField, StructType

from trident_py.interfaces.states import RemovableMapState
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import arrow_schema, arrow_table
from trident_py.states.keys import encode_keys
from trident_py.windows.bins import Bins
from trident_py.windows.watermark import PartitionProgress, Refusal, Watermark, WatermarkProgress
from trident_py.windows.window_store import value_field
from trident_py.windows.windows import DurationWindow, SessionWindow, pane

HEAD = ("head", 0)
"""The key of the head. Texts of groups begin with a bracket, and bins are numbers."""

_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)

W = TypeVar("W", DurationWindow, SessionWindow)

Newest: TypeAlias = Mapping[str, int]
"""By partition of a watermark, the time to which the rows of a transaction move it."""


@frozen
class TimedRow:
    """A row of the present transaction, or what several rows with the same key, partition and pane have in common.

    Attributes:
        at: its time, in microseconds since the epoch, or that at which its pane begins; None: it has none.
        newest: the time to which it moves its partition.
        partition: the partition of the watermark that it moves.
        key: the text of its group's values.
        values: the values to store.
    """

    at: int | None
    newest: int | None
    partition: str
    key: str
    values: Sequence[Any]


@frozen(kw_only=True)
class Judged:
    """The rows of a transaction, by whether they are late.

    Attributes:
        accepted: the rows that aren't.
        refused: the position and the reason of each other row.
        progress: the watermark's progress at the end of the transaction.
    """

    accepted: Sequence[TimedRow]
    refused: Sequence[tuple[int, Refusal]]
    progress: WatermarkProgress


def judge(
    rules: Watermark,
    before: WatermarkProgress,
    rows: Sequence[TimedRow],
    now: int,
    late_before: int | None,
    newest: Newest | None = None,
) -> Judged:
    """Find the rows that are late, and let the others, and they, move the watermark.

    Args:
        rules: how the watermark follows from the rows.
        before: its progress at the end of the previous transaction.
        rows: the rows of the transaction.
        now: the time of the transaction.
        late_before: rows before this time are late.
        newest: where all rows of the transaction move partitions; None: ``rows`` are all.
    """
    judged = [(row, rules.refusal(row.at, now, late_before)) for row in rows]
    if newest is None:
        newest = _newest(judged, now + rules.max_ahead)
    return Judged(
        accepted=[row for row, why in judged if why is None],
        refused=[(number, why) for number, (_, why) in enumerate(judged) if why is not None],
        progress=rules.advance(before, now, newest),
    )


@frozen
class FiredWindow:
    """A window that fires, with its rows in the order of their times. Rows of one time are in the order they came in.

    ``start`` and ``end`` are in microseconds since the epoch.

    Attributes:
        has_one_key: whether all rows have the same key.
    """

    start: int
    end: int
    rows: Sequence[Row]
    has_one_key: bool = False


@frozen
class EventHead:
    """The head of a state of windows by event time.

    Attributes:
        bins: by bin, the number of its full chunks.
    """

    progress: WatermarkProgress = field(factory=WatermarkProgress)
    bins: Mapping[int, int] = field(factory=dict)


@frozen(kw_only=True)
class EventWindows(ABC, Generic[W]):
    """The windows of one stream by a field of event time.

    Attributes:
        schema: the fields of the stored rows.
        timestamp: the field of them with the time of a row.
        prefix: the beginning of the name of what is stored.
    """

    prefix: ClassVar[str] = "event"

    window: W
    rules: Watermark
    schema: StructType
    timestamp: str
    _arrow: pa.Schema = field(init=False, repr=False, eq=False)

    @_arrow.default
    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema)

    @property
    def value(self) -> StructField:
        """The value field of the state, named after the windows' kind and sizes, and a digest of the rows' fields."""
        fields = [(each.name, each.dataType.simpleString()) for each in self.schema.fields]
        return value_field(f"{self.prefix}_{self.window.slug}", [fields, self.timestamp])

    def feed(
        self, state: RemovableMapState[bytes], rows: Sequence[TimedRow], now: int, newest: Newest | None = None
    ) -> Fed:
        """Add rows to windows, at the time of their transaction; iterate `Fed.fired` to the end.

        Args:
            state: a state with the fields `KEYS` and `value`, in a transaction.
            rows: the rows of the transaction; maybe none.
            now: its time in microseconds since the epoch.
            newest: see `judge`.
        """
        head = self._head(state)
        late_before = self._bound(head.progress.watermark)
        judged = judge(self.rules, head.progress, rows, now, late_before, newest)
        return Fed(
            refused=judged.refused,
            watermark=head.progress.watermark,
            fired=self._fire(state, head, judged.progress, judged.accepted),
        )

    def next_firing_at(self, state: RemovableMapState[bytes]) -> int | None:
        """Return the earliest time of a transaction without rows that lets a window fire; None if none does."""
        head = self._head(state)
        if not head.bins:
            return None
        return self.rules.passes_at(head.progress, self._next_bound(min(head.bins), head.progress.watermark))

    def watermark(self, state: RemovableMapState[bytes]) -> int | None:
        """Return the watermark after the last transaction."""
        return self._head(state).progress.watermark

    def _fire(
        self, state: RemovableMapState[bytes], head: EventHead, progress: WatermarkProgress, rows: Sequence[TimedRow]
    ) -> Iterator[FiredWindow]:
        bins = Bins(state, self._bin_fields, dict(head.bins))
        self._add(bins, rows)
        before, upto = self._bound(head.progress.watermark), self._bound(progress.watermark)
        if upto is not None and upto != before:
            yield from self._due(bins, before, upto)
        after = EventHead(progress, bins.full)
        if after != head:
            state.multi_put([HEAD], [_stored(after)])

    def _bound(self, watermark: int | None) -> int | None:
        """Return the last time that windows go by, up to the watermark; rows before it are late."""
        return None if watermark is None else watermark // self._grain * self._grain

    def _head(self, state: RemovableMapState[bytes]) -> EventHead:
        (value,) = state.multi_get([HEAD])
        return EventHead() if value is None else _restored(value)

    def _table(self, rows: Sequence[TimedRow]) -> pa.Table:
        return arrow_table([row.values for row in rows], self.schema)

    def _sorted(self, batches: Sequence[pa.RecordBatch]) -> list[Row]:
        return sorted(chain.from_iterable(map(rows_of, batches)), key=lambda row: row[self.timestamp])

    @property
    @abstractmethod
    def _grain(self) -> int:
        """The watermark takes effect when it passes a multiple of so many microseconds."""

    @property
    @abstractmethod
    def _bin_fields(self) -> pa.Schema:
        """The fields of the rows in bins."""

    @abstractmethod
    def _next_bound(self, first: int, watermark: int | None) -> int:
        """Return the next watermark by which a window fires, or is looked for, if ``first`` is the first bin."""

    @abstractmethod
    def _add(self, bins: Bins, rows: Sequence[TimedRow]) -> None:
        """Add rows, of which none is late."""

    @abstractmethod
    def _due(self, bins: Bins, before: int | None, upto: int) -> Iterator[FiredWindow]:
        """Yield the windows that fire when the bound moves, then remove what no future window needs."""


@frozen(kw_only=True)
class Fed:
    """The result of feeding the rows of a transaction.

    Attributes:
        refused: the position and reason of each row that is in no window.
        watermark: the watermark after the previous transaction.
        fired: the windows that fire, made during iteration. The state is complete after the last one.
    """

    refused: Sequence[tuple[int, Refusal]]
    watermark: int | None
    fired: Iterator[FiredWindow]


@frozen(kw_only=True)
class DurationEventWindows(EventWindows[DurationWindow]):
    """Windows of a fixed length by event time, with a bin for each pane."""

    @property
    def _grain(self) -> int:
        return self.window.slide_micros

    @property
    def _bin_fields(self) -> pa.Schema:
        return self._arrow

    def _next_bound(self, first: int, watermark: int | None) -> int:
        return next(self.window.ends_between([first], self._bound(watermark), first + self.window.length_micros))

    def _add(self, bins: Bins, rows: Sequence[TimedRow]) -> None:
        panes: dict[int, list[TimedRow]] = {}
        sizes = self.window.pane_sizes
        for row in rows:
            if row.at is not None:
                panes.setdefault(pane(row.at, *sizes), []).append(row)
        bins.add({pane: self._table(found) for pane, found in panes.items()})

    def _due(self, bins: Bins, before: int | None, upto: int) -> Iterator[FiredWindow]:
        panes, length = sorted(bins.full), self.window.length_micros
        read: dict[int, list[Row]] = {}
        for end in self.window.ends_between(panes, before, upto):
            wanted = panes[bisect_left(panes, end - length) : bisect_left(panes, end)]
            read = {pane: read[pane] if pane in read else self._rows(bins.read(pane)) for pane in wanted}
            yield FiredWindow(end - length, end, list(chain.from_iterable(read.values())))
        bins.remove([pane for pane in panes if self.window.is_done(pane, upto)])

    def _rows(self, batches: Sequence[pa.RecordBatch]) -> list[Row]:
        return self._sorted(batches)


@frozen(kw_only=True)
class PartialEventWindows(DurationEventWindows):
    """Windows of a fixed length by event time, with partial values of an aggregator: one for each pane and key.

    A stored row has the values of its key, then the partial value.

    Attributes:
        combine: returns the value of two.
    """

    prefix: ClassVar[str] = "event_partial"

    combine: Callable[[Any, Any], Any] = field(eq=False, repr=False)

    def _add(self, bins: Bins, rows: Sequence[TimedRow]) -> None:
        panes: dict[int, dict[str, Sequence[Any]]] = {}
        sizes = self.window.pane_sizes
        for row in rows:
            if row.at is not None:
                self._combine(panes.setdefault(pane(row.at, *sizes), {}), row.key, row.values)
        tables = {pane: arrow_table(list(found.values()), self.schema) for pane, found in panes.items()}
        bins.add(tables, self._merged)

    def _merged(self, rows: pa.Table) -> pa.Table:
        found: dict[str, Sequence[Any]] = {}
        values = self._rows(rows.to_batches())
        for key, row in zip(encode_keys([row[:-1] for row in values]), values, strict=True):
            self._combine(found, key, row)
        return arrow_table(list(found.values()), self.schema)

    def _combine(self, found: dict[str, Sequence[Any]], key: str, row: Sequence[Any]) -> None:
        before = found.get(key)
        found[key] = row if before is None else (*before[:-1], self.combine(before[-1], row[-1]))

    def _rows(self, batches: Sequence[pa.RecordBatch]) -> list[Row]:
        return list(chain.from_iterable(map(rows_of, batches)))


def _newest(judged: Sequence[tuple[TimedRow, Refusal | None]], most: int) -> dict[str, int]:
    """Return the greatest time of each partition, of rows that move the watermark, and not after ``most``."""
    newest: dict[str, int] = {}
    for row, why in judged:
        if row.newest is not None and why in (None, Refusal.LATE):
            moved = min(row.newest, most)
            newest[row.partition] = max(moved, newest.get(row.partition, moved))
    return newest


def progress_line(progress: WatermarkProgress) -> dict[str, Any]:
    """Return the progress as values for JSON."""
    partitions = [[name, each.newest, each.active_at] for name, each in progress.partitions.items()]
    return {"watermark": progress.watermark, "partitions": partitions, "by": progress.by}


def progress_of(line: Mapping[str, Any]) -> WatermarkProgress:
    """Return the progress that `progress_line` has made."""
    partitions = {name: PartitionProgress(newest, active_at) for name, newest, active_at in line["partitions"]}
    return WatermarkProgress(line["watermark"], partitions, line["by"])


def _stored(head: EventHead) -> bytes:
    return _JSON.encode({**progress_line(head.progress), "bins": list(head.bins.items())}).encode()


def _restored(value: bytes) -> EventHead:
    found = json.loads(bytes(value))
    return EventHead(progress_of(found), dict(map(tuple, found["bins"])))
