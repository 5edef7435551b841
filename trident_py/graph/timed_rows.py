"""Rows as windows, joins over time and functions with timers take them: with their times, partitions and keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from trident_py.graph.panes import NEWEST, OLDEST, PANE, VALUE, PaneAggregation
from trident_py.rows.moments import micros_in, micros_of
from trident_py.rows.row import Row, keys_in, row_class, values_of
from trident_py.states.keys import encode_keys
from trident_py.windows.event_store import TimedRow
from trident_py.windows.watermark import Watermark
from trident_py.worker.pipeline import Values


@frozen(kw_only=True)
class TimedRows(ABC):
    """Converts the rows that the driver receives to rows of windows by event time.

    Attributes:
        by: the fields whose values name the partition of a row; empty: all rows are one partition.
        keys: the fields with a window for each of their values.
    """

    by: tuple[str, ...]
    keys: tuple[str, ...]

    def __call__(self, tuples: Sequence[Row]) -> list[TimedRow]:
        """Return a row of the windows for each of ``tuples``."""
        partitions, keys = (encode_keys(values_of(tuples, names)) for names in (self.by, self.keys))
        times, stored = self.times(tuples), self.stored(tuples)
        return [TimedRow(*each) for each in zip(*zip(*times, strict=True), partitions, keys, stored, strict=True)]

    def newest(self, rows: pa.Table, rules: Watermark, now: int) -> dict[str, int]:
        """Return where rows of a transaction of the time ``now`` move the watermark, as `judge` finds it row by row."""
        most = now + rules.max_ahead
        at, newest = self.arrow_times(rows)
        names = pa.array(encode_keys(keys_in(rows, self.by)), pa.string())
        found = pa.table({"name": names, "newest": pc.min_element_wise(newest, most)})
        moved = found.filter(pc.less_equal(at, most)).group_by("name").aggregate([("newest", "max")])
        return dict(zip(moved.column("name").to_pylist(), moved.column("newest_max").to_pylist(), strict=True))

    @abstractmethod
    def times(self, tuples: Sequence[Row]) -> Iterable[tuple[int | None, int | None]]:
        """Return the time of each row, and the time to which it moves the watermark."""

    @abstractmethod
    def arrow_times(self, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Return the same as `times`, as two columns."""

    @abstractmethod
    def stored(self, tuples: Sequence[Row]) -> Sequence[Values]:
        """Return the values to store of each row."""


@frozen(kw_only=True)
class WholeRows(TimedRows):
    """Stores the fields of rows.

    Attributes:
        timestamp: the field with the time of a row.
        fields: the stored fields.
    """

    timestamp: str
    fields: tuple[str, ...]

    def times(self, tuples: Sequence[Row]) -> Iterable[tuple[int | None, int | None]]:
        times = [None if at is None else micros_of(at) for (at,) in values_of(tuples, [self.timestamp])]
        return zip(times, times, strict=True)

    def arrow_times(self, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        times = micros_in(rows.column(self.timestamp))
        return times, times

    def stored(self, tuples: Sequence[Row]) -> Sequence[Values]:
        return values_of(tuples, self.fields)


@frozen(kw_only=True)
class RowValues(TimedRows):
    """Stores the partial value of each row.

    Attributes:
        timestamp: the field with the time of a row.
        seen: the fields that the aggregator receives.
    """

    timestamp: str
    panes: PaneAggregation
    seen: tuple[str, ...]

    def times(self, tuples: Sequence[Row]) -> Iterable[tuple[int | None, int | None]]:
        for (at,) in values_of(tuples, [self.timestamp]):
            micros = None if at is None else micros_of(at)
            yield None if micros is None else self.panes.begin(micros), micros

    def arrow_times(self, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        micros = micros_in(rows.column(self.timestamp))
        begins = [None if each is None else self.panes.begin(each) for each in micros.to_pylist()]
        return pa.chunked_array([begins], pa.int64()), micros

    def stored(self, tuples: Sequence[Row]) -> Sequence[Values]:
        init, make = self.panes.aggregator.init, row_class(self.seen)._make
        views = map(make, values_of(tuples, self.seen))
        return [(*key, init(view)) for key, view in zip(values_of(tuples, self.keys), views, strict=True)]


@frozen(kw_only=True)
class PaneValues(TimedRows):
    """Stores partial values that tasks have made, as `PaneAggregation` describes.

    Attributes:
        is_session: whether they belong to sessions, which begin with their first row.
    """

    is_session: bool

    def times(self, tuples: Sequence[Row]) -> Iterable[tuple[int | None, int | None]]:
        for begin, newest in values_of(tuples, [self._begin, NEWEST]):
            if newest is None:
                yield None, None
            else:
                yield micros_of(begin) if self.is_session else begin, micros_of(newest)

    def arrow_times(self, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        begin, newest = rows.column(self._begin), micros_in(rows.column(NEWEST))
        return micros_in(begin) if self.is_session else begin, newest

    def stored(self, tuples: Sequence[Row]) -> Sequence[Values]:
        return values_of(tuples, [*self.keys, VALUE])

    @property
    def _begin(self) -> str:
        return OLDEST if self.is_session else PANE
