"""The operations that read states: ``state_query``, static states, and streams of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql.types import StructType

from coordinators.protocol.messages import FailureKind
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.error_text import error_text
from trident_py.errors import StoreBusyException
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Engine, Graph, Node, Operation, Phase, RequestSource, RowFlow
from trident_py.graph.partitioning import hinted, is_placed
from trident_py.interfaces.states import QueryFunction, State, StateFactory, TaskReader
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import append, arrow_table, select
from trident_py.spark.frames import empty_frame, map_batches
from trident_py.states.shards import PartitionedState, gathered, spread
from trident_py.worker.failures import TaskFailed, TaskFailure
from trident_py.worker.pipeline import RowCollector, Step, Values

F = TypeVar("F", Flow, RowFlow)


@frozen(kw_only=True)
class QueryStep(Step):
    """Appends the values that a `QueryFunction` emits; on the driver, over all rows at once."""

    state: State
    function: QueryFunction[Any, Any]
    out: StructType
    makes_values: ClassVar[bool] = True

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        """Return a copy of the row for each emitted tuple, with its values appended."""
        args = list(views)
        results = (
            self._asked_in_parts(args) if isinstance(self.state, PartitionedState) else self._asked(self.state, args)
        )
        collector = RowCollector(self.title, self.out)
        made: list[Values] = []
        for row, view, result in zip(rows, args, results, strict=True):
            self.function.execute(view, result, collector)
            made.extend([(*row, *emitted) for emitted in collector.take()])
        return made

    def _asked_in_parts(self, args: list[Row]) -> Sequence[Any]:
        found = [
            (positions, self._asked(shard, [args[each] for each in positions]))
            for shard, positions in spread(self.state, args)
            if positions
        ]
        return gathered(found, len(args))

    def _asked(self, shard: State, args: list[Row]) -> Sequence[Any]:
        try:
            results = self.function.batch_retrieve(shard, args)
        except StoreBusyException as error:  # the queried state is unreachable, which is no failure of the batch
            raise TaskFailed(TaskFailure(kind=FailureKind.BUSY, text=error_text(error))) from error
        if len(results) != len(args):
            raise ValueError(
                f"{type(self.function).__name__}.batch_retrieve gave {len(results)} results for {len(args)} rows; it "
                f"must give one for each"
            )
        return results


@frozen(kw_only=True)
class StateQuery(Operation):
    """The operation ``state_query``: it appends to each row what ``function`` finds in a state.

    Attributes:
        state: the name of the state.
    """

    title: str
    state: str
    function: QueryFunction[Any, Any]
    in_fields: tuple[str, ...]
    out: StructType

    is_repeatable: ClassVar[bool] = False  # the answer of a state depends on the moment

    def engine(self, inputs: Sequence[Node]) -> Engine:
        return Engine.DRIVER

    @property
    def drawn(self) -> dict[str, Json]:
        return {**super().drawn, "asks": self.state}

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the input fields, and the fields that the query emits."""
        select(inputs[0], self.in_fields)
        return append(inputs[0], self.out)

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return no rows, only for Spark's analysis; the rows of a batch are queried while its job is built."""
        target = self.output([inputs[0].schema])
        return inputs[0].replaced(lambda frame: empty_frame(frame.sparkSession, target), target)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Return no rows, only for analysis; the rows of a batch are queried while it is processed."""
        return RowFlow.of((), self.output([inputs[0].schema]))

    def answered(self, state: State, rows: Sequence[Values], source: StructType) -> list[Values]:
        """Return the results for ``rows``, which have the fields of ``source``; call it when ``state`` may be read."""
        step = QueryStep(
            title=self.title,
            source=tuple(source.names),
            in_fields=self.in_fields,
            target=self.output([source]),
            state=state,
            function=self.function,
            out=self.out,
        )
        return step(rows)


@frozen
class QueryStage:
    """Answers a query for the rows of each partition, in a task.

    Attributes:
        source: the fields of the rows.
        reader: opens the state.
    """

    query: StateQuery
    source: StructType
    reader: TaskReader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as a function for ``DataFrame.mapInArrow``."""
        rows = [row for batch in batches for row in rows_of(batch)]
        if not rows:
            return
        with self.reader.opened() as state:
            answered = self.query.answered(state, rows, self.source)
        yield from arrow_table(answered, self.query.output([self.source])).to_batches()

    def over(self, flow: Flow) -> Flow:
        """Return ``flow`` with the answers."""
        target = self.query.output([self.source])
        return Flow.of(map_batches(flow.native(), self.source.names, self, target), target)


