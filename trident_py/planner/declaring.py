"""The declarations of a plan: for the record, and for comparing the next version of a program with this one."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructType

from coordinators.record.declarations import SPOUT, Declaration, Declarations
from coordinators.values.canonical import Json
from trident_py.graph.graph import Graph, Node, Source
from trident_py.graph.naming import default_name
from trident_py.graph.output import Output, output_of
from trident_py.interfaces.identity import class_names
from trident_py.planner.plan import shards_of
from trident_py.rows.schema import fields_text

_SAME_ROWS = frozenset({"peek", "shuffle", "global_", "partition_by", "partition", "parallelism_hint"})
"""Methods that return the rows of their stream: they are left out of the path that leads to an output."""


def declarations(graph: Graph, accept: Sequence[str]) -> Declarations:
    """Return all spouts, states, windows and sinks of a graph with known fields."""
    outputs = [(node, output) for node in graph.nodes if (output := output_of(node))]
    entries = [*map(_spout, graph.sources), *(_output(graph, node, output) for node, output in outputs)]
    return Declarations(entries, accept, [each.for_record for each in graph.migrations])


def _spout(source: Source) -> Declaration:
    spout = source.spout
    identity: dict[str, Json] = {
        "kind": class_names(spout),
        "fields": fields_text(source.schema),
        "replay": spout.replay.value,
    }
    return Declaration(
        kind=SPOUT, name=source.tx_id, identity={**identity, **spout.identity()}, details=spout.details()
    )


def _output(graph: Graph, node: Node, output: Output) -> Declaration:
    before = node.inputs[0]
    return Declaration(
        kind=output.kind,
        name=output.name,
        identity=output.identity(before.schema or StructType(), shards_of(graph, node, output)),
        details={"spouts": ", ".join(node.spouts), **output.details},
        fixed=output.fixed,
        way=way_to(node),
        is_named=node.label is not None or not output.name.startswith(default_name(before, output.kind)),
    )


def way_to(node: Node) -> str:
    """Return the spouts and methods that lead to ``node``, without functions and other arguments."""
    if not node.inputs:
        return "".join(node.spouts)
    before = " + ".join(map(way_to, node.inputs))
    verb = node.operation.title.partition("(")[0]
    if verb in _SAME_ROWS:
        return before
    return f"({before}) > {verb}" if len(node.inputs) > 1 else f"{before} > {verb}"
