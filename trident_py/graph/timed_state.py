"""States that keep rows or values until a time has come: of windows, joins over time, and functions with timers."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Self

from attrs import define, evolve, field, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.event_time import PARTITION, EventTime, described_times, watermark_details
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import Node, RowFlow, RowWise
from trident_py.graph.output import Output, OutputPlace, described_state
from trident_py.graph.outputs import NewValues
from trident_py.graph.tracing import carry, traced, with_partition
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import Columns, RemovableMapState, StateFactory, StateKind
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import CommitRows, Participant, earliest
from trident_py.participants.states import StateParticipant
from trident_py.rows.row import Row, row_class
from trident_py.rows.schema import append, schema_of
from trident_py.states.changes import UpdateCollector
from trident_py.states.shards import made

VALUES = ("is_late", "row")
"""The fields that an updater emits in event time: the row of the stream of late rows, or of the stream of results."""

_LATE = schema_of("late_reason string, late_watermark timestamp")
"""The last fields of late rows: the reason, and the watermark that the row was compared with."""

log = logging.getLogger(__name__)


class TimedUpdater(ABC):
    """Adds the rows of a batch to a state, and emits what follows from them, or from the time."""

    @abstractmethod
    def feed(
        self, state: RemovableMapState[bytes], tuples: Sequence[Row], time: int, collector: TridentCollector
    ) -> None:
        """Feed the rows of a batch (maybe none), at the time of its transaction, in milliseconds since 1970.

        In event time, emit `VALUES`.
        """

    @abstractmethod
    def next_window_at(self, state: RemovableMapState[bytes]) -> int | None:
        """Return the transaction time, in milliseconds since 1970, at which something is emitted without more rows.

        None if nothing is emitted by time.
        """

    def watermarks(self, state: RemovableMapState[bytes]) -> dict[str, float]:
        """Return each watermark, in seconds since 1970, by the name of its metric; none before the first row."""
        return {}


@define(kw_only=True)
class TimedParticipant(StateParticipant):
    """Feeds the rows of the batch to an updater, at the time of its transaction.

    Attributes:
        inputs: the fields of the rows.
        outputs: the fields of what the updater emits.
        kind: see `Output.kind`; for messages.
        metrics: receives the watermarks, in seconds since 1970.
        drops_late: whether there can be late rows, and no stream takes them.
    """

    updater: TimedUpdater
    inputs: Sequence[str]
    outputs: Sequence[str]
    kind: str
    metrics: Metrics = field(factory=Metrics)
    drops_late: bool = False
    _next_at: int | None = field(default=None, init=False)
    _has_told: bool = field(default=False, init=False)

    def next_window_at(self) -> int | None:
        """Return the next time after the last transaction."""
        return earliest([self._next_at, super().next_window_at()])

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Raise the state's fence, and read the stored times."""
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
                "%s %s, attempt %s: some late rows are left out, and nothing reads late_rows(); this is logged once",
                *(self.kind, self.name, tx.attempt),
            )

    def try_commit(self, tx: SinkTransaction, receipt: Any) -> bool:
        """Do nothing: rows only wait here, and what fails when their time has come isn't the batch's."""
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
class TimedState(Output):
    """A state that a `TimedUpdater` changes; its new values are what the updater emits.

    Attributes:
        name: its durable name.
        factory: makes the state.
        times: the event time of each input; empty: rows have the time of their transaction.
        tag: the field with the transaction of a row, before the stored fields, in a shared job; else empty.
    """

    title: str
    name: str
    factory: StateFactory
    times: tuple[EventTime, ...] = ()
    tag: str = ""

    is_repeatable: ClassVar[bool] = False  # what a batch emits depends on the time of its commit
    waits: ClassVar[bool] = True

    @property
    def event_time(self) -> EventTime | None:
        """The event time of the only input, or None."""
        return self.times[0] if self.times else None

    @property
    def details(self) -> dict[str, Json]:
        return {**self.factory.details(), **watermark_details(self.times)}

    def described(self) -> str:
        return described_state(self.factory, self.title) + (f", {described_times(self.times)}" if self.times else "")

    def traced(self, node: Node) -> Self:
        """Return the state for the rows of ``node``: its watermarks know the partitions of spouts, where possible."""
        streams = zip(self.times, self.streams(node), strict=True)
        return evolve(self, times=tuple(time.traced(traced(each)) for time, each in streams)) if self.times else self

    def streams(self, node: Node) -> tuple[Node, ...]:
        """Return the input that each of `times` belongs to; ``node`` is the input of the state."""
        return (node,)

    def settled(self, origins: Collection[Node]) -> Self:
        return evolve(self, times=tuple(each.carrying() for each in self.times))

    def at_end(self, node: Node) -> Node:
        return super().at_end(evolve(node, inputs=(self._carried(node.inputs[0]),)))

    def _carried(self, node: Node) -> Node:
        """Return the input ``node``, with rows that carry their partition if the watermark needs it."""
        return carry(node) if self.is_carrying else node

    @property
    def is_carrying(self) -> bool:
        """Whether rows of an input carry their partition."""
        return any(each.is_carrying for each in self.times)

    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        downstream, following = place.downstream(context)
        origins = place.new_values.origins if place.new_values else ()
        return TimedParticipant(
            name=self.name,
            state=made(self.typed(place.source), context.config, context.metrics),
            updater=self.updater(place.source),
            inputs=place.fields.names,
            outputs=VALUES if self.times else self.output([place.source]).names,
            kind=self.kind,
            metrics=context.metrics,
            drops_late=bool(self.times) and not reads_late(origins),
            downstream=downstream,
            downstream_outputs=following,
        )

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> Self:
        return evolve(self, tag=field.name)

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return the fields of the rows that the driver receives."""
        return inputs[0].select(self._tagged(inputs[0].schema))

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        (flow,) = inputs
        return flow.then(project_step(flow.schema, self._tagged(flow.schema)))

    def fields(self, source: StructType) -> StructType:
        """Return the fields of the rows that the driver receives: all, because late rows have them."""
        return StructType([each for each in self.carried_fields(source).fields if each.name != self.tag])

    def carried_fields(self, source: StructType) -> StructType:
        """Return ``source`` with the fields that are carried; it may have them already."""
        return with_partition(source) if self.is_carrying and PARTITION not in source.names else source

    def late_fields(self, source: StructType) -> StructType:
        """Return the fields of late rows.

        Raises:
            TopologyError: a field has the name of one that is added.
        """
        return append(source, _LATE)

    def _tagged(self, source: StructType) -> list[str]:
        return [*([self.tag] if self.tag else []), *self.fields(source).names]

    @abstractmethod
    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the fields of the results."""

    @abstractmethod
    def typed(self, source: StructType) -> StateFactory:
        """Return the factory with the types of the stored data.

        Raises:
            StateError: the state can't hold such data.
        """

    @abstractmethod
    def updater(self, source: StructType) -> TimedUpdater:
        """Return the updater that feeds the state with rows of the fields `fields`."""


