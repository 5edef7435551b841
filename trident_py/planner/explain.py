"""The plan as text and as data, from the graph alone: no session is needed.

A database server that several outputs may share is asked for its identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from attrs import frozen
from pyspark.sql.types import StructType

from coordinators.values.canonical import Json
from trident_py.errors import FailedException, StateError
from trident_py.graph.commit_rows import needs_spark
from trident_py.graph.graph import Graph, Node, Phase
from trident_py.graph.output import described_factory, output_of
from trident_py.graph.queries import requests, static_states
from trident_py.interfaces.spouts import Replay
from trident_py.planner.guarantees import guarantee_of
from trident_py.planner.plan import ends_of
from trident_py.planner.quarantine import DividedBranch, Division
from trident_py.planner.sharing import small_batches
from trident_py.rows.schema import fields_text
from trident_py.states.sql.dialect import Database


@frozen
class CommitsWith:
    """The outputs with which an output commits.

    Attributes:
        database: the name of the database system.
        others: the names of the other outputs.
        was_asked: whether the server has named its database; else URLs were compared.
    """

    database: Database
    others: tuple[str, ...]
    was_asked: bool

    def __str__(self) -> str:
        told = "" if self.was_asked else " (by its URL: the server did not answer, and is asked at the start)"
        return f"in one transaction of {self.database.shown}{told} with {', '.join(self.others)}"


def commits_with(graph: Graph) -> dict[Node, CommitsWith]:
    """Return the group in which each output commits, if it shares its database; asks servers named by several."""
    found: dict[str, list[tuple[Node, str, Database]]] = {}
    for node in graph.nodes:
        output = output_of(node)
        if output is not None and output.database is not None:
            found.setdefault(output.database.dialect.database, []).append((node, output.name, output.database))
    return {node: each for members in found.values() if len(members) > 1 for node, each in _together(members)}


def _together(members: Sequence[tuple[Node, str, Database]]) -> Iterator[tuple[Node, CommitsWith]]:
    asked = {database.server: _identity(database) for _, _, database in members}
    places = {node: asked[database.server] or database.server for node, _, database in members}
    for node, _, database in members:
        others = tuple(name for other, name, _ in members if other is not node and places[other] == places[node])
        if others:
            yield node, CommitsWith(database, others, asked[database.server] is not None)


def _identity(database: Database) -> object | None:
    """Return the identity of the database as its server names it; None if the server doesn't answer."""
    link = database.beside()
    try:
        with closing(link), database.explained(database.shown):
            return database.identity(link)
    except (StateError, FailedException):
        return None


def diagram(graph: Graph) -> list[dict[str, Json]]:
    """Return the nodes of ``graph``, each after its inputs.

    Each node has ``id``, ``title`` (the user's call) and ``kind`` (``spout``, ``operation``, ``state``, ``sink``,
    ``window``, ``join``, ``process``, ``static`` or ``request``). It has ``name`` (of a spout, state, sink or function,
    or empty) and ``label`` (of the stream, or None). It also has ``phase``, ``engine``, ``fields`` (empty if only Spark
    knows them) and ``inputs`` (ids). A spout has ``replay``; a state or sink ``promise``, ``reason`` and ``described``;
    a query of a state ``asks``, its name.
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


_REPLAY = {
    Replay.EXACT: "a replay gives the same rows",
    Replay.OPAQUE: "opaque: a replay may give other rows",
    Replay.NON_TRANSACTIONAL: "non-transactional: rows may be lost, or come again",
}
_WIDTH = 60
_NO_FENCE = "no fence: while it commits, stop() keeps leading and says so, unless it is stop(force=True)"


def explain(graph: Graph) -> str:
    """Return the plan as text: the phase and engine of each operation, and how often a row counts in each state."""
    ends = ends_of(graph)
    lines = [f"topology {graph.topology}", "", "spouts"]
    for source in graph.sources:
        lines.append(f"  {source.tx_id}: {type(source.spout).__name__}, {_REPLAY[source.spout.replay]}")
        lines.append(f"      {_fields(source.schema)}")
        lines += [f"      {source.spout.caveat}"] if source.spout.caveat else []
    lines += ["", "processing phase: transactions side by side"]
    divided = Division(graph, ends).branches()
    for name, node in ends:
        branch = divided.get(name)
        lines += [f"  {name}", *(f"      {line}" for line in (*_way(node), *_bad_rows(branch), *_small(node, branch)))]
    lines += ["", "commit phase: on the driver, transactions in order"]
    committing, together = [node for _, node in ends if output_of(node)], commits_with(graph)
    for node in committing:
        lines += [f"  {line}" for line in _commit(graph, node, together)]
    lines += [] if committing else ["  nothing: commits acknowledge themselves"]
    return "\n".join([*lines, *_asked(graph), *_migrated(graph)]) + "\n"


def _asked(graph: Graph) -> Iterator[str]:
    """Yield the lines of static states, and of the operations of each request function."""
    statics, plans = static_states(graph), requests(graph)
    if statics:
        yield from ("", "static states, which are only queried")
        yield from (f"  {static.name}: {described_factory(static.factory)}" for static in statics)
    if plans:
        yield from ("", "requests: independent of batches, all states at one committed transaction")
    for each in plans:
        yield f"  {each.function}"
        yield from (f"      {line}" for line in _way(each.answer))


def _migrated(graph: Graph) -> Iterator[str]:
    """Yield the migrations, which a start carries out once."""
    if graph.migrations:
        yield from ("", "migrations: at the start, if they were not carried out before")
        yield from (f"  {each.name}: {each.described}" for each in graph.migrations)


def _way(node: Node) -> Iterator[str]:
    """Yield the operations from the spouts to ``node``, in order."""
    for before in node.inputs:
        yield from _way(before)
    if not node.inputs and node.spouts:
        yield node.spouts[0]
    else:
        engine = node.operation.engine(node.inputs)
        yield f"{node.operation.title:{_WIDTH}} {engine:7} {_fields(node.schema)}".rstrip()


def _bad_rows(branch: DividedBranch | None) -> Iterator[str]:
    if branch and branch.leading:
        yield "a row over which a row function raises is left out"
    if branch and branch.collects:
        yield f"these are the rows that are left out of {', '.join(sorted(branch.collects))}"


def _small(node: Node, branch: DividedBranch | None) -> Iterator[str]:
    """Yield how small batches are processed, if the branch has an output."""
    if branch and branch.leading:
        yield "each batch takes its own job, because bad rows are left out before it"
    elif output_of(node):
        yield small_batches(node)


def _commit(graph: Graph, node: Node, together: Mapping[Node, CommitsWith]) -> Iterator[str]:
    output = output_of(node)
    if output is None:
        known = all(each.schema is not None for each in node.inputs)
        is_job = known and node.operation.begins is not Phase.COMMIT and needs_spark(node)
        yield f"{node.operation.title}{', by a Spark job in each commit' if is_job else ''}"
    else:
        yield f"{output.name}: {output.described()}"
        yield f"    {guarantee_of(node)}"
        if node in together:
            yield f"    {together[node]}"
        if not output.keeps_token:
            yield f"    {_NO_FENCE}"
    for following in graph.consumers(node):
        yield from (f"    {line}" for line in _commit(graph, following, together))


def _fields(schema: StructType | None) -> str:
    return "fields known at the start" if schema is None else fields_text(schema)
