"""The rows derived from a state's new values, computed within its commit.

Python computes them on the driver, so that a small change needs no job; Spark computes only what Python can't.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
from attrs import define, frozen
from pyspark.sql import DataFrame, SparkSession

from coordinators.values.attempt import TransactionAttempt
from trident_py.graph.flow import Flow
from trident_py.graph.graph import NeedsSpark, Node, RowFlow
from trident_py.graph.queries import StateQuery
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import CommitRows
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table
from trident_py.spark.frames import frame_of_rows, rows_of_frame
from trident_py.worker.counters import building, counting_at


@frozen
class CommitWay:
    """The part of the graph from the nodes that emit new values to the nodes at which its paths end.

    Attributes:
        origins: the nodes that emit new values.
        ends: the last node of each path.
        kept: the nodes with rows that are computed before those of their consumers: nodes with several consumers, and
            answers of states.
        by_spark: the nodes with operations that need Spark.
    """

    origins: frozenset[Node]
    ends: tuple[Node, ...]
    kept: frozenset[Node]
    by_spark: frozenset[Node]

    @classmethod
    def of(cls, origins: Iterable[Node], ends: tuple[Node, ...]) -> CommitWay:
        """Return the paths between them."""
        begun = frozenset(origins)
        nodes = _between(begun, ends)
        readers = Counter(each for node in nodes - begun for each in node.inputs)
        kept = {node for node in nodes if isinstance(node.operation, StateQuery) or readers[node] > 1}
        return cls(begun, ends, begun | kept, frozenset(node for node in nodes - begun if needs_spark(node)))


def _between(origins: frozenset[Node], ends: Iterable[Node]) -> frozenset[Node]:
    found, left = set[Node](), list(ends)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += [] if node in origins else node.inputs
    return frozenset(found)


def needs_spark(node: Node) -> bool:
    """Return whether Python can't run the operation; call it once the fields before it are known."""
    try:
        node.operation.on_rows([RowFlow.of((), each.fields, travels=False) for each in node.inputs], None)
    except NeedsSpark:
        return True
    return False


@define(kw_only=True)
class NodeRows:
    """The rows of one commit, by node.

    Attributes:
        session: the Spark session; None if no operation needs Spark.
        tables: the computed rows of the kept nodes; at first those of the origins.
    """

    way: CommitWay
    context: ParticipantContext
    session: SparkSession | None
    attempt: TransactionAttempt
    tables: dict[Node, pa.Table]

    def table(self, node: Node) -> pa.Table:
        """Return the output of ``node``, on the driver."""
        if node in self.way.kept:
            return self._kept(node)
        return _table(self._made(node))

    def frame(self, node: Node) -> DataFrame:
        """Return the output of ``node`` as a frame."""
        return self._flow(self._made(node)).native()

    def _kept(self, node: Node) -> pa.Table:
        if node not in self.tables:
            query = node.operation
            made = self._answered(query, node) if isinstance(query, StateQuery) else _table(self._made(node))
            self.tables[node] = made
        return self.tables[node]

    def _answered(self, query: StateQuery, node: Node) -> pa.Table:
        """Return the answer of a state at this moment, on its commit thread."""
        (asking,) = node.inputs
        rows = rows_of(self.table(asking))
        return arrow_table(query.answered(self.context.states[query.state], rows, asking.fields), node.fields)

    def _made(self, node: Node) -> RowFlow | Flow:
        inputs = [self._input(each) for each in node.inputs]
        name = f"node {node.number}"
        with building(name):
            counting_at(name)
            if node in self.way.by_spark:
                return node.operation.build([self._flow(each) for each in inputs], self.attempt)
            return node.operation.on_rows([_rows(each) for each in inputs], self.attempt)

    def _input(self, node: Node) -> RowFlow | Flow:
        if node in self.way.kept:
            return RowFlow.of(self._kept(node).to_batches(), node.fields, travels=False)
        return self._made(node)

    def _flow(self, made: RowFlow | Flow) -> Flow:
        if isinstance(made, Flow):
            return made
        if self.session is None:
            raise AssertionError("an operation after new values needs Spark, and the topology runs without it")
        return Flow.of(frame_of_rows(self.session, made.table(), made.schema), made.schema)


def _table(made: RowFlow | Flow) -> pa.Table:
    return made.table() if isinstance(made, RowFlow) else rows_of_frame(made.native())


def _rows(made: RowFlow | Flow) -> RowFlow:
    return made if isinstance(made, RowFlow) else RowFlow.of(_table(made).to_batches(), made.schema, travels=False)


@frozen
class RowsOfEnd(CommitRows):
    """The rows of the node at which a path ends."""

    rows: NodeRows
    end: Node

    def table(self) -> pa.Table:
        return self.rows.table(self.end)

    def frame(self) -> DataFrame:
        return self.rows.frame(self.end)
