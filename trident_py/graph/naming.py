"""What states and sinks are called: what they keep is found by it, so it follows from what was declared, not when."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, count

from trident_py.errors import TopologyError
from trident_py.graph.graph import Graph, Node
from trident_py.graph.output import output_of
from trident_py.interfaces.states import StateFactory


def state_names(graph: Graph) -> set[str]:
    """Return the names of all states and sinks."""
    return {node.operation.name for node in graph.nodes if node.operation.name}


def unused(wanted: str, taken: Collection[str]) -> str:
    """Return ``wanted``, or the first of ``wanted-2``, ``wanted-3``, … that isn't taken."""
    names = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def state_name(graph: Graph, node: Node, label: str | None, kind: str, thing: object) -> str:
    """Return what a state or sink on the stream of ``node`` is called, which may have the name ``label``.

    The stream's name, else the state's own, else the spout's and ``kind``. What it keeps is stored under this name, so
    the order of declaration must not matter; numbered are those that keep nothing, and whoever shares a name with them.

    Raises:
        TopologyError: another one that keeps something wants to be called so.
    """
    own = thing.name if isinstance(thing, StateFactory) else ""
    name = label or own or default_name(node, kind)
    stored = unused(name, state_names(graph))
    if not _keeps(thing) or name not in {each for other in graph.nodes for each in _claimed(other)}:
        return stored
    raise TopologyError(
        f"there is a {kind} {name!r} already, and only the order of the two would tell whose the stored data are; give "
        f"each a name by Stream.name(…). Stored data are found by name({name!r}) for the one that was alone until now; "
        f"if both were there, in this order, by name({name!r}) for the first and name({stored!r}) for this one"
    )


def _keeps(thing: object) -> bool:
    return not (isinstance(thing, StateFactory) and thing.volatile)


def _claimed(node: Node) -> tuple[str, ...]:
    """Return what an output that keeps something is called, and what it would be called without a number."""
    output = output_of(node)
    if output is None or not _keeps(output.factory):
        return ()
    own = output.factory.name if output.factory else ""
    return output.name, node.label or own or default_name(node.inputs[0], output.kind)


def default_name(node: Node, kind: str) -> str:
    """Return what a state or sink on the stream of ``node`` is called if nobody names it."""
    return f"{'-'.join(node.spouts)}-{kind}"
