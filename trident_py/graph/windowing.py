"""``window``, its declaration and execution: a state that keeps rows, and emits the results of windows that fire."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from attrs import define, evolve, field, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.aggregation import AggregateCall, AnyAggregator, schema_call
from trident_py.graph.event_time import LATE, VALUES, EventTime, EventTimeArguments, TimedOutput, reads_late
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import Node, RowFlow, RowWise
from trident_py.graph.output import OutputPlace, described_state
from trident_py.graph.panes import VALUE, PaneAggregation
from trident_py.graph.window_updaters import (
    ArrivalUpdater,
    EventUpdater,
    PaneValues,
    RowValues,
    TimedRows,
    WholeRows,
    WindowAggregation,
    WindowUpdater,
)
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import RemovableMapState, StateFactory, StateKind
from trident_py.operations.builtin import NativeAggregator
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Columns, CommitRows, Participant, earliest
from trident_py.participants.states import StateParticipant, UpdateCollector
from trident_py.rows.row import row_class
from trident_py.rows.schema import append, check_comparable, fields_text, names_of, schema_of, select, shown
from trident_py.states.shards import made
from trident_py.windows.event_store import EventWindows
from trident_py.windows.window_store import KEYS, WindowRows
from trident_py.windows.windows import ArrivalWindow, DurationWindow, Window

BOUNDS = schema_of("window_start timestamp, window_end timestamp")
"""The last fields of the results of a window by time."""


log = logging.getLogger(__name__)


@define(kw_only=True)
class WindowParticipant(StateParticipant):
    """``window``, or a join over time: adds the rows of the batch to the state, at the time of its transaction.

    Attributes:
        inputs: the fields of the rows.
        outputs: the fields of what the updater emits.
        kind: ``window`` or ``join``, for messages.
        metrics: receives the watermark, in seconds since 1970.
        drops_late: whether there can be rows that are in no window, and no stream takes them.
    """

    updater: WindowUpdater
    inputs: Sequence[str]
    outputs: Sequence[str]
    kind: str = "window"
    metrics: Metrics = field(factory=Metrics)
    drops_late: bool = False
    _next_at: int | None = field(default=None, init=False)
    _has_told: bool = field(default=False, init=False)

    def next_window_at(self) -> int | None:
        """Return the next end after the last transaction."""
        return earliest([self._next_at, super().next_window_at()])

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Raise the state's fence, and read the stored windows."""
        recovered = super().recover(topology, epoch)
        self._look_again()
        return recovered

    def _change(self, tx: SinkTransaction, columns: Columns) -> list[tuple[Any, ...]]:
        collector = UpdateCollector(f"state {self.name!r}, attempt {tx.attempt}", self.outputs)
        rows = list(map(row_class(tuple(self.inputs))._make, zip(*columns, strict=True)))
        self.updater.feed(self._rows, rows, tx.time, collector)
        self._look_again()
        if self.drops_late:
            self._tell_late(tx, any(is_late for is_late, _ in collector.rows))
        return collector.rows

    def _tell_late(self, tx: SinkTransaction, has_late: bool) -> None:
        if has_late and not self._has_told:
            self._has_told = True
            log.warning(
                "%s %s, attempt %s: some rows are in no %s, and nothing reads late_rows(); this is logged once",
                *(self.kind, self.name, tx.attempt, self.kind),
            )

    def try_commit(self, tx: SinkTransaction, receipt: Any) -> bool:
        """Do nothing: rows only wait here, and what fails when a window fires isn't the batch's."""
        return True

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        if not tx.attempt.is_trial:
            super().apply(tx, rows)

    def _look_again(self) -> None:
        self._next_at = self.updater.next_window_at(self._rows)
        for metric, watermark in self.updater.watermarks(self._rows).items():
            self.metrics.set(f"{self.name}.{metric}", watermark)

    @property
    def _rows(self) -> RemovableMapState[bytes]:
        if isinstance(self.state, RemovableMapState):
            return self.state
        raise AssertionError(f"state {self.name!r} was not checked")


