"""Who commits with whom: the states and sinks of one database do, in one transaction of it. For ``explain()``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from attrs import frozen

from trident_py.errors import FailedException, StateError
from trident_py.graph.graph import Graph, Node
from trident_py.graph.output import output_of
from trident_py.states.sql.dialect import Database


@frozen
class CommitsWith:
    """The others that an output commits with.

    Attributes:
        database: in which.
        others: their names.
        was_asked: whether the server has said which database it is; else URLs were compared.
    """

    database: Database
    others: tuple[str, ...]
    was_asked: bool

    def __str__(self) -> str:
        told = "" if self.was_asked else " (by its URL: the server did not answer, and is asked at the start)"
        return f"in one transaction of {self.database.shown}{told} with {', '.join(self.others)}"


def commits_with(graph: Graph) -> dict[Node, CommitsWith]:
    """Return what each output commits with, where it is not alone in its database; asks servers that have several."""
    found: dict[str, list[tuple[Node, str, Database]]] = {}
    for node in graph.nodes:
        output = output_of(node)
        if output is not None and output.database is not None:
            found.setdefault(output.database.dialect.database, []).append((node, output.name, output.database))
    return {node: each for members in found.values() if len(members) > 1 for node, each in _together(members)}


def _together(members: Sequence[tuple[Node, str, Database]]) -> Iterator[tuple[Node, CommitsWith]]:
    asked = {database.server: _asked(database) for _, _, database in members}
    places = {node: asked[database.server] or database.server for node, _, database in members}
    for node, _, database in members:
        others = tuple(name for other, name, _ in members if other is not node and places[other] == places[node])
        if others:
            yield node, CommitsWith(database, others, asked[database.server] is not None)


def _asked(database: Database) -> object | None:
    """Return what the server says it is; None: it says nothing."""
    link = database.beside()
    try:
        with closing(link), database.explained(database.shown):
            return database.identity(link)
    except (StateError, FailedException):
        return None