@frozen
class StaticState(Operation):
    """``new_static_state``: a state that the topology never writes."""

    title: str
    name: str
    factory: StateFactory

    begins: ClassVar[Phase] = Phase.COMMIT

    @property
    def drawn(self) -> dict[str, Json]:
        return {"kind": "static", "name": self.name}

    def origin(self, inputs: Sequence[StructType]) -> StructType:
        return StructType()

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return StructType()

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Raise an error: it emits no rows."""
        raise AssertionError(f"{self.title} is queried, not built")


@frozen
class RequestPlan:
    """The plan that answers requests of one function.

    Attributes:
        before: the nodes from the request to the first query of a state, each after its inputs.
        reading: the nodes from there to the last query; they see all states at the same transaction.
        after: the nodes after the last query; the very last node has the answer.
    """

    function: str
    before: tuple[Node, ...]
    reading: tuple[Node, ...]
    after: tuple[Node, ...]

    @property
    def answer(self) -> Node:
        """The node that has the answer."""
        return [*self.before, *self.reading, *self.after][-1]

    @property
    def states(self) -> frozenset[str]:
        """The names of the states that are queried."""
        return frozenset(node.operation.state for node in self.reading if isinstance(node.operation, StateQuery))

    @classmethod
    def of(cls, graph: Graph, function: str) -> RequestPlan:
        """Return the plan of ``function``; the last declared of its streams is the answer, as in Storm."""
        needed = set([node for node in graph.nodes if function in node.requests][-1].ancestry)
        nodes = [node for node in graph.nodes if node in needed]
        queries = [number for number, node in enumerate(nodes) if isinstance(node.operation, StateQuery)]
        first, last = (queries[0], queries[-1] + 1) if queries else (len(nodes), len(nodes))
        return cls(function, tuple(nodes[:first]), tuple(nodes[first:last]), tuple(nodes[last:]))


def requests(graph: Graph) -> tuple[RequestPlan, ...]:
    """Make a plan for each function."""
    sources = [node.operation for node in graph.nodes if isinstance(node.operation, RequestSource)]
    return tuple(RequestPlan.of(graph, source.function) for source in sources)


def state_queries(graph: Graph) -> list[tuple[StateQuery, Node]]:
    """Return all queries of states, for batches and requests, each with its node."""
    return [(node.operation, node.inputs[0]) for node in graph.nodes if isinstance(node.operation, StateQuery)]


def static_states(graph: Graph) -> list[StaticState]:
    """Return the states that the topology never writes."""
    return [node.operation for node in graph.nodes if isinstance(node.operation, StaticState)]


@frozen
class _Given(Operation):
    """Existing rows: the input of a job with this number."""

    title: str
    number: int
    schema: StructType

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.schema

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Raise an error: the rows exist already."""
        raise AssertionError(f"{self.title} is given, not built")


@frozen
class RequestJob(Operation):
    """An operation of a request, with the preceding ones that set partitions, which rows lose between jobs.

    Attributes:
        end: the operation's node; its inputs begin with the given rows.
        given: the nodes whose rows are its inputs.
    """

    title: str
    end: Node
    given: tuple[Node, ...]

    @classmethod
    def of(cls, node: Node) -> RequestJob:
        """Return the job that computes the rows of ``node``."""
        given: list[Node] = []
        inputs = tuple(_from_given(each, given) for each in node.inputs)
        return cls(node.operation.title, hinted(evolve(node, inputs=inputs)), tuple(given))

    def output(self, inputs: Sequence[StructType]) -> StructType | None:
        return self.end.schema

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        return _made(self.end, inputs, lambda operation, flows: operation.build(flows, batch_id))

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        return _made(self.end, inputs, lambda operation, flows: operation.on_rows(flows, batch_id))


def _made(node: Node, given: Sequence[F], make: Callable[[Operation, Sequence[F]], F]) -> F:
    """Compute ``node`` by calling ``make`` for each operation from the given rows on."""
    if isinstance(node.operation, _Given):
        return given[node.operation.number]
    return make(node.operation, [_made(each, given, make) for each in node.inputs])


def _from_given(node: Node, given: list[Node]) -> Node:
    if is_placed(node):
        return evolve(node, inputs=tuple(_from_given(each, given) for each in node.inputs))
    given.append(node)
    source = _Given(node.operation.title, len(given) - 1, node.schema or StructType())
    return evolve(node, operation=source, inputs=())
