"""What a plan consists of, asked of each part: for the record, and to compare the next version of a program with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from coordinators.canonical import Json
from coordinators.declarations import SPOUT, Declaration, Declarations
from trident_py.graph.aggregation import Part
from trident_py.graph.graph import Graph, Node, Source
from trident_py.graph.outputs import AggregateState, Ending, UpdatedState, WrittenSink, default_name
from trident_py.graph.windowing import WindowState
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.states import StateFactory
from trident_py.planner.commits import state_parts
from trident_py.rows.schema import fields_text, select

_SAME_ROWS = frozenset({"peek", "shuffle", "global_", "partition_by", "partition", "parallelism_hint"})
"""Methods whose rows are those of the stream that they are called on: no part of the way that leads to an output."""


def declarations(graph: Graph, accept: Sequence[str]) -> Declarations:
    """All spouts, states, windows and sinks of a graph whose fields are known."""
    entries = [_declaration(graph, node) for node in graph.nodes if isinstance(node.operation, Source | Ending)]
    return Declarations(entries, accept)


def _declaration(graph: Graph, node: Node) -> Declaration:
    operation = node.operation
    source = node.inputs[0].schema or StructType() if node.inputs else StructType()
    match operation:
        case Source():
            return _spout(operation)
        case WrittenSink():
            sink: dict[str, Json] = {"kind": class_names(operation.sink), "fields": fields_text(source)}
            return _output(node, "sink", {**sink, **operation.sink.identity()}, operation.sink.details(), frozenset())
        case AggregateState():
            return _state(graph, node, operation.factory, _aggregated(operation, source))
        case UpdatedState():
            updated = {
                "updater": class_names(operation.updater),
                "fields": fields_text(select(source, operation.in_fields)),
            }
            return _state(graph, node, operation.factory, updated)
        case WindowState():
            return _window(node, operation, source)
    raise AssertionError(f"{operation.title} is nothing that is declared")


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


def _aggregated(operation: AggregateState, source: StructType) -> dict[str, Json]:
    fields = operation.aggregation.fields(source)
    (part,) = operation.aggregation.parts
    return {"keys": fields_text(fields.keys), "value": fields_text(fields.results), **_aggregator(part)}


def _aggregator(part: Part) -> dict[str, Json]:
    """Its class, and the fields that it is declared with: a sum of another field is another one."""
    return {"aggregator": class_names(part.aggregator), "aggregated fields": ", ".join(part.in_fields)}


def _state(graph: Graph, node: Node, factory: StateFactory, made_of: dict[str, Json]) -> Declaration:
    identity = {
        "kind": class_names(factory),
        "replays by": factory.kind.value,
        **made_of,
        "parts": state_parts(graph, node),
        **factory.identity(),
    }
    # What keeps typed columns compares them itself, and holds them fast.
    fixed = frozenset({"keys", "value"}) if factory.lacks_fields else frozenset[str]()
    return _output(node, "state", {} if factory.volatile else identity, factory.details(), fixed)


def _window(node: Node, operation: WindowState, source: StructType) -> Declaration:
    factory = operation.factory
    identity: dict[str, Json] = {
        "kind": class_names(factory),
        "window": operation.window.slug,
        "keys": fields_text(select(source, operation.keys)),
        "fields": fields_text(operation.kept(source)),
        **_aggregator(operation.part),
    }
    return _output(
        node,
        "window",
        {} if factory.volatile else {**identity, **factory.identity()},
        factory.details(),
        frozenset({"window", "fields"}),
    )


def _output(node: Node, kind: str, identity: dict[str, Json], details: Any, fixed: frozenset[str]) -> Declaration:
    operation = node.operation
    name = operation.name if isinstance(operation, Ending) else operation.title
    return Declaration(
        kind=kind,
        name=name,
        identity=identity,
        details={"spouts": ", ".join(node.spouts), **details},
        fixed=fixed,
        way=way_to(node),
        is_named=node.label is not None or not name.startswith(default_name(node.inputs[0], kind)),
    )


def way_to(node: Node) -> str:
    """The spouts and methods that lead to ``node``, without functions and other arguments."""
    if isinstance(node.operation, Source):
        return node.operation.tx_id
    before = " + ".join(map(way_to, node.inputs))
    verb = node.operation.title.partition("(")[0]
    if verb in _SAME_ROWS:
        return before
    return f"({before}) > {verb}" if len(node.inputs) > 1 else f"{before} > {verb}"
