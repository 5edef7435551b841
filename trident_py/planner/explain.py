"""The plan as text, from the graph alone: no session is needed."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import StructType

from trident_py.graph import Graph, Node, Operation, Source
from trident_py.planner.aggregation import Aggregation
from trident_py.planner.endings import AggregateState, Ending, UpdatedState, WrittenSink
from trident_py.planner.multi import MultiReduce
from trident_py.planner.plan import ancestry, ends_of
from trident_py.planner.rowwise import RowOperation
from trident_py.spouts.base import Replay
from trident_py.states.base import StateFactory

_REASONS = {
    "exactly-once": "data and commit token change in one atomic step, and older tokens are refused",
    StateFactory.guarantee: "data and txid are not one atomic step; the leadership is checked before the first",
}
_OPAQUE = (
    "at-least-once: a spout may give other rows when it replays a transaction that was written in part; exactly-once "
    "only if the state keeps previous values to undo that part, as OpaqueMap does"
)
_SINK = "exactly-once: attempts are staged apart, and data and commit token become visible in one atomic step"
_REPLAY = {Replay.EXACT: "a replay gives the same rows", Replay.OPAQUE: "opaque: a replay may give other rows"}
_WIDTH = 60


def explain(graph: Graph) -> str:
    """What runs where, and how often a row counts in each state."""
    sources = [node.operation for node in graph.nodes if isinstance(node.operation, Source)]
    ends = ends_of(graph)
    lines = [f"topology {graph.topology}", "", "spouts"]
    for source in sources:
        lines.append(f"  {source.tx_id}: {type(source.spout).__name__}, {_REPLAY[source.spout.replay]}")
        lines.append(f"      {_fields(source.schema)}")
    lines += ["", "processing phase: for each of these one Spark job, transactions side by side"]
    for name, node in ends:
        lines += [f"  {name}", *(f"      {line}" for line in _way(node))]
    lines += ["", "commit phase: on the driver, transactions in order"]
    committing = [node for _, node in ends if isinstance(node.operation, Ending)]
    for node in committing:
        lines += [f"  {line}" for line in _commit(graph, node)]
    return "\n".join(lines if committing else [*lines, "  nothing: commits acknowledge themselves"]) + "\n"


def _way(node: Node) -> Iterator[str]:
    """The operations from the spouts to ``node``, the last one last."""
    for before in node.inputs:
        yield from _way(before)
    if isinstance(node.operation, Source):
        yield node.operation.tx_id
    else:
        yield f"{node.operation.title:{_WIDTH}} {_engine(node):7} {_fields(node.schema)}".rstrip()


def _engine(node: Node) -> str:
    operation: Operation = node.operation
    if isinstance(operation, AggregateState):
        operation = operation.aggregation
    if isinstance(operation, Aggregation):
        return "Spark" if operation.is_native else "Python"
    if isinstance(operation, MultiReduce):
        return "Python"
    if isinstance(operation, RowOperation):
        # As `RowOperation.build` decides: natively, if no Python function waits in front of it.
        after_python = isinstance(node.inputs[0].operation, RowOperation) and _engine(node.inputs[0]) == "Python"
        return "Spark" if operation.native and not after_python else "Python"
    return "" if isinstance(operation, UpdatedState | WrittenSink) else "Spark"


def _commit(graph: Graph, node: Node) -> Iterator[str]:
    operation = node.operation
    match operation:
        case WrittenSink():
            yield f"{operation.name}: {type(operation.sink).__name__}"
            yield f"    {_SINK}"
        case AggregateState() | UpdatedState():
            yield f"{operation.name}: {_kind(operation.factory)}, {operation.title}"
            yield f"    {_guarantee(node, operation.factory)}"
        case _:
            yield operation.title
    for following in graph.consumers(node):
        yield from (f"    {line}" for line in _commit(graph, following))


def _kind(factory: StateFactory) -> str:
    return type(factory).__name__ if type(factory).__repr__ is object.__repr__ else repr(factory)


def _guarantee(node: Node, factory: StateFactory) -> str:
    spouts = [each.operation.spout for each in ancestry(node) if isinstance(each.operation, Source)]
    if factory.guarantee == StateFactory.guarantee and any(spout.replay is Replay.OPAQUE for spout in spouts):
        return _OPAQUE
    reason = _REASONS.get(factory.guarantee)
    return f"{factory.guarantee}: {reason}" if reason else factory.guarantee


def _fields(schema: StructType | None) -> str:
    if schema is None:
        return "fields known at the start"
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
