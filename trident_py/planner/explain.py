"""The plan as text, from the graph alone: no session is needed."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import StructType

from trident_py.graph.aggregation import Aggregation
from trident_py.graph.graph import Graph, Node, Operation, RequestSource, Source
from trident_py.graph.multi import MultiReduce
from trident_py.graph.outputs import AggregateState, Ending, UpdatedState, WrittenSink
from trident_py.graph.queries import StateQuery, requests, static_states
from trident_py.graph.rowwise import RowOperation
from trident_py.graph.sample import Sample
from trident_py.graph.windowing import WindowState
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import StateFactory, StateKind
from trident_py.planner.guarantees import guarantee_of
from trident_py.planner.plan import ends_of
from trident_py.rows.schema import fields_text

_REPLAY = {
    Replay.EXACT: "a replay gives the same rows",
    Replay.OPAQUE: "opaque: a replay may give other rows",
    Replay.NON_TRANSACTIONAL: "non-transactional: rows may be lost, or come again",
}
_WIDTH = 60
_NO_FENCE = "no fence: while it commits, stop() keeps leading and says so, unless it is stop(force=True)"


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
    lines += [] if committing else ["  nothing: commits acknowledge themselves"]
    return "\n".join([*lines, *_asked(graph)]) + "\n"


def _asked(graph: Graph) -> Iterator[str]:
    """The states that are only asked, and the way of each function's requests."""
    statics, plans = static_states(graph), requests(graph)
    if statics:
        yield from ("", "states that are only asked")
        yield from (f"  {static.name}: {_kind(static.factory)}" for static in statics)
    if plans:
        yield from ("", "requests: beside batches, all states at one committed transaction")
    for each in plans:
        yield f"  {each.function}"
        yield from (f"      {line}" for line in _way(each.answer))


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
    if isinstance(operation, MultiReduce | Sample):
        return "Python"
    if isinstance(operation, RowOperation):
        # As `RowOperation.build` decides: natively, if no Python function waits in front of it.
        after_python = isinstance(node.inputs[0].operation, RowOperation) and _engine(node.inputs[0]) == "Python"
        return "Spark" if operation.native and not after_python else "Python"
    if isinstance(operation, StateQuery):
        return "driver"
    return "" if isinstance(operation, UpdatedState | WindowState | WrittenSink | RequestSource) else "Spark"


def _commit(graph: Graph, node: Node) -> Iterator[str]:
    operation = node.operation
    match operation:
        case WrittenSink():
            yield f"{operation.name}: {type(operation.sink).__name__}"
            yield f"    {guarantee_of(node)}"
        case AggregateState() | UpdatedState() | WindowState():
            yield f"{operation.name}: {_kind(operation.factory)}, {operation.title}"
            yield f"    {guarantee_of(node)}"
            if operation.factory.kind is not StateKind.FENCED:
                yield f"    {_NO_FENCE}"
        case _:
            yield operation.title
    for following in graph.consumers(node):
        yield from (f"    {line}" for line in _commit(graph, following))


def _kind(factory: StateFactory) -> str:
    return type(factory).__name__ if type(factory).__repr__ is object.__repr__ else repr(factory)


def _fields(schema: StructType | None) -> str:
    return "fields known at the start" if schema is None else fields_text(schema)
