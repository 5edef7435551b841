"""Where branches leave out bad rows: the row functions that run when a spout emits, and the readers of bad rows.

If a batch may have bad rows, the row functions of a branch between its spout and everything else run in one pass,
before the branch. The pass returns their output for the good rows, with which the branch begins, and the bad rows, with
which each branch behind `BadRows` begins. So both come from the same calls of the functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, evolve, field, frozen
from pyspark.sql.types import StructType

from trident_py.errors import TopologyError
from trident_py.graph.graph import Graph, Node
from trident_py.worker.counters import building
from trident_py.worker.pipeline import RowPipeline


@frozen
class RowFunctions:
    """The row functions of a path that begins at a spout, up to the first other operation.

    Attributes:
        last: the node of the last one.
    """

    spout: str
    last: Node
    pipeline: RowPipeline


def row_functions(end: Node) -> Iterator[RowFunctions]:
    """Yield the row functions of each path to ``end``; a path without any is left out."""
    for path in _paths(end):
        source = path[0].source
        if source is None:
            continue
        last, rows = path[0], RowPipeline(source.schema)
        for node in path[1:]:
            with building(f"node {node.number}"):
                more = node.operation.fused(rows) if len(node.inputs) == 1 else None
            if more is None:
                break
            last, rows = node, more
        if rows.steps:
            yield RowFunctions(source.tx_id, last, rows)


def _paths(node: Node) -> list[list[Node]]:
    """Return the paths to ``node``, each from a node without inputs."""
    before = [path for each in node.inputs for path in _paths(each)]
    return [[*path, node] for path in before] or [[node]]


@frozen
class DividedBranch:
    """A branch that leaves out bad rows, or reads them.

    Attributes:
        end: its last node; if it reads bad rows, with a spout in their place.
        leading, collects: see `Branch`.
    """

    end: Node
    leading: Mapping[str, RowFunctions] = field(factory=dict)
    collects: frozenset[str] = frozenset()


@define
class Division:
    """Divides the branches of a graph at its ``on_error``.

    Attributes:
        ends: the last node of each branch, with its name.
    """

    graph: Graph
    ends: list[tuple[str, Node]]
    _covered: dict[Node, list[str]] = field(factory=dict, init=False)

    def branches(self) -> dict[str, DividedBranch]:
        """Return the branches that leave out bad rows or read them, by name.

        Raises:
            TopologyError: an ``on_error`` can't work.
        """
        found: dict[str, DividedBranch] = {}
        for name, end in self.ends:
            if not any(_bad_rows_of(end)):
                found |= self._left_out(name, end)
        for name, end in self.ends:
            if places := [*_bad_rows_of(end)]:
                found[name] = self._collected(name, end, places)
        return found

    def _left_out(self, name: str, end: Node) -> dict[str, DividedBranch]:
        leading = dict[str, RowFunctions]()
        for place in self._places(end):
            (spout,) = place.spouts
            found = [each for each in row_functions(end) if each.spout == spout]
            if found and Counter(source.tx_id for source in end.sources)[spout] > 1:
                if place.operation.yields:
                    continue  # by a policy for all branches: in this one, rows fail as before
                with self.graph.declaring(place.operation.title):
                    raise TopologyError(
                        f"{name!r} reads spout {spout!r} by several paths that meet, so a row can't be left out of one "
                        f"of them alone; end each path in a state or sink, or do in one flat_map what the paths do"
                    )
            for each in found:
                self._covered.setdefault(place, []).append(name)
                leading[spout] = each
        return {name: DividedBranch(end, leading)} if leading else {}

    def _places(self, end: Node) -> list[Node]:
        """Return each ``on_error`` that takes the bad rows of the branch at ``end``; at most one for a spout."""
        before = end.ancestry
        places = [
            node
            for node in self.graph.nodes
            if node.operation.collects and any(each is node.inputs[0] for each in before)
        ]
        chosen: dict[str, Node] = {}
        for node in sorted(places, key=lambda each: each.operation.yields):
            (spout,) = node.spouts
            if spout in chosen and not node.operation.yields:
                with self.graph.declaring(node.operation.title):
                    raise TopologyError("another on_error() takes the same rows; keep one of them on this way")
            chosen.setdefault(spout, node)
        return list(chosen.values())

    def _collected(self, name: str, end: Node, places: Iterable[Node]) -> DividedBranch:
        made, collects = end, set[str]()
        for place in places:
            with self.graph.declaring(place.operation.title):
                covered = self._covered.get(place, [])
                if not covered and not place.operation.yields:
                    raise TopologyError(
                        "no row function is between the spout and the first other operation, so there are no bad rows: "
                        "row functions are map, map_async, flat_map, filter, each and peek"
                    )
                if Counter(source.tx_id for source in end.sources)[place.spouts[0]] > 1:
                    raise TopologyError(
                        f"{name!r} reads rows of spout {place.spouts[0]!r} on several paths that meet behind "
                        f"on_error(); end each in a state or sink of its own"
                    )
            collects.update(covered)
            made = begun_at(made, place, place.fields)
        return DividedBranch(made, collects=frozenset(collects))


def _bad_rows_of(end: Node) -> Iterator[Node]:
    return (node for node in end.ancestry if node.operation.collects)


def begun_at(end: Node, first: Node, fields: StructType) -> Node:
    """Return the nodes up to ``end``, with a spout that has these fields in the place of ``first``, or a copy of it."""
    if end is first or (end.number == first.number >= 0):
        (source,) = first.sources
        return evolve(end, operation=evolve(source, schema=fields), inputs=(), schema=fields)
    return evolve(end, inputs=tuple(begun_at(each, first, fields) for each in end.inputs))
