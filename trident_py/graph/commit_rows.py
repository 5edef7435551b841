"""The rows behind a state's new values, made within its commit.

Python makes them on the driver, where they are, so that a small change needs no job; Spark makes what only it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
from attrs import define, frozen
from pyspark.sql import DataFrame, SparkSession

from coordinators.values.attempt import TransactionAttempt
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Node
from trident_py.graph.queries import StateQuery
from trident_py.graph.row_flow import NeedsSpark, RowFlow
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import CommitRows
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table
from trident_py.spark.frames import frame_of_rows, rows_of_frame
from trident_py.worker.counters import building, counting_at


@frozen
class CommitWay:
    """From the nodes that give new values to where the ways end.

    Attributes:
        origins: the nodes that give them.
        ends: the last node of each way.
        kept: the nodes whose rows are made before those of what follows: what several read, and what a state answers.
        by_spark: those whose operation only Spark can do.
    """

    origins: frozenset[Node]
    ends: tuple[Node, ...]
    kept: frozenset[Node]
    by_spark: frozenset[Node]

    @classmethod
    def of(cls, origins: Iterable[Node], ends: tuple[Node, ...]) -> CommitWay:
        """Return the ways between them."""
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
    """Tell whether Python can't do it; asked where the fields before it are known."""
    try:
        node.operation.on_rows([RowFlow.of((), each.fields, travels=False) for each in node.inputs], None)
    except NeedsSpark:
        return True
    return False


@define(kw_only=True)
class NodeRows:
    """The rows of one commit, by node.

    Attributes:
        session: None where nothing needs Spark.
        tables: the rows of the nodes that are kept, as far as they were made; at first those of the origins.
    """

    way: CommitWay
    context: ParticipantContext
    session: SparkSession | None
    attempt: TransactionAttempt
    tables: dict[Node, pa.Table]

    def table(self, node: Node) -> pa.Table:
        """Return what ``node`` gives, on the driver."""
        if node in self.way.kept:
            return self._kept(node)
        return _table(self._made(node))

    def frame(self, node: Node) -> DataFrame:
        """Return the same as a frame."""
        return self._flow(self._made(node)).native()

    def _kept(self, node: Node) -> pa.Table:
        if node not in self.tables:
            query = node.operation
            made = self._answered(query, node) if isinstance(query, StateQuery) else _table(self._made(node))
            self.tables[node] = made
        return self.tables[node]

    def _answered(self, query: StateQuery, node: Node) -> pa.Table:
        """Return what a state answers just now, on the thread that commits to it."""
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
            raise AssertionError("something behind new values needs Spark, and the topology runs without it")
        return Flow.of(frame_of_rows(self.session, made.table(), made.schema), made.schema)


def _table(made: RowFlow | Flow) -> pa.Table:
    return made.table() if isinstance(made, RowFlow) else rows_of_frame(made.native())


def _rows(made: RowFlow | Flow) -> RowFlow:
    return made if isinstance(made, RowFlow) else RowFlow.of(_table(made).to_batches(), made.schema, travels=False)


@frozen
class RowsOfEnd(CommitRows):
    """Those of the node in which a way ends."""

    rows: NodeRows
    end: Node

    def table(self) -> pa.Table:
        """Return them where they are: on the driver."""
        return self.rows.table(self.end)

    def frame(self) -> DataFrame:
        return self.rows.frame(self.end)
