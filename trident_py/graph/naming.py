"""The names of states and sinks. They are the keys of stored data, so they don't depend on declaration order."""

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
    """Return ``wanted``, or the first of ``wanted-2``, ``wanted-3``, … that isn't in use."""
    names = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def state_name(graph: Graph, node: Node, label: str | None, kind: str, thing: object) -> str:
    """Return the name of a state or sink on the stream of ``node``, which may have the name ``label``.

    It is the stream's name, else the state's own name, else the spout's name and ``kind``. Its data is stored under
    this name, so the order of declaration must not matter. Only outputs without stored data, and those that share a
    name with them, get a number.

    Raises:
        TopologyError: another output with stored data claims the same name.
    """
    own = thing.name if isinstance(thing, StateFactory) else ""
    name = label or own or default_name(node, kind)
    stored = unused(name, state_names(graph))
    if not _keeps(thing) or name not in {each for other in graph.nodes for each in _claimed(other)}:
        return stored
    raise TopologyError(
        f"there is a {kind} {name!r} already, so the owner of the stored data would depend on their order; give each "
        f"a name by Stream.name(…). To keep stored data: use name({name!r}) for the one that was alone until now; if "
        f"both existed, in this order, use name({name!r}) for the first and name({stored!r}) for this one"
    )


def _keeps(thing: object) -> bool:
    return not (isinstance(thing, StateFactory) and thing.volatile)


def _claimed(node: Node) -> tuple[str, ...]:
    """Return the name of an output with stored data, and its name before a number was added."""
    output = output_of(node)
    if output is None or not _keeps(output.factory):
        return ()
    own = output.factory.name if output.factory else ""
    return output.name, node.label or own or default_name(node.inputs[0], output.kind)


def default_name(node: Node, kind: str) -> str:
    """Return the default name of a state or sink on the stream of ``node``."""
    return f"{'-'.join(node.spouts)}-{kind}"
