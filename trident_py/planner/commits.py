"""What takes part in commits, as it is run: states and sinks, and what follows a state's new values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.attempt import TransactionAttempt
from trident_py.graph.aggregation import Aggregation
from trident_py.graph.flow import project_step
from trident_py.graph.graph import Graph, Node
from trident_py.graph.outputs import AggregateState, UpdatedState, WrittenSink, renamed_keys
from trident_py.graph.partitioning import fields_before, hint_before
from trident_py.graph.rowwise import RowOperation
from trident_py.graph.sample import Sample
from trident_py.graph.windowing import WindowState, WindowUpdater
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.interfaces.states import StateFactory, StateKind, StateUpdater
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import arrow_table, select
from trident_py.worker.pipeline import RowPipeline


@frozen(kw_only=True)
class CommitStream:
    """What follows ``new_values_stream()``: rows on the driver, in the commit phase.

    Attributes:
        pipeline: the row operations up to where the stream ends, forks or is aggregated.
        aggregation: of what the pipeline gives, if it is aggregated there.
        persist: the state that takes the rows there, if one does.
        streams: the ways on, where the stream forks or was aggregated.
    """

    pipeline: RowPipeline
    aggregation: Aggregation | Sample | None = None
    persist: PartitionPersist | PersistentAggregate | None = None
    streams: tuple[CommitStream, ...] = ()

    def rows(self, values: Sequence[Sequence[Any]], batch_id: TransactionAttempt | None = None) -> list[Row]:
        """What becomes of ``values``: the rows for ``persist``, or for each of ``streams``."""
        if self.aggregation is None:
            return self.pipeline.rows(values)
        stage = self.aggregation.on_driver(self.pipeline, batch_id)
        batches = arrow_table(values, self.pipeline.source).to_batches()
        return [row for batch in stage(batches) for row in rows_of(batch)]


@frozen(kw_only=True)
class PersistentAggregate:
    """Aggregates into a state, one value for each key.

    Attributes:
        name: under which it is known, durably.
        factory: makes the state; knows the types already.
        keys: the group fields; none: one value in all.
        inputs: what a reducer sees of each row; empty for a combiner.
        out: the value.
        fields: what the branch's frame has: the keys, then the partial value of a combiner, one row a key (ungrouped:
            exactly one row), or the inputs of a reducer, one row for each. A key that is also an input comes twice,
            first as ``_key_<name>``.
        new_values: what follows; its rows are the keys and the value.
        parts: how many states the factory makes, each for keys of its own.
    """

    name: str
    factory: StateFactory
    aggregator: CombinerAggregator[Any] | ReducerAggregator[Any]
    keys: StructType
    inputs: StructType
    out: StructField
    fields: StructType
    new_values: CommitStream | None
    parts: int = 1


@frozen(kw_only=True)
class PartitionPersist:
    """Hands a batch to a user's updater, or to that of a window.

    Attributes:
        name: under which it is known, durably.
        fields: what the branch's frame has, and the updater sees of each row.
        out_schema: what the updater emits; None: nothing.
        new_values: what follows; its rows are what the updater emitted.
        parts: how many states the factory makes, each for rows of its own.
        places: positions of the fields that say which part a row is for.
    """

    name: str
    factory: StateFactory
    updater: StateUpdater[Any] | WindowUpdater
    fields: StructType
    out_schema: StructType | None
    new_values: CommitStream | None
    parts: int = 1
    places: tuple[int, ...] = ()


@frozen(kw_only=True)
class SinkWrite:
    """Writes a batch to a two-phase sink.

    Attributes:
        name: under which it is known, durably.
        fields: what the branch's frame has.
    """

    name: str
    sink: TransactionalSink[Any]
    fields: StructType


Committer = PersistentAggregate | PartitionPersist | SinkWrite

Persist = TypeVar("Persist", PersistentAggregate, PartitionPersist)


def committer(graph: Graph, node: Node) -> Committer:
    """What takes the rows of ``node``, which is an `Ending` with known fields."""
    operation, source = node.operation, node.inputs[0].schema or StructType()
    match operation:
        case AggregateState():
            return _in_parts(graph, node, _persistent_aggregate(operation, source, _new_values(graph, node)))
        case UpdatedState() | WindowState():
            return _in_parts(graph, node, _partition_persist(operation, source, _new_values(graph, node)))
        case WrittenSink():
            return SinkWrite(name=operation.name, sink=operation.sink, fields=source)
    raise AssertionError(f"{operation.title} ends no branch")


def state_parts(graph: Graph, node: Node) -> int:
    """As many parts as were asked for; a fenced state is one, so that a batch is in it or not."""
    operation = node.operation
    if not isinstance(operation, AggregateState | UpdatedState) or operation.factory.kind is StateKind.FENCED:
        return 1
    parts = graph.parts.get(operation.name, 0)
    if isinstance(operation, AggregateState):
        return max(1, parts) if operation.aggregation.keys else 1
    return parts or hint_before(node.inputs[0]) or 1


def _in_parts(graph: Graph, node: Node, persist: Persist) -> Persist:
    parts = state_parts(graph, node)
    if isinstance(persist, PersistentAggregate) or persist.factory.kind is StateKind.FENCED:
        return evolve(persist, parts=parts)
    fields, names = fields_before(node.inputs[0]), persist.fields.names
    by = fields if fields and set(fields) <= set(names) else names
    return evolve(persist, parts=parts, places=tuple(map(names.index, by)))


def _persistent_aggregate(
    operation: AggregateState, source: StructType, new_values: CommitStream | None
) -> PersistentAggregate:
    fields = operation.aggregation.fields(source)
    reduces = isinstance(operation.aggregator, ReducerAggregator)
    inputs = fields.seen if reduces else StructType()
    return PersistentAggregate(
        name=operation.name,
        factory=operation.typed(fields),
        aggregator=operation.aggregator,
        keys=fields.keys,
        inputs=inputs,
        out=fields.results.fields[0],
        fields=StructType([*renamed_keys(fields).fields, *inputs.fields]) if reduces else fields.target,
        new_values=new_values,
    )


def _partition_persist(
    operation: UpdatedState | WindowState, source: StructType, new_values: CommitStream | None
) -> PartitionPersist:
    if isinstance(operation, WindowState):
        return PartitionPersist(
            name=operation.name,
            factory=operation.typed(source),
            updater=operation.updater(source),
            fields=operation.kept(source),
            out_schema=operation.output([source]),
            new_values=new_values,
        )
    return PartitionPersist(
        name=operation.name,
        factory=operation.factory,
        updater=operation.updater,
        fields=select(source, operation.in_fields),
        out_schema=operation.out_schema,
        new_values=new_values,
    )


def _new_values(graph: Graph, state: Node) -> CommitStream | None:
    streams = [_commit_stream(graph, each, RowPipeline(each.schema or StructType())) for each in graph.consumers(state)]
    if len(streams) <= 1:
        return streams[0] if streams else None
    return CommitStream(pipeline=RowPipeline(state.schema or StructType()), streams=tuple(streams))


def _commit_stream(graph: Graph, node: Node, pipeline: RowPipeline) -> CommitStream:
    following = graph.consumers(node)
    if len(following) == 1:
        return _followed(graph, following[0], pipeline)
    streams = tuple(_followed(graph, each, RowPipeline(pipeline.target)) for each in following)
    return CommitStream(pipeline=pipeline, streams=streams)


def _followed(graph: Graph, node: Node, pipeline: RowPipeline) -> CommitStream:
    operation, source = node.operation, pipeline.target
    if isinstance(operation, RowOperation):
        return _commit_stream(graph, node, pipeline.then(operation.step(source)))
    if isinstance(operation, Aggregation | Sample):
        onward = _commit_stream(graph, node, RowPipeline(operation.output([source])))
        return CommitStream(pipeline=pipeline, aggregation=operation, streams=(onward,))
    if isinstance(operation, AggregateState):
        return _aggregated(graph, node, operation, pipeline)
    if not isinstance(operation, UpdatedState | WindowState):
        raise AssertionError(f"{operation.title} can't run in the commit phase")
    persist = _in_parts(graph, node, _partition_persist(operation, source, _new_values(graph, node)))
    return CommitStream(pipeline=pipeline.then(project_step(source, persist.fields.names)), persist=persist)


def _aggregated(graph: Graph, node: Node, operation: AggregateState, pipeline: RowPipeline) -> CommitStream:
    """Rows on the driver into the frame that `PersistentAggregate` describes."""
    persist = _in_parts(graph, node, _persistent_aggregate(operation, pipeline.target, _new_values(graph, node)))
    if isinstance(operation.aggregator, CombinerAggregator):
        return CommitStream(pipeline=pipeline, aggregation=operation.aggregation, persist=persist)
    return CommitStream(pipeline=pipeline.then(operation.reduced(pipeline.target)), persist=persist)
