"""``window``, its declaration and execution: a state that keeps rows, and emits the results of windows that fire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import localcontext
from itertools import chain
from typing import Any, ClassVar

from attrs import define, evolve, field, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.transaction_time import MILLIS
from trident_py.errors import TopologyError
from trident_py.graph.aggregation import AggregateCall, AnyAggregator, schema_call
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import RowFlow, RowWise
from trident_py.graph.output import Output, OutputPlace, described_state
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.operations import EXACT_DECIMALS
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import MapState, StateFactory, StateKind
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Columns, CommitRows, Participant, earliest
from trident_py.participants.states import StateParticipant, UpdateCollector
from trident_py.rows.row import Row, row_class
from trident_py.rows.schema import append, check_comparable, fields_text, names_of, schema_of, select, shown
from trident_py.states.keys import UNGROUPED, encode_key
from trident_py.states.shards import made
from trident_py.windows.window_store import KEYS, WindowRows
from trident_py.windows.windows import MICROS, Window
from trident_py.worker.failures import in_user_code
from trident_py.worker.pipeline import Values, prepared

BOUNDS = schema_of("window_start timestamp, window_end timestamp")
"""The last fields of the results of a window by time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen(kw_only=True)
class WindowUpdater:
    """Adds the rows of a batch to windows, and emits the aggregator's results for windows that fire.

    Windows by time fire for all keys at once. So they are stored as one window, and split by key when they fire: a key
    without new rows fires too, and is then forgotten. Windows by count are stored for each key.

    Attributes:
        rows: stores the rows; their fields are the fields of the input.
        keys: the fields with a window for each of their values; empty: a single window.
        emits_keys: whether results begin with the values of ``keys``.
        emits_bounds: whether results end with the first moment of the window, and the first moment after it.
        seen: the fields of a row that the aggregator receives.
    """

    title: str
    rows: WindowRows
    keys: tuple[str, ...]
    emits_keys: bool
    emits_bounds: bool
    call: AggregateCall
    seen: tuple[str, ...]

    def feed(self, state: MapState[bytes], tuples: Sequence[Row], time: int, collector: TridentCollector) -> None:
        """Feed the rows of a batch (maybe none), at the time of its transaction, in milliseconds since 1970."""
        now = time * (MICROS // MILLIS)
        if self.rows.window.is_timed:
            batch = {UNGROUPED: list(tuples)}
        else:
            batch = {key: rows for key, (_, rows) in self._by_key(tuples).items()}
        fired = [windows for windows in self.rows.feed(state, batch, now).values() if windows]
        with prepared([self.call.aggregator] if fired else [], self.title):
            for trigger, rows in chain.from_iterable(fired):
                bounds = self._bounds(trigger)
                for key, group in self._by_key(rows).values():
                    before = key if self.emits_keys else ()
                    for result in self._results(trigger, group):
                        collector.emit((*before, *result, *bounds))

    def next_window_at(self, state: MapState[bytes]) -> int | None:
        """Return the transaction time, in milliseconds since 1970, at which the next window by time fires.

        None if no window fires by time.
        """
        if not self.rows.window.is_timed:
            return None
        now = self.rows.next_firing_at(state, UNGROUPED)
        return None if now is None else -(-now // (MICROS // MILLIS))

    def _bounds(self, trigger: int) -> Values:
        length = self.rows.window.length_micros
        if length is None or not self.emits_bounds:
            return ()
        return tuple(_EPOCH + timedelta(microseconds=micros) for micros in (trigger - length, trigger))

    def _by_key(self, rows: Iterable[Row]) -> dict[str, tuple[Values, list[Row]]]:
        found: dict[str, tuple[Values, list[Row]]] = {}
        for row in rows:
            key = [row[name] for name in self.keys]
            found.setdefault(encode_key(key), (key, []))[1].append(row)
        return found

    def _results(self, trigger: int, rows: list[Row]) -> list[Values]:
        accumulator, make = self.call.accumulator(trigger, self.title), row_class(self.seen)._make
        views = (make([row[name] for name in self.seen]) for row in rows)
        place = f"in {self.title}, over the {len(rows)} rows of window {trigger}"
        with in_user_code(lambda: place), localcontext(EXACT_DECIMALS):
            value = accumulator.first(next(views))
            for view in views:
                value = accumulator.following(value, view)
            return accumulator.results(value)


@define(kw_only=True)
class WindowParticipant(StateParticipant):
    """``window``: adds the rows of the batch to windows, at the time of its transaction.

    Attributes:
        inputs: the fields of the stored rows.
        outputs: the fields of the results.
    """

    updater: WindowUpdater
    inputs: Sequence[str]
    outputs: Sequence[str]
    _next_at: int | None = field(default=None, init=False)

    def next_window_at(self) -> int | None:
        """Return the next end after the last transaction."""
        return earliest([self._next_at, super().next_window_at()])

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Raise the state's fence, and read the stored windows."""
        recovered = super().recover(topology, epoch)
        self._next_at = self.updater.next_window_at(self._rows)
        return recovered

    def _change(self, tx: SinkTransaction, columns: Columns) -> list[tuple[Any, ...]]:
        collector = UpdateCollector(f"state {self.name!r}, attempt {tx.attempt}", self.outputs)
        rows = list(map(row_class(tuple(self.inputs))._make, zip(*columns, strict=True)))
        self.updater.feed(self._rows, rows, tx.time, collector)
        self._next_at = self.updater.next_window_at(self._rows)
        return collector.rows

    def try_commit(self, tx: SinkTransaction, receipt: Any) -> bool:
        """Do nothing: rows only wait here, and what fails when a window fires isn't the batch's."""
        return True

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        if not tx.attempt.is_trial:
            super().apply(tx, rows)

    def _look_again(self) -> None:
        self._next_at = self.updater.next_window_at(self._rows)

    @property
    def _rows(self) -> MapState[bytes]:
        if isinstance(self.state, MapState):
            return self.state
        raise AssertionError(f"state {self.name!r} was not checked")


@frozen(kw_only=True)
class WindowState(Output):
    """``window``: the state that stores rows; its new values are the results of the windows that fire.

    Attributes:
        name: its durable name.
        factory: makes the state.
        keys: the fields with a window for each of their values; empty: a single window.
        emits_keys: whether results begin with the values of ``keys``.
        in_fields: the fields that the aggregator may read.
        call: the aggregator.
        tag: the field with the transaction of a row, before the stored fields, in a shared job; else empty.
    """

    title: str
    name: str
    factory: StateFactory
    window: Window
    keys: tuple[str, ...]
    emits_keys: bool
    in_fields: tuple[str, ...]
    call: AggregateCall
    tag: str = ""

    kind: ClassVar[str] = "window"
    is_repeatable: ClassVar[bool] = False  # the windows that a batch fires depend on the time of its commit

    @property
    def fixed(self) -> frozenset[str]:
        """The facts that the stored rows depend on."""
        return frozenset({"window", "fields"})

    @property
    def details(self) -> dict[str, Json]:
        return dict(self.factory.details())

    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """Return the window, its keys and fields, the aggregator, and the facts of the factory."""
        if self.factory.volatile:
            return {}
        made_of: dict[str, Json] = {
            "kind": class_names(self.factory),
            "window": self.window.slug,
            "keys": fields_text(select(source, self.keys)),
            "fields": fields_text(self.fields(source)),
        }
        return {**made_of, **self.call.identity, **self.factory.identity()}

    def described(self) -> str:
        return described_state(self.factory, self.title)

    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        downstream, following = place.downstream(context)
        return WindowParticipant(
            name=self.name,
            state=made(self.typed(place.source), context.config, context.metrics),
            updater=self.updater(place.source),
            inputs=place.fields.names,
            outputs=self.output([place.source]).names,
            downstream=downstream,
            downstream_outputs=following,
        )

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the aggregator's results, after the keys if these are emitted, and before the window's bounds."""
        (source,) = inputs
        keys, (_, results) = select(source, self.keys), self._seen_and_results(source)
        check_comparable(keys)
        self.typed(source)
        found = append(keys, results) if self.emits_keys else results
        return append(found, BOUNDS) if self._emits_bounds(found) else found

    def _emits_bounds(self, results: StructType) -> bool:
        """Return whether results have the bounds: windows by time have them, unless the aggregator has such fields."""
        return self.window.is_timed and not {name.lower() for name in results.names} & set(BOUNDS.names)

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> WindowState:
        return evolve(self, tag=field.name)

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return the fields that are stored."""
        return inputs[0].select(self._tagged(inputs[0].schema))

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        (flow,) = inputs
        return flow.then(project_step(flow.schema, self._tagged(flow.schema)))

    def _tagged(self, source: StructType) -> list[str]:
        return [*([self.tag] if self.tag else []), *self.fields(source).names]

    def fields(self, source: StructType) -> StructType:
        """Return the fields of the stored rows."""
        seen, _ = self._seen_and_results(source)
        # Rows without any field can't be counted.
        return select(source, list(dict.fromkeys([*self.keys, *seen.names])) or self.in_fields[:1])

    def typed(self, source: StructType) -> StateFactory:
        """Return the factory with the types of the stored data.

        Raises:
            StateError: the state can't hold such data.
        """
        return self.factory.for_fields(KEYS, WindowRows(self.window, self.fields(source)).value)

    def updater(self, source: StructType) -> WindowUpdater:
        """Return the updater that feeds the state with rows of the fields `fields`."""
        seen, results = self._seen_and_results(source)
        keys = select(source, self.keys) if self.emits_keys else StructType()
        return WindowUpdater(
            title=self.title,
            rows=WindowRows(self.window, self.fields(source)),
            keys=self.keys,
            emits_keys=self.emits_keys,
            emits_bounds=self._emits_bounds(StructType([*keys.fields, *results.fields])),
            call=self.call,
            seen=tuple(seen.names),
        )

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
) -> WindowState:
    """Make a window, after the checks that need no knowledge of the input."""
    if not isinstance(window, Window):
        raise TopologyError(
            f"a window is a TumblingCount, SlidingCount, TumblingDuration or SlidingDuration, not {shown(window)}"
        )
    if factory.kind is not StateKind.FENCED:
        raise TopologyError(f"a window needs a fenced state, as SQLiteState or PostgresState, and {factory!r} is none")
    call = schema_call(aggregator, out)
    names = names_of(in_fields) or call.in_fields
    if not names:
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
    )
