"""The updaters of windows: they add rows to the state of windows, and emit the results of windows that fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from decimal import localcontext
from itertools import chain
from typing import Any

import pyarrow as pa
from attrs import frozen

from coordinators.values.transaction_time import MILLIS
from trident_py.graph.aggregation import AggregateCall
from trident_py.graph.timed_rows import TimedRows
from trident_py.graph.timed_updater import Newests, TimedUpdater
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import EXACT_DECIMALS, CombinerAggregator
from trident_py.interfaces.states import Key, RemovableMapState
from trident_py.rows.moments import in_millis, moment
from trident_py.rows.row import Row, keys_in, row_class, values_of
from trident_py.states.keys import UNGROUPED, encode_keys
from trident_py.windows.event_store import EventWindows
from trident_py.windows.window_store import WindowRows
from trident_py.windows.windows import MICROS
from trident_py.worker.accumulators import Accumulator, MergingAccumulator
from trident_py.worker.failures import in_user_code
from trident_py.worker.pipeline import Values, prepared


@frozen(kw_only=True)
class WindowAggregation:
    """The aggregation of the rows of a window.

    Attributes:
        keys: the fields with a window for each of their values; empty: a single window.
        emits_keys: whether results begin with the values of ``keys``.
        emits_bounds: whether results end with the first moment of the window, and the first moment after it.
        seen: the fields of a row that the aggregator receives.
        merges: whether the rows of a window are partial values.
    """

    title: str
    keys: tuple[str, ...]
    emits_keys: bool
    emits_bounds: bool
    call: AggregateCall
    seen: tuple[str, ...]
    merges: bool = False

    def results(
        self, trigger: int, rows: Sequence[Row], bounds: Values, *, has_one_key: bool = False
    ) -> Iterator[Values]:
        """Yield the results for each key of a window that fires; its rows are those of all keys."""
        groups = [(key, rows) for key in values_of(rows[:1], self.keys)] if has_one_key else self.by_key(rows).values()
        for key, group in groups:
            before = key if self.emits_keys else ()
            for result in self._results(trigger, group):
                yield (*before, *result, *(bounds if self.emits_bounds else ()))

    def by_key(self, rows: Sequence[Row]) -> dict[str, tuple[Values, list[Row]]]:
        """Return the rows of each key, by the text of the key."""
        found: dict[str, tuple[Values, list[Row]]] = {}
        keys = values_of(rows, self.keys)
        for text, key, row in zip(encode_keys(keys), keys, rows, strict=True):
            found.setdefault(text, (key, []))[1].append(row)
        return found

    def prepared(self) -> AbstractContextManager[None]:
        """Prepare the aggregator, and clean it up after the block."""
        return prepared([self.call.aggregator], self.title)

    def _results(self, trigger: int, rows: Sequence[Row]) -> list[Values]:
        aggregator, make = self.call.aggregator, row_class(self.seen)._make
        if self.merges and isinstance(aggregator, CombinerAggregator):
            accumulator: Accumulator[Any] = MergingAccumulator(aggregator)
        else:
            accumulator = self.call.accumulator(trigger, self.title)
        views = map(make, values_of(rows, self.seen))
        place = f"in {self.title}, over the {len(rows)} rows of window {trigger}"
        with in_user_code(lambda: place), localcontext(EXACT_DECIMALS):
            value = accumulator.first(next(views))
            for view in views:
                value = accumulator.following(value, view)
            return accumulator.results(value)


@frozen(kw_only=True)
class ArrivalUpdater(TimedUpdater):
    """Updates windows by count, and by the time of transactions.

    Windows by time fire for all keys at once. So they are stored as one window, and split by key when they fire: a key
    without new rows fires too, and is then forgotten. Windows by count are stored for each key.

    Attributes:
        rows: stores the rows; their fields are the fields of the input.
    """

    aggregation: WindowAggregation
    rows: WindowRows

    def feed(
        self,
        state: RemovableMapState[bytes],
        tuples: Sequence[Row],
        time: int,
        collector: TridentCollector,
        newest: Newests | None = None,
    ) -> None:
        now = time * (MICROS // MILLIS)
        if self.rows.window.is_timed:
            batch = {UNGROUPED: list(tuples)}
        else:
            batch = {key: rows for key, (_, rows) in self.aggregation.by_key(tuples).items()}
        fired = [windows for windows in self.rows.feed(state, batch, now).values() if windows]
        length = self.rows.window.length_micros or 0
        with self.aggregation.prepared() if fired else nullcontext():
            for trigger, rows in chain.from_iterable(fired):
                for values in self.aggregation.results(trigger, rows, (moment(trigger - length), moment(trigger))):
                    collector.emit(values)

    def next_window_at(self, state: RemovableMapState[bytes]) -> int | None:
        if not self.rows.window.is_timed:
            return None
        return in_millis(self.rows.next_firing_at(state, UNGROUPED))

    def keys(self, rows: pa.Table) -> Sequence[Key]:
        return keys_in(rows, self.aggregation.keys)


@frozen(kw_only=True)
class EventUpdater(TimedUpdater):
    """Updates windows by event time. It emits pairs: whether a row is late, and the row of that stream.

    Attributes:
        rows: stores the rows.
        timed: turns the rows that the driver receives into those of the windows.
        is_carrying: whether the rows carry their partition, which late rows don't have.
    """

    aggregation: WindowAggregation
    rows: EventWindows[Any]
    timed: TimedRows
    is_carrying: bool = False

    def feed(
        self,
        state: RemovableMapState[bytes],
        tuples: Sequence[Row],
        time: int,
        collector: TridentCollector,
        newest: Newests | None = None,
    ) -> None:
        with in_user_code(lambda: f"in {self.aggregation.title}"), localcontext(EXACT_DECIMALS):
            moved = newest[0] if newest else None
            fed = self.rows.feed(state, self.timed(tuples), time * (MICROS // MILLIS), moved)
            first = next(fed.fired, None)
        watermark = None if fed.watermark is None else moment(fed.watermark)
        for number, why in fed.refused:
            collector.emit((True, (*tuples[number][self.is_carrying :], why.value, watermark)))
        if first is None:
            return
        with self.aggregation.prepared():
            for window in chain([first], fed.fired):
                bounds = (moment(window.start), moment(window.end))
                for values in self.aggregation.results(window.end, window.rows, bounds, has_one_key=window.has_one_key):
                    collector.emit((False, values))

    def next_window_at(self, state: RemovableMapState[bytes]) -> int | None:
        return in_millis(self.rows.next_firing_at(state))

    def keys(self, rows: pa.Table) -> Sequence[Key]:
        return keys_in(rows, self.aggregation.keys)

    def newest(self, rows: pa.Table, time: int) -> Newests:
        return [self.timed.newest(rows, self.rows.rules, time * (MICROS // MILLIS))]

    def watermarks(self, state: RemovableMapState[bytes]) -> dict[str, float]:
        found = self.rows.watermark(state)
        return {} if found is None else {"watermark": found / MICROS}