@frozen
class TimedResults(NewValues):
    """The results by event time: of windows that fire, of a join, or of a function with timers."""

    def picked(self, values: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for is_late, row in values if not is_late]


@frozen
class LateRows(NewValues):
    """The late rows: those in no window, those that are not joined, and those that a function doesn't receive.

    Attributes:
        fields: see `TimedState.late_fields`.
    """

    fields: StructType

    def origin(self, inputs: Sequence[StructType]) -> StructType:
        return self.fields

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.fields

    def picked(self, values: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for is_late, row in values if is_late]


def late_rows(title: str, results: Node) -> LateRows:
    """Return the operation for the window, join or function with these results, the stream of ``results``.

    Raises:
        TopologyError: that is another stream, its fields are unknown, or one has the name of a field that is added.
    """
    if not isinstance(results.operation, TimedResults):
        raise TopologyError(
            "it follows a window or process with timestamp=, or a join with within=, directly: keep the stream that "
            "these return"
        )
    (state,) = results.inputs
    operation, source = state.operation, state.inputs[0].schema
    if not isinstance(operation, TimedState):
        raise AssertionError(f"{operation.title} has no late rows")
    if source is None:
        raise TopologyError(f"the fields before the {operation.kind} must be known: give transform its schema=")
    return LateRows(title, operation.late_fields(source))


def reads_late(origins: Iterable[Node]) -> bool:
    """Return whether one of these streams of new values is that of the late rows."""
    return any(isinstance(each.operation, LateRows) for each in origins)


def without_partition(rows: Sequence[Row]) -> list[Row]:
    """Return rows without their first field, in which they carry their partition."""
    if not rows:
        return []
    make = row_class(tuple(rows[0]._fields[1:]))._make
    return [make(row[1:]) for row in rows]


def check_fenced(factory: StateFactory, what: str) -> None:
    """Check that a state keeps a commit token with its data; ``what`` needs the state.

    Raises:
        TopologyError: it doesn't.
    """
    if factory.kind is not StateKind.FENCED:
        raise TopologyError(f"{what} needs a fenced state, as SQLiteState or PostgresState, and {factory!r} is none")


def check_keeps(factory: StateFactory, what: str) -> None:
    """Check that a state doesn't forget its data; ``what``, in the plural, needs the data.

    Raises:
        TopologyError: it does.
    """
    if factory.ttl:
        raise TopologyError(f"{factory!r} forgets what is stored after {factory.ttl}; {what} need it")
