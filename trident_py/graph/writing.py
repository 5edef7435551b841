"""The streams that a sink may consume."""

from __future__ import annotations

from typing import Any

from trident_py.errors import TopologyError
from trident_py.graph.graph import Graph, Node
from trident_py.graph.outputs import WrittenSink, replaces
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.interfaces.spouts import Replay


def check_writing(graph: Graph, node: Node, sink: TransactionalSink[Any]) -> None:
    """Check that ``sink`` has no other stream, and that replays of ``node`` have the same rows, if it needs that.

    A state query may have another result in a replay. That is allowed, because each row of a spout is still in one
    transaction.

    Raises:
        TopologyError: the sink has another stream, or a replay of a spout may have other rows.
    """
    for written in (each.operation for each in graph.nodes):
        if isinstance(written, WrittenSink) and written.sink is sink:
            raise TopologyError(f"this sink is {written.name!r} already; a sink takes one stream")
    if sink.needs_exact_replays and not replaces(sink, node):
        _check_replays(node, sink)


def _check_replays(node: Node, sink: TransactionalSink[Any]) -> None:
    others = "use a spout with Replay.EXACT, or declare that of this one where it holds"
    if sink.replaces_by:
        others += (
            f"; or write the new values of a SQLiteState, PostgresState or MySQLState by its own keys, "
            f"{list(sink.replaces_by)}, straight behind new_values_stream()"
        )
    for source in node.sources:
        if source.spout.replay is not Replay.EXACT:
            raise TopologyError(
                f"spout {source.tx_id!r} is {source.spout.replay.value}: a replay may give other rows, and "
                f"{type(sink).__name__} keeps those that were committed first; {others}"
            )
