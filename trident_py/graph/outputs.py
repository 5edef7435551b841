"""The declared ends of branches: states and sinks, and the stream of a state's new values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from attrs import evolve, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.aggregation import AggregatedFields, Aggregation
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import Engine, Graph, Node, Operation, Phase, RowFlow, RowWise
from trident_py.graph.output import Output, OutputPlace, described_state, output_of, state_identity
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.sinks import RowsSink, TransactionalSink
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import (
    DRIVER,
    TASKS,
    FencedState,
    StagingState,
    StateFactory,
    StateKind,
    StateUpdater,
    TaskedState,
)
from trident_py.operations.builtin import SparkAggregator
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Participant, SinkParticipant
from trident_py.participants.states import AggregateParticipant, StagedParticipant, UpdateParticipant
from trident_py.participants.tasked import TaskedAggregateParticipant, TaskedUpdateParticipant
from trident_py.rows.schema import fields_text, select, shown
from trident_py.spark.frames import column
from trident_py.states.shards import made
from trident_py.states.sql.dialect import Database
from trident_py.states.sql.factory import SQLState
from trident_py.states.sql.fenced_table import TableSink
from trident_py.worker.pipeline import ProjectStep, Step


@frozen(kw_only=True)
class AggregateState(Output):
    """``persistent_aggregate``."""

    title: str
    name: str
    factory: StateFactory
    aggregator: CombinerAggregator[Any] | ReducerAggregator[Any]
    aggregation: Aggregation

    kind: ClassVar[str] = "state"

    def engine(self, inputs: Sequence[Node]) -> Engine:
        return self.aggregation.engine(inputs)

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> AggregateState | None:
        """Return the state with partial values, or rows to reduce, by transaction."""
        keyed = self.aggregation.keyed(field, source)
        return evolve(self, aggregation=keyed) if keyed else None

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the fields of the new values: keys and value."""
        fields = self.aggregation.fields(inputs[0])
        self.typed(fields)
        return fields.target

    @property
    def fixed(self) -> frozenset[str]:
        """The fixed words of `identity`, which a user can't accept changes of: ``keys`` and ``value`` of typed columns.

        A state with typed columns compares their types itself.
        """
        return frozenset({"keys", "value"}) if self.factory.lacks_fields else frozenset()

    @property
    def details(self) -> dict[str, Json]:
        return dict(self.factory.details())

    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """Return the fields, the aggregator, and the facts of the factory."""
        fields = self.aggregation.fields(source)
        (part,) = self.aggregation.calls
        made_of = {"keys": fields_text(fields.keys), "value": fields_text(fields.results), **part.identity}
        return state_identity(self.factory, made_of, shards)

    def described(self) -> str:
        return described_state(self.factory, self.title)

    def shards(self, asked: int, hinted: int) -> int:
        """Return the number that was asked for; a fenced state has one shard, so that a batch is applied as a whole."""
        return max(1, asked) if self.aggregation.keys and self.factory.kind is not StateKind.FENCED else 1

    def nothing(self, source: StructType) -> Callable[[], Any] | None:
        """Return the aggregator's zero if the state has a single combined value; else None."""
        whole = isinstance(self.aggregator, CombinerAggregator) and not self.aggregation.keys
        return self.aggregator.zero if whole and isinstance(self.aggregator, CombinerAggregator) else None

    def fields(self, source: StructType) -> StructType:
        """Return the keys, then a combiner's partial value (a row per key), or a reducer's input (all rows).

        Without groups, a combiner has exactly one row. A key that a reducer also reads comes twice, first as
        ``_key_<name>``.
        """
        fields = self.aggregation.fields(source)
        if isinstance(self.aggregator, CombinerAggregator):
            return fields.target
        return StructType([*renamed_keys(fields).fields, *fields.seen.fields])

    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        """Make a state for which tasks stage the changes, if it supports that; else one that the driver changes."""
        downstream, following = place.downstream(context)
        fields, aggregator = self.aggregation.fields(place.source), self.aggregator
        state, keys = made(self.typed(fields), context.config, context.metrics, place.shards), len(fields.keys.fields)
        if isinstance(state, FencedState):
            state.tells_rolled_back = place.new_values is not None and bool(place.new_values.replacing)
        combines = isinstance(aggregator, CombinerAggregator)
        made_of: dict[str, Any] = {
            "name": self.name,
            "state": state,
            "aggregator": aggregator,
            "keys": keys,
            "inputs": () if combines else fields.seen.names,
            "output": fields.target,
            "downstream": downstream,
            "downstream_outputs": following,
        }
        if isinstance(state, StagingState) and place.by_tasks:
            merges = downstream is None and state.merges(aggregator)
            if isinstance(state, TaskedState) and context.spark and not merges:
                return TaskedAggregateParticipant(**made_of, spark=context.spark)
            if combines and downstream is None:
                return StagedParticipant(**made_of)
        return AggregateParticipant(**made_of)

    def typed(self, fields: AggregatedFields) -> StateFactory:
        """Return the factory with these types.

        Raises:
            StateError: the state can't hold values of these types.
        """
        return self.factory.for_fields(fields.keys, fields.results.fields[0])

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Build a partial value for each key, or the rows to reduce."""
        (flow,) = inputs
        if isinstance(self.aggregator, CombinerAggregator):
            return self.aggregation.unordered(inputs, batch_id)
        fields = self.aggregation.fields(flow.schema)
        keys = renamed_keys(fields)
        narrowed, aggregator = flow.select(fields.needed), self.aggregator
        if isinstance(aggregator, SparkAggregator):
            names = self.aggregation.keys
            narrowed = narrowed.replaced(lambda frame: aggregator.needed_rows(frame, names), narrowed.schema)
        if narrowed.schema.names == [*keys.names, *fields.seen.names]:
            return narrowed
        columns = [
            *(column(key).alias(name) for key, name in zip(fields.keys.names, keys.names, strict=True)),
            *map(column, fields.seen.names),
        ]
        schema = StructType([*keys.fields, *fields.seen.fields])
        return narrowed.replaced(lambda frame: frame.select(*columns), schema)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        if isinstance(self.aggregator, CombinerAggregator):
            return self.aggregation.unordered_on_rows(inputs, batch_id)
        (flow,) = inputs
        return flow.then(self.reduced(flow.schema))

    def reduced(self, source: StructType) -> Step:
        """Return the step to the keys, followed by the reducer's input."""
        fields = self.aggregation.fields(source)
        return ProjectStep(
            title=self.title,
            source=tuple(source.names),
            in_fields=(*fields.keys.names, *fields.seen.names),
            target=self.fields(source),
        )


