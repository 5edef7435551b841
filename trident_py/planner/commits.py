"""Where each output is: behind which rows, in how many parts, and what follows its new values."""

from __future__ import annotations

from pyspark.sql.types import StructType

from trident_py.graph.graph import Graph, Node
from trident_py.graph.output import CommitStream, Output, OutputPlace, output_of
from trident_py.graph.partitioning import fields_before, hint_before


def placed(graph: Graph, node: Node) -> OutputPlace | None:
    """Return what takes the rows that lead to ``node``, whose fields are known; None: nothing does, it is no output."""
    output = output_of(node)
    if output is None:
        return None
    return _placed(graph, node, output, by_tasks=True)


def shards_of(graph: Graph, node: Node, output: Output) -> int:
    """Return how many states the output of ``node`` has."""
    return output.shards(graph.shards.get(output.name, 0), hint_before(node.inputs[0]))


def _placed(graph: Graph, node: Node, output: Output, *, by_tasks: bool) -> OutputPlace:
    return OutputPlace(
        output=output,
        source=node.inputs[0].schema or StructType(),
        shards=shards_of(graph, node, output),
        spread_by=fields_before(node.inputs[0]),
        new_values=_new_values(graph, node),
        by_tasks=by_tasks,
    )


def _new_values(graph: Graph, state: Node) -> CommitStream | None:
    origins = graph.consumers(state)
    if not origins:
        return None
    ends = tuple(dict.fromkeys(end for each in origins for end in _ends(graph, each)))
    outputs = {end: output for end in ends if (output := output_of(end)) is not None}
    return CommitStream(
        schema=state.schema or StructType(),
        origins=frozenset(origins),
        ends=ends,
        outputs={end: _placed(graph, end, output, by_tasks=False) for end, output in outputs.items()},
    )


def _ends(graph: Graph, node: Node) -> list[Node]:
    """Return the nodes in which the ways from ``node`` end."""
    following = graph.consumers(node)
    if output_of(node) is not None or not following:
        return [node]
    return [end for each in following for end in _ends(graph, each)]
