"""What ends a branch, as it is declared: states and sinks, and the stream of a state's new values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, count
from typing import Any, ClassVar

from attrs import evolve, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.aggregation import AggregatedFields, Aggregation
from trident_py.graph.flow import Flow, project_step
from trident_py.graph.graph import Graph, Node, Operation, Phase, RowWise, Source
from trident_py.graph.queries import StaticState
from trident_py.graph.row_flow import RowFlow
from trident_py.graph.windowing import WindowState
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import StateFactory, StateUpdater
from trident_py.operations.builtin import SparkAggregator
from trident_py.rows.schema import select, shown
from trident_py.spark.frames import column
from trident_py.worker.steps import ProjectStep, Step


@frozen(kw_only=True)
class AggregateState(Operation):
    """``persistent_aggregate``."""

    title: str
    name: str
    factory: StateFactory
    aggregator: CombinerAggregator[Any] | ReducerAggregator[Any]
    aggregation: Aggregation

    runs_on_driver: ClassVar[bool] = True
    changes_states: ClassVar[bool] = True

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> AggregateState | None:
        """Its partial values, or rows to reduce, by transaction."""
        keyed = self.aggregation.keyed(field, source)
        return evolve(self, aggregation=keyed) if keyed else None

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """The new values: keys and value."""
        fields = self.aggregation.fields(inputs[0])
        self.typed(fields)
        return fields.target

    def typed(self, fields: AggregatedFields) -> StateFactory:
        """The factory that knows the types.

        Raises:
            StateError: the state can't hold them.
        """
        return self.factory.for_fields(fields.keys, fields.results.fields[0])

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """A partial value per key, or the rows to reduce."""
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
        """A partial value per key, or the rows to reduce."""
        if isinstance(self.aggregator, CombinerAggregator):
            return self.aggregation.on_rows(inputs, batch_id)
        (flow,) = inputs
        return flow.then(self.reduced(flow.schema))

    def reduced(self, source: StructType) -> Step:
        """Gives the keys, then what the reducer sees."""
        fields = self.aggregation.fields(source)
        return ProjectStep(
            title=self.title,
            source=tuple(source.names),
            in_fields=(*fields.keys.names, *fields.seen.names),
            target=StructType([*renamed_keys(fields).fields, *fields.seen.fields]),
        )


def renamed_keys(fields: AggregatedFields) -> StructType:
    """The keys, under names that the inputs don't have."""
    return StructType(
        [
            StructField(f"_key_{key.name}" if key.name in fields.seen.names else key.name, key.dataType, key.nullable)
            for key in fields.keys.fields
        ]
    )


@frozen(kw_only=True)
class UpdatedState(Operation):
    """``partition_persist``."""

    title: str
    name: str
    factory: StateFactory
    updater: StateUpdater[Any]
    in_fields: tuple[str, ...]
    out_schema: StructType | None

    runs_on_driver: ClassVar[bool] = True
    changes_states: ClassVar[bool] = True

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> UpdatedState:
        """Its rows, by transaction."""
        return evolve(self, in_fields=(field.name, *self.in_fields))

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """The new values: what the updater emits."""
        select(inputs[0], self.in_fields)
        return self.out_schema or StructType()

    def __attrs_post_init__(self) -> None:
        """Check what can be checked without knowing the input."""
        if self.factory.lacks_fields:
            raise TopologyError(f"{self.factory!r} keeps typed columns; use it with persistent_aggregate")
        if not self.in_fields:
            raise TopologyError("name at least one field for the updater to see")

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """The rows for the updater."""
        return inputs[0].select(self.in_fields)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """The rows for the updater."""
        (flow,) = inputs
        return flow.then(project_step(flow.schema, self.in_fields))


@frozen(kw_only=True)
class WrittenSink(Operation):
    """``write_to``."""

    title: str
    name: str
    sink: TransactionalSink[Any]

    changes_states: ClassVar[bool] = True

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """What is written."""
        self.sink.check_fields(inputs[0])
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """The stream itself."""
        return inputs[0]


Ending = AggregateState | UpdatedState | WindowState | WrittenSink
"""What ends a branch."""


@frozen
class NewValues(Operation):
    """``new_values_stream``: the rows that a state gives while it commits; what windows give when they fire."""

    title: str

    runs_on_driver: ClassVar[bool] = True
    begins: ClassVar[Phase] = Phase.COMMIT

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """The state's."""
        return inputs[0]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Never asked for: the rows are the driver's."""
        raise AssertionError(f"{self.title} runs in the commit phase")


