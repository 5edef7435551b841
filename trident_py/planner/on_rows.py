"""Branches that Python runs without Spark, over rows on the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.graph import Node, Source
from trident_py.graph.queries import StateQuery
from trident_py.graph.row_flow import NeedsSpark, RowFlow
from trident_py.planner.plan import Branch, Plan
from trident_py.worker.counters import building

AskRows: TypeAlias = Callable[[StateQuery, RowFlow], RowFlow]
"""Queries a state: runs the operations before the query, and returns the rows with the answers."""


def rows_of_branch(
    branch: Branch, given: Mapping[str, Iterable[pa.RecordBatch]], batch_id: TransactionAttempt, ask: AskRows
) -> RowFlow:
    """Return the result of ``branch`` for a batch, as `Branch.build` does for Spark.

    It runs nothing except ``ask``, and the shared start of several paths, which runs once.

    Args:
        branch: a branch of a plan that needs no Spark.
        given: the rows of each of its spouts.
        batch_id: the batch id that an `Aggregator` receives.
        ask: runs a ``state_query``.

    Raises:
        NeedsSpark: an operation needs Spark.
    """
    flows: dict[Node | int, RowFlow] = {}
    read = Counter(map(_declared, branch.end.ancestry))

    def built(node: Node) -> RowFlow:
        known = _declared(node)
        if known not in flows:
            with building(f"node {node.number}"):
                made = flow_of(node)
                flows[known] = RowFlow.of(made.table().to_batches(), made.schema) if read[known] > 1 else made
        return flows[known]

    def flow_of(node: Node) -> RowFlow:
        if isinstance(node.operation, Source):
            return RowFlow.of(given[node.operation.tx_id], node.operation.schema)
        inputs = [built(each) for each in node.inputs]
        if isinstance(node.operation, StateQuery):
            return ask(node.operation, inputs[0])
        return node.operation.on_rows(inputs, batch_id)

    return built(branch.end)


def _declared(node: Node) -> Node | int:
    """Return the identity of ``node``: hints make a copy of a node for each path that leads to it."""
    return node if node.number < 0 else node.number


def spark_needed(planned: Plan) -> str | None:
    """Return the first declared operation that only Spark can run, or None. Runs nothing.

    Raises:
        TopologyError: a function can't be copied, so it couldn't be sent to a task.
    """
    graph, flows = planned.graph, dict[Node, RowFlow]()
    try:
        for node in graph.nodes:
            with graph.declaring(node.operation.title):
                flows[node] = _checked(node, [flows[each] for each in node.inputs])
    except NeedsSpark as needed:
        return str(needed)
    return None


def _checked(node: Node, inputs: list[RowFlow]) -> RowFlow:
    operation = node.operation
    fields = operation.origin([each.fields for each in node.inputs])
    if fields is not None:
        return RowFlow.of((), fields)
    flow = operation.on_rows(inputs, None)
    try:
        flow.made()
    except Exception as error:
        raise TopologyError(f"it can't be pickled into tasks: {type(error).__name__}: {error}") from error
    return flow
