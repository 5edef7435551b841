"""Where bad rows end: in what the user names, or by default in a table of the topology, the dead letters."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import evolve

from trident_py.graph.bad_rows import DEAD_LETTERS, bad_rows_of
from trident_py.graph.graph import Graph, Node
from trident_py.graph.naming import default_name, state_names, unused
from trident_py.interfaces.config import TridentConfig
from trident_py.operations.builtin import Sum
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream


def dead_letters_place(state_dir: Path, topology: str) -> Path:
    """Return the file with the dead letters of a topology."""
    return state_dir / f"{topology}-dead-letters.db"


def with_dead_letters(graph: Graph, config: TridentConfig) -> Graph:
    """Return ``graph`` with a table for bad rows that nothing reads, and for all others if ``config`` quarantines."""
    made = Graph(graph.topology, [*graph.nodes], dict(graph.shards), graph.migrations)
    for node in graph.nodes:
        if node.operation.collects and not graph.consumers(node):
            named = bad_rows_of(node.operation.title, node.inputs[0], as_letters=True)
            made.nodes[node.number] = evolve(node, operation=named, schema=named.fields)
            _keep(made, made.nodes[node.number], config)
        elif node.source and (config.on_bad_row == "quarantine" or node.source.spout.decoder):
            others = bad_rows_of("on_bad_row='quarantine'", node, as_letters=True)
            _keep(made, made.add(evolve(others, yields=True), node), config)
    return made if len(made.nodes) > len(graph.nodes) else graph


def _keep(graph: Graph, bad: Node, config: TridentConfig) -> None:
    """Count the rows of ``bad``, which are dead letters, in a table of the topology."""
    with graph.declaring(bad.operation.title):
        name = unused(bad.inputs[0].label or default_name(bad, "dead-letters"), state_names(graph))
        letters = Stream(graph, bad).name(name).group_by(*DEAD_LETTERS.names[:-1])
        table = SQLiteState(dead_letters_place(config.state_dir, graph.topology), table=re.sub(r"\W", "_", name))
        letters.persistent_aggregate(table, Sum("letters"), "count")