def state_names(graph: Graph) -> set[str]:
    """The names of all states and sinks."""
    return {node.operation.name for node in graph.nodes if isinstance(node.operation, Ending | StaticState)}


def unused(wanted: str, taken: Collection[str]) -> str:
    """``wanted``, or the first of ``wanted-2``, ``wanted-3``, … that isn't taken."""
    names = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def state_name(graph: Graph, node: Node, label: str | None, kind: str, thing: object) -> str:
    """What a state or sink on the stream of ``node`` is called, which may have the name ``label``.

    The stream's name, else the state's own, else the spout's and ``kind``. What it keeps is stored under this name, so
    the order of declaration must not matter; numbered are those that keep nothing, and whoever shares a name with them.

    Raises:
        TopologyError: another one that keeps something wants to be called so.
    """
    own = thing.name if isinstance(thing, StateFactory) else ""
    name = label or own or default_name(node, kind)
    stored = unused(name, state_names(graph))
    if not _keeps(thing) or name not in {each for other in graph.nodes for each in _claimed(other)}:
        return stored
    raise TopologyError(
        f"there is a {kind} {name!r} already, and only the order of the two would tell whose the stored data are; give "
        f"each a name by Stream.name(…). Stored data are found by name({name!r}) for the one that was alone until now; "
        f"if both were there, in this order, by name({name!r}) for the first and name({stored!r}) for this one"
    )


def _keeps(thing: object) -> bool:
    return not (isinstance(thing, StateFactory) and thing.volatile)


def _claimed(node: Node) -> tuple[str, ...]:
    """What an output that keeps something is called, and what it would be called without a number."""
    operation = node.operation
    if not isinstance(operation, Ending):
        return ()
    if isinstance(operation, WrittenSink):
        return operation.name, node.label or default_name(node.inputs[0], "sink")
    if not _keeps(operation.factory):
        return ()
    kind = "window" if isinstance(operation, WindowState) else "state"
    return operation.name, node.label or operation.factory.name or default_name(node.inputs[0], kind)


def default_name(node: Node, kind: str) -> str:
    """What a state or sink on the stream of ``node`` is called if nobody names it."""
    return f"{'-'.join(node.spouts)}-{kind}"


def state_keys(state: Node) -> StructType | None:
    """The group fields that the values of ``state`` are kept by, empty: it is not grouped; None: nothing knows them."""
    source = state.inputs[0].schema if state.inputs else None
    if source is None or not isinstance(state.operation, AggregateState):
        return None
    return select(source, state.operation.aggregation.keys)


def check_writing(graph: Graph, node: Node, sink: TransactionalSink[Any]) -> None:
    """No other stream is written to ``sink``, and the spouts of ``node`` give the same rows again, if it needs that.

    What a state answers may be another thing when it is asked again: that is taken, as each row of a spout is still in
    one transaction.

    Raises:
        TopologyError: one is, or a spout doesn't.
    """
    for written in (each.operation for each in graph.nodes):
        if isinstance(written, WrittenSink) and written.sink is sink:
            raise TopologyError(f"this sink is {written.name!r} already; a sink takes one stream")
    if sink.needs_exact_replays:
        _check_replays(node, type(sink).__name__)


def _check_replays(node: Node, sink: str) -> None:
    for each in node.inputs:
        _check_replays(each, sink)
    if isinstance(node.operation, Source) and node.operation.spout.replay is not Replay.EXACT:
        raise TopologyError(
            f"spout {node.operation.tx_id!r} is {node.operation.spout.replay.value}: a replay may give other rows, and "
            f"{sink} keeps those that were committed first; use a spout with Replay.EXACT, or declare "
            f"that of this one where it holds"
        )


def check_unshared(graph: Graph, factory: StateFactory) -> None:
    """It is a factory, and no other state keeps its data where ``factory`` does.

    Raises:
        TopologyError: it isn't, or one does.
    """
    if not isinstance(factory, StateFactory):
        raise TopologyError(f"a state factory is an instance of StateFactory, not {shown(factory)}")
    states = [node.operation for node in graph.nodes if isinstance(node.operation, Ending)]
    used = [state.factory for state in states if not isinstance(state, WrittenSink)]
    if factory.name and factory in used:
        raise TopologyError(f"there is a state {factory!r} already; it takes one stream, give this one its own")
