"""The plan as a graph for pages and programs: what `explain` says as text, as JSON. No session is needed."""

from __future__ import annotations

from coordinators.values.canonical import Json
from trident_py.graph.graph import Graph, Node
from trident_py.graph.output import output_of
from trident_py.planner.guarantees import guarantee_of
from trident_py.rows.schema import fields_text


def diagram(graph: Graph) -> list[dict[str, Json]]:
    """Return the nodes of ``graph``, each behind its inputs.

    Each has ``id``, ``title`` (what the user called), ``kind`` (``spout``, ``operation``, ``state``, ``sink``,
    ``window``, ``static`` or ``request``), ``name`` (of a spout, state, sink or function, or empty), ``label`` (of the
    stream, or None), ``phase``, ``engine``, ``fields`` (empty where only Spark can tell) and ``inputs`` (ids). A spout
    has ``replay``; a state or sink ``promise``, ``reason`` and ``described``; a query of a state ``asks``, its name.
    """
    ids = {node: number for number, node in enumerate(graph.nodes)}
    return [_facts(node, ids) for node in graph.nodes]


def _facts(node: Node, ids: dict[Node, int]) -> dict[str, Json]:
    operation = node.operation
    facts: dict[str, Json] = {
        "id": ids[node],
        "title": operation.title,
        "label": node.label,
        "phase": node.phase.value,
        "engine": str(operation.engine(node.inputs)),
        "fields": "" if node.schema is None else fields_text(node.schema),
        "inputs": [ids[each] for each in node.inputs],
        **operation.drawn,
    }
    if output_of(node):
        promise = guarantee_of(node)
        facts |= {"promise": promise.promise, "reason": promise.reason}
    return facts
