"""Where each output is: behind which rows, in how many parts, and what follows its new values."""

from __future__ import annotations

from pyspark.sql.types import StructType

from trident_py.graph.graph import Graph, Node
from trident_py.graph.output import CommitStream, Output, OutputPlace, output_of
from trident_py.graph.partitioning import fields_before, hint_before
from trident_py.worker.pipeline import RowPipeline


def placed(graph: Graph, node: Node) -> OutputPlace | None:
    """What takes the rows that lead to ``node``, whose fields are known; None: nothing does, it is no output."""
    output = output_of(node)
    if output is None:
        return None
    return _placed(graph, node, output, node.inputs[0].schema or StructType(), by_tasks=True)


def shards_of(graph: Graph, node: Node, output: Output) -> int:
    """How many states the output of ``node`` has."""
    return output.shards(graph.shards.get(output.name, 0), hint_before(node.inputs[0]))


def _placed(graph: Graph, node: Node, output: Output, source: StructType, *, by_tasks: bool) -> OutputPlace:
    return OutputPlace(
        output=output,
        source=source,
        shards=shards_of(graph, node, output),
        spread_by=fields_before(node.inputs[0]),
        new_values=_new_values(graph, node),
        by_tasks=by_tasks,
    )


def _new_values(graph: Graph, state: Node) -> CommitStream | None:
    streams = [_commit_stream(graph, each, RowPipeline(each.schema or StructType())) for each in graph.consumers(state)]
    if len(streams) <= 1:
        return streams[0] if streams else None
    return CommitStream(pipeline=RowPipeline(state.schema or StructType()), streams=tuple(streams))


def _commit_stream(graph: Graph, node: Node, pipeline: RowPipeline) -> CommitStream:
    following = graph.consumers(node)
    if len(following) == 1:
        return _followed(graph, following[0], pipeline)
    streams = tuple(_followed(graph, each, RowPipeline(pipeline.target)) for each in following)
    return CommitStream(pipeline=pipeline, streams=streams)


def _followed(graph: Graph, node: Node, pipeline: RowPipeline) -> CommitStream:
    fused = node.operation.fused(pipeline)
    if fused is not None:
        return _commit_stream(graph, node, fused)
    output = output_of(node)
    if output is not None:
        rows, stage = output.by_driver(pipeline)
        place = _placed(graph, node, output, pipeline.target, by_tasks=False)
        return CommitStream(pipeline=rows, stage=stage, output=place)
    onward = _commit_stream(graph, node, RowPipeline(node.schema or StructType()))
    return CommitStream(pipeline=pipeline, stage=node.operation, streams=(onward,))
