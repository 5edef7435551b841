"""Branches that Python runs by itself, over rows that are on the driver."""

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
"""Has a state answer: runs what leads there, and gives the rows with the answers."""


def rows_of_branch(
    branch: Branch, given: Mapping[str, Iterable[pa.RecordBatch]], batch_id: TransactionAttempt, ask: AskRows
) -> RowFlow:
    """Return what ``branch`` makes of a batch, as `Branch.build` says it to Spark.

    It runs nothing but what ``ask`` does, and what several of its ways begin with: that runs once.

    Args:
        branch: one of a plan in which nothing needs Spark.
        given: the rows of each of its spouts.
        batch_id: what an `Aggregator` is told.
        ask: carries out a ``state_query``.

    Raises:
        NeedsSpark: something of it does.
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
    """Return what tells ``node`` from others: hints make a copy of it for each way that leads there."""
    return node if node.number < 0 else node.number


def spark_needed(planned: Plan) -> str | None:
    """Return what was declared that only Spark can do, the first of it; None: nothing. Runs nothing.

    Raises:
        TopologyError: a function can't be copied, so it couldn't travel to a task.
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
        raise TopologyError(f"it can't travel to tasks: {type(error).__name__}: {error}") from error
    return flow
