"""``window``, its declaration and execution: a state that keeps rows, and emits the results of windows that fire."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Self

from attrs import evolve, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.aggregation import AggregateCall, AnyAggregator, schema_call
from trident_py.graph.event_time import EventTime, EventTimeArguments, event_windows, partial_event_windows
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Node, RowFlow
from trident_py.graph.panes import VALUE, PaneAggregation
from trident_py.graph.timed_rows import PaneValues, RowValues, TimedRows, WholeRows
from trident_py.graph.timed_state import TimedState, check_fenced, check_keeps, reads_late
from trident_py.graph.timed_updater import TimedUpdater
from trident_py.graph.window_updaters import ArrivalUpdater, EventUpdater, WindowAggregation
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import NativeAggregator
from trident_py.rows.schema import append, check_comparable, fields_text, names_of, schema_of, select, shown
from trident_py.windows.event_store import EventWindows
from trident_py.windows.window_store import WindowRows
from trident_py.windows.windows import ArrivalWindow, PanedWindow, SessionWindow, Window

BOUNDS = schema_of("window_start timestamp, window_end timestamp")
"""The last fields of the results of a window by time."""


@frozen(kw_only=True)
class WindowState(TimedState):
    """``window``: the state that stores rows; its new values are the results of the windows that fire.

    Attributes:
        keys: the fields with a window for each of their values; empty: a single window.
        emits_keys: whether results begin with the values of ``keys``.
        in_fields: the fields that the aggregator may read.
        call: the aggregator.
        by_pane: whether tasks aggregate the rows of each pane, because nothing needs the rows.
    """

    window: Window
    keys: tuple[str, ...]
    emits_keys: bool
    in_fields: tuple[str, ...]
    call: AggregateCall
    by_pane: bool = False

    kind: ClassVar[str] = "window"

    @property
    def fixed(self) -> frozenset[str]:
        """The facts that the stored rows depend on."""
        return frozenset({"window", "fields", "timestamp", "groups"})

    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """Return the window, its keys and fields, the aggregator, and the facts of the factory."""
        if self.factory.volatile:
            return {}
        made_of: dict[str, Json] = {
            "kind": class_names(self.factory),
            "window": self.window.slug,
            "keys": fields_text(select(source, self.keys)),
            "fields": fields_text(self.stored_fields(source)),
            **(self.event_time.identity if self.event_time else {}),
        }
        return {**made_of, **self.call.identity, **self.stored_identity}

    @property
    def groups(self) -> int:
        return super().groups if self.keys else 1

    def described(self) -> str:
        span = "session" if isinstance(self.window, SessionWindow) else "pane"
        return super().described() + (f", kept as one value for each key and {span}" if self._panes else "")

    def settled(self, origins: Collection[Node]) -> Self:
        return evolve(super().settled(origins), by_pane=self._panes is not None and not reads_late(origins))

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the aggregator's results, after the keys if these are emitted, and before the window's bounds."""
        (source,) = inputs
        keys, (_, results) = select(source, self.keys), self._seen_and_results(source)
        check_comparable(keys)
        if self.event_time:
            self.event_time.check(source)
        self.typed(source)
        found = append(keys, results) if self.emits_keys else results
        return append(found, BOUNDS) if self._emits_bounds(found) else found

    def _emits_bounds(self, results: StructType) -> bool:
        """Return whether results have the bounds: windows by time have them, unless the aggregator has such fields."""
        return self.window.is_timed and not {name.lower() for name in results.names} & set(BOUNDS.names)

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return the rows that the driver receives."""
        panes = self._panes
        return panes.build(inputs[0], batch_id) if panes and self.by_pane else super().build(inputs, batch_id)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        panes = self._panes
        return panes.on_rows(inputs[0], batch_id) if panes and self.by_pane else super().on_rows(inputs, batch_id)

    def fields(self, source: StructType) -> StructType:
        """Return the fields of the rows that the driver receives.

        By event time these are all, because late rows have them; if nothing reads late rows, those of partial values.
        """
        if self.event_time is None:
            return self.stored_fields(source)
        if self.by_pane and (panes := self._panes):
            return panes.fields(self.carried_fields(source))
        return super().fields(source)

    def stored_fields(self, source: StructType) -> StructType:
        """Return the fields of the stored rows: for partial values, the keys and the value."""
        if panes := self._panes:
            return panes.stored_fields(source)
        seen, _ = self._seen_and_results(source)
        timestamp = [self.event_time.timestamp] if self.event_time else []
        # Rows without any field can't be counted.
        return select(source, list(dict.fromkeys([*self.keys, *seen.names, *timestamp])) or self.in_fields[:1])

    def value_field(self, source: StructType) -> StructField:
        time = self.event_time
        return (self._by_event_time(source, time) if time else self._by_arrival(source)).value

    def updater(self, source: StructType) -> TimedUpdater:
        (seen, results), panes = self._seen_and_results(source), self._panes
        keys = select(source, self.keys) if self.emits_keys else StructType()
        aggregation = WindowAggregation(
            title=self.title,
            keys=self.keys,
            emits_keys=self.emits_keys,
            emits_bounds=self._emits_bounds(StructType([*keys.fields, *results.fields])),
            call=self.call,
            seen=(VALUE,) if panes else tuple(seen.names),
            merges=panes is not None,
        )
        if self.event_time is None:
            return ArrivalUpdater(aggregation=aggregation, rows=self._by_arrival(source))
        rows = self._by_event_time(source, self.event_time)
        return EventUpdater(
            aggregation=aggregation,
            rows=rows,
            timed=self._timed(rows, self.event_time, seen.names),
            is_carrying=self.is_carrying,
        )

    def _timed(self, rows: EventWindows[Any], event_time: EventTime, seen: Sequence[str]) -> TimedRows:
        by, timestamp, panes = event_time.by, event_time.timestamp, self._panes
        if self.by_pane:
            return PaneValues(by=by, keys=self.keys, is_session=isinstance(self.window, SessionWindow))
        if panes:
            return RowValues(by=by, keys=self.keys, timestamp=timestamp, panes=panes, seen=tuple(seen))
        return WholeRows(by=by, keys=self.keys, timestamp=timestamp, fields=tuple(rows.schema.names))

    @property
    def _panes(self) -> PaneAggregation | None:
        """The aggregation by panes, if windows are stored as partial values, not as rows."""
        event_time, window, aggregator = self.event_time, self.window, self.call.aggregator
        if event_time is None or not isinstance(window, PanedWindow) or not isinstance(aggregator, NativeAggregator):
            return None
        return PaneAggregation(
            title=self.title,
            window=window,
            keys=self.keys,
            by=event_time.by,
            timestamp=event_time.timestamp,
            call=self.call,
            aggregator=aggregator,
            tag=self.tag,
        )

    def _by_arrival(self, source: StructType) -> WindowRows:
        if isinstance(self.window, ArrivalWindow):
            return WindowRows(self.window, self.stored_fields(source))
        raise AssertionError(f"{self.window!r} has no event time")

    def _by_event_time(self, source: StructType, event_time: EventTime) -> EventWindows[Any]:
        stored, panes = self.stored_fields(source), self._panes
        if panes:
            return partial_event_windows(event_time, self.window, stored, panes.aggregator.combine)
        return event_windows(event_time, self.window, stored)

    def _seen_and_results(self, source: StructType) -> tuple[StructType, StructType]:
        return self.call.fields(select(source, self.in_fields))


def window_state(
    title: str,
    name: str,
    factory: StateFactory,
    window: Window,
    keys: tuple[str, ...],
    emits_keys: bool,
    in_fields: str | Sequence[str],
    aggregator: AnyAggregator,
    out: str | StructType,
    event_time: EventTimeArguments,
) -> WindowState:
    """Make a window, after the checks that need no knowledge of the input."""
    if not isinstance(window, Window):
        raise TopologyError(
            f"a window is a TumblingCount, SlidingCount, TumblingDuration, SlidingDuration or SessionWindow, "
            f"not {shown(window)}"
        )
    check_fenced(factory, "a window")
    if event_time.timestamp is not None:
        check_keeps(factory, "windows by event time")
    call = schema_call(aggregator, out)
    names = names_of(in_fields) or call.in_fields
    if not names and not keys and event_time.timestamp is None:  # rows without any field can't be counted
        raise TopologyError("name at least one field for the aggregator to see")
    return WindowState(
        title=title,
        name=name,
        factory=factory,
        window=window,
        keys=keys,
        emits_keys=emits_keys,
        in_fields=names,
        call=call,
        times=event_time.of_window(window),
    )