def renamed_keys(fields: AggregatedFields) -> StructType:
    """Return the keys under names that the inputs don't have."""
    return StructType(
        [
            StructField(f"_key_{key.name}" if key.name in fields.seen.names else key.name, key.dataType, key.nullable)
            for key in fields.keys.fields
        ]
    )


@frozen(kw_only=True)
class UpdatedState(Output):
    """``partition_persist``."""

    title: str
    name: str
    factory: StateFactory
    updater: StateUpdater[Any]
    in_fields: tuple[str, ...]
    out_schema: StructType | None

    kind: ClassVar[str] = "state"

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> UpdatedState:
        return evolve(self, in_fields=(field.name, *self.in_fields))

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the fields of the new values, which the updater emits."""
        select(inputs[0], self.in_fields)
        return self.out_schema or StructType()

    @property
    def details(self) -> dict[str, Json]:
        return dict(self.factory.details())

    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """Return the updater, its input fields, and the facts of the factory."""
        updated = {"updater": class_names(self.updater), "fields": fields_text(self.fields(source))}
        return state_identity(self.factory, updated, 1 if self.factory.placement == TASKS else shards)

    def described(self) -> str:
        return described_state(self.factory, self.title)

    def shards(self, asked: int, hinted: int) -> int:
        """Return the number of shards: as asked for, else the parallelism hint, else 1; a fenced state has one."""
        is_one = self.factory.kind is StateKind.FENCED and self.factory.placement == DRIVER
        return 1 if is_one else asked or hinted or 1

    def fields(self, source: StructType) -> StructType:
        return select(source, self.in_fields)

    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        """Make the participant with a state that the updater changes.

        With several shards, rows of one partition belong to one of them.
        """
        downstream, following = place.downstream(context)
        names = place.fields.names
        by = place.spread_by if place.spread_by and set(place.spread_by) <= set(names) else names
        in_tasks = self.factory.placement == TASKS
        state = made(self.factory, context.config, context.metrics, 1 if in_tasks else place.shards)
        made_of: dict[str, Any] = {
            "name": self.name,
            "state": state,
            "updater": self.updater,
            "inputs": names,
            "output": self.out_schema or StructType(),
            "places": tuple(map(names.index, by)),
            "parts": place.shards if in_tasks else 1,
            "downstream": downstream,
            "downstream_outputs": following,
        }
        if isinstance(state, TaskedState) and place.by_tasks and context.spark:
            return TaskedUpdateParticipant(**made_of, spark=context.spark)
        return UpdateParticipant(**made_of)

    def __attrs_post_init__(self) -> None:
        if self.factory.lacks_fields:
            raise TopologyError(f"{self.factory!r} keeps typed columns; use it with persistent_aggregate")
        if not self.in_fields:
            raise TopologyError("name at least one field for the updater to see")

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        return inputs[0].select(self.in_fields)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        (flow,) = inputs
        return flow.then(project_step(flow.schema, self.in_fields))


@frozen(kw_only=True)
class WrittenSink(Output):
    """``write_to``."""

    title: str
    name: str
    sink: TransactionalSink[Any]

    kind: ClassVar[str] = "sink"
    passes_rows: ClassVar[bool] = True

    @property
    def database(self) -> Database | None:
        return self.sink.database if isinstance(self.sink, TableSink) else None

    @property
    def needs_exact_replays(self) -> bool:
        return self.sink.needs_exact_replays

    def replaces(self, stream: Node) -> bool:
        """Return whether ``stream`` has a state's new values by the sink's keys, including rolled back keys."""
        return replaces(self.sink, stream)

    @property
    def keeps_token(self) -> bool:
        return self.sink.keeps_token

    @property
    def details(self) -> dict[str, Json]:
        return dict(self.sink.details())

    def fields(self, source: StructType) -> StructType:
        return source

    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """Return the class, the fields, and the facts of the sink."""
        return {"kind": class_names(self.sink), "fields": fields_text(source), **self.sink.identity()}

    def described(self) -> str:
        return type(self.sink).__name__

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> WrittenSink | None:
        """Return the same output if the sink accepts rows on the driver: it then gets those of one transaction."""
        return self if isinstance(self.sink, RowsSink) else None

    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        return SinkParticipant(self.name, self.sink, place.source, context.spark.running if context.spark else None)

    def output(self, inputs: Sequence[StructType]) -> StructType:
        self.sink.check_fields(inputs[0])
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        return inputs[0]


@frozen
class NewValues(Operation):
    """``new_values_stream``: the rows that a state emits while it commits, such as the results of windows."""

    title: str

    begins: ClassVar[Phase] = Phase.COMMIT

    def origin(self, inputs: Sequence[StructType]) -> StructType:
        """Return the fields of the state's changes, which it emits at each commit."""
        return inputs[0]

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Raise an error: the rows are on the driver."""
        raise AssertionError(f"{self.title} runs in the commit phase")


def state_keys(state: Node) -> StructType | None:
    """Return the group fields of the values of ``state``; empty if it is not grouped.

    None if they are unknown.
    """
    source = state.inputs[0].schema if state.inputs else None
    if source is None or not isinstance(state.operation, AggregateState):
        return None
    return select(source, state.operation.aggregation.keys)


def replaces(sink: TransactionalSink[Any], stream: Node) -> bool:
    """Return whether ``stream`` has the new values, by the sink's keys, of a state that reports rolled back keys.

    If a replay has the same rows, the committed rows stay, so this is False. It is also False for a state with a
    ``ttl``: it can't distinguish keys that a rolled back attempt removed from keys that expired in it.
    """
    state = stream.inputs[0] if isinstance(stream.operation, NewValues) else None
    factory = state.operation.factory if state and isinstance(state.operation, AggregateState) else None
    keys = state_keys(state) if state and isinstance(factory, SQLState) and factory.ttl is None else None
    return bool(keys and set(sink.replaces_by) == set(keys.names)) and stream.replay is Replay.OPAQUE


def check_unshared(graph: Graph, factory: StateFactory) -> None:
    """Check that ``factory`` is a factory, and that no other state keeps its data in the same place.

    Raises:
        TopologyError: it isn't one, or another state does.
    """
    if not isinstance(factory, StateFactory):
        raise TopologyError(f"a state factory is an instance of StateFactory, not {shown(factory)}")
    used = [output.factory for output in map(output_of, graph.nodes) if output is not None]
    if factory.name and factory in used:
        raise TopologyError(f"there is a state {factory!r} already; it takes one stream, give this one its own")


def new_values(graph: Graph, title: str, state: Node) -> Node:
    """Declare the stream of the new values of ``state``.

    Raises:
        TopologyError: the state has no new values.
    """
    operation = state.operation
    if output_of(state) is None:
        raise TopologyError("nothing in this topology writes the state, so there are no new values")
    if isinstance(operation, UpdatedState) and operation.out_schema is None:
        raise TopologyError(f"{operation.title} declares no out_schema, so there are no new values")
    return graph.add(NewValues(title), state)