@frozen(kw_only=True)
class WindowState(TimedOutput):
    """``window``: the state that stores rows; its new values are the results of the windows that fire.

    Attributes:
        name: its durable name.
        factory: makes the state.
        keys: the fields with a window for each of their values; empty: a single window.
        emits_keys: whether results begin with the values of ``keys``.
        in_fields: the fields that the aggregator may read.
        call: the aggregator.
        event_time: None: rows belong to windows as they come.
        tag: the field with the transaction of a row, before the other fields, in a shared job; else empty.
        by_pane: whether tasks aggregate the rows of each pane, because nothing needs the rows.
    """

    title: str
    name: str
    factory: StateFactory
    window: Window
    keys: tuple[str, ...]
    emits_keys: bool
    in_fields: tuple[str, ...]
    call: AggregateCall
    event_time: EventTime | None = None
    tag: str = ""
    by_pane: bool = False

    kind: ClassVar[str] = "window"
    waits: ClassVar[bool] = True
    is_repeatable: ClassVar[bool] = False  # the windows that a batch fires depend on the time of its commit

    @property
    def fixed(self) -> frozenset[str]:
        """The facts that the stored rows depend on."""
        return frozenset({"window", "fields", "timestamp", "by"})

    @property
    def details(self) -> dict[str, Json]:
        return {**self.factory.details(), **(self.event_time.details if self.event_time else {})}

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
        return {**made_of, **self.call.identity, **self.factory.identity()}

    def described(self) -> str:
        timed = f", {self.event_time.described()}" if self.event_time else ""
        timed += ", kept as one value for each key and pane" if self._panes else ""
        return described_state(self.factory, self.title) + timed

    def settled(self, origins: Collection[Node]) -> WindowState:
        return evolve(self, by_pane=self._panes is not None and not reads_late(origins))

    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        downstream, following = place.downstream(context)
        origins = place.new_values.origins if place.new_values else ()
        return WindowParticipant(
            name=self.name,
            state=made(self.typed(place.source), context.config, context.metrics),
            updater=self.updater(place.source),
            inputs=place.fields.names,
            outputs=VALUES if self.event_time else self.output([place.source]).names,
            metrics=context.metrics,
            drops_late=self.event_time is not None and not reads_late(origins),
            downstream=downstream,
            downstream_outputs=following,
        )

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

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> WindowState:
        return evolve(self, tag=field.name)

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return the rows that the driver receives."""
        (flow,), panes = inputs, self._panes
        return panes.build(flow, batch_id) if panes and self.by_pane else flow.select(self._tagged(flow.schema))

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        (flow,), panes = inputs, self._panes
        if panes and self.by_pane:
            return panes.on_rows(flow, batch_id)
        return flow.then(project_step(flow.schema, self._tagged(flow.schema)))

    def late_fields(self, source: StructType) -> StructType:
        return append(source, LATE)

    def _tagged(self, source: StructType) -> list[str]:
        return [*([self.tag] if self.tag else []), *self.fields(source).names]

    def fields(self, source: StructType) -> StructType:
        """Return the fields of the rows that the driver receives.

        By event time these are all, because late rows have them; if nothing reads late rows, those of partial values.
        """
        if self.event_time is None:
            return self.stored_fields(source)
        if self.by_pane and (panes := self._panes):
            return panes.fields(source)
        return StructType([each for each in source.fields if each.name != self.tag])

    def stored_fields(self, source: StructType) -> StructType:
        """Return the fields of the stored rows: for partial values, the keys and the value."""
        if panes := self._panes:
            return panes.stored_fields(source)
        seen, _ = self._seen_and_results(source)
        timestamp = [self.event_time.timestamp] if self.event_time else []
        # Rows without any field can't be counted.
        return select(source, list(dict.fromkeys([*self.keys, *seen.names, *timestamp])) or self.in_fields[:1])

    def typed(self, source: StructType) -> StateFactory:
        """Return the factory with the types of the stored data.

        Raises:
            StateError: the state can't hold such data.
        """
        time = self.event_time
        rows = self._by_event_time(source, time) if time else self._by_arrival(source)
        return self.factory.for_fields(KEYS, rows.value)

    def updater(self, source: StructType) -> WindowUpdater:
        """Return the updater that feeds the state with rows of the fields `fields`."""
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
        return EventUpdater(aggregation=aggregation, rows=rows, timed=self._timed(rows, self.event_time, seen.names))

    def _timed(self, rows: EventWindows[Any], event_time: EventTime, seen: Sequence[str]) -> TimedRows:
        by, timestamp, panes = event_time.by, event_time.timestamp, self._panes
        if self.by_pane:
            return PaneValues(by=by, keys=self.keys)
        if panes:
            return RowValues(by=by, keys=self.keys, timestamp=timestamp, panes=panes, seen=tuple(seen))
        return WholeRows(by=by, keys=self.keys, timestamp=timestamp, fields=tuple(rows.schema.names))

    @property
    def _panes(self) -> PaneAggregation | None:
        """The aggregation by panes, if windows are stored as partial values, not as rows."""
        event_time, window, aggregator = self.event_time, self.window, self.call.aggregator
        if event_time is None or not isinstance(window, DurationWindow) or not isinstance(aggregator, NativeAggregator):
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
            return event_time.partial_store(panes.window, stored, panes.aggregator.combine)
        return event_time.store(stored)

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
    if factory.kind is not StateKind.FENCED:
        raise TopologyError(f"a window needs a fenced state, as SQLiteState or PostgresState, and {factory!r} is none")
    if event_time.timestamp is not None and factory.ttl:
        raise TopologyError(f"{factory!r} forgets what is stored after {factory.ttl}; windows by event time need it")
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
        event_time=event_time.checked(window),
    )
