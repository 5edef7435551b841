"""States that keep rows or values until a time has come: of windows, joins over time, and functions with timers."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Self

from attrs import evolve, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.event_time import PARTITION, EventTime, described_times, watermark_details
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import Node, RowFlow, RowWise
from trident_py.graph.output import Output, OutputPlace, described_state
from trident_py.graph.outputs import NewValues
from trident_py.graph.timed_participants import TaskedTimedParticipant, TimedParticipant
from trident_py.graph.timed_updater import VALUES, KeyGroups, TimedUpdater
from trident_py.graph.tracing import carry, traced, with_partition
from trident_py.interfaces.states import TASKS, StateFactory, StateKind, TaskedState
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Participant
from trident_py.rows.schema import append, schema_of
from trident_py.states.shards import made
from trident_py.windows.key_groups import GROUPS
from trident_py.windows.window_store import KEYS

_LATE = schema_of("late_reason string, late_watermark timestamp")
"""The last fields of late rows: the reason, and the watermark that the row was compared with."""

log = logging.getLogger(__name__)


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
    def groups(self) -> int:
        """The number of groups of keys, in which tasks change the state; 1: all keys are together."""
        return GROUPS if self.factory.placement == TASKS else 1

    @property
    def stored_identity(self) -> dict[str, Json]:
        """The facts of the factory, and of how it is used, that the stored data depends on."""
        return {"groups": self.groups, **self.factory.identity()}

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
        state = made(self.typed(place.source), context.config, context.metrics)
        late = [each.operation.fields for each in origins if isinstance(each.operation, LateRows)]
        made_of: dict[str, Any] = {
            "name": self.name,
            "state": state,
            "groups": KeyGroups(self.updater(place.source), place.fields, self.groups),
            "outputs": VALUES if self.times else place.emits.names,
            "kind": self.kind,
            "metrics": context.metrics,
            "drops_late": bool(self.times) and not late,
            "downstream": downstream,
            "downstream_outputs": following,
        }
        if isinstance(state, TaskedState) and place.by_tasks and context.spark:
            return TaskedTimedParticipant(**made_of, streams=[place.emits, *late[:1]], spark=context.spark)
        return TimedParticipant(**made_of)

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

    def typed(self, source: StructType) -> StateFactory:
        """Return the factory with the types of the stored data.

        Raises:
            StateError: the state can't hold such data.
        """
        value = self.value_field(source)
        if self.groups > 1:
            value = StructField(f"{value.name}_{self.groups}", value.dataType, value.nullable)
        return self.factory.for_fields(KEYS, value)

    @abstractmethod
    def value_field(self, source: StructType) -> StructField:
        """Return the value field of the state; its name tells the facts that the stored data depends on."""

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
