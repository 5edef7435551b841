"""Where bad rows end: in what the user names, or by default in a table of the topology, the dead letters."""

# ruff: noqa: SLF001 - streams are handles of one graph

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from pyspark.sql.types import StructType

from trident_py.graph.bad_rows import BRANCH, bad_rows_of
from trident_py.graph.graph import Graph, Node
from trident_py.graph.naming import default_name, state_names, unused
from trident_py.interfaces.config import TridentConfig
from trident_py.rows.row import Row, codec_of
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream

FIELDS = "txid bigint, branch string, spout string, operation string, error string, row string"
"""The fields of a dead letter in the table; ``row`` is a JSON object. A column ``count`` follows."""


def dead_letters_place(state_dir: Path, topology: str) -> Path:
    """Return the file with the dead letters of a topology."""
    return state_dir / f"{topology}-dead-letters.db"


def with_dead_letters(graph: Graph, config: TridentConfig) -> Graph:
    """Return ``graph`` with a table for bad rows that nothing reads, and for all others if ``config`` quarantines."""
    made = Graph(graph.topology, [*graph.nodes], dict(graph.shards))
    for node in graph.nodes:
        if node.operation.collects and not graph.consumers(node):
            named = bad_rows_of(node.operation.title, node.inputs[0], names_branch=True)
            made.nodes[node.number] = evolve(node, operation=named, schema=named.fields)
            _keep(made, made.nodes[node.number], named.spout, config)
        elif node.source and config.on_bad_row == "quarantine":
            others = bad_rows_of("on_bad_row='quarantine'", node, names_branch=True)
            _keep(made, made.add(evolve(others, yields=True), node), others.spout, config)
    return made if len(made.nodes) > len(graph.nodes) else graph


def _keep(graph: Graph, bad: Node, fields: StructType, config: TridentConfig) -> None:
    """Keep the rows of ``bad``, which have a field for the branch, in a table of the topology."""
    with graph.declaring(bad.operation.title):
        name = unused(bad.inputs[0].label or default_name(bad, "dead-letters"), state_names(graph))
        letters = Stream(graph, bad).map(DeadLetter("-".join(bad.spouts), fields), FIELDS).name(name)
        place = dead_letters_place(config.state_dir, graph.topology)
        letters._counted_in(SQLiteState(place, table=re.sub(r"\W", "_", name)))


@frozen
class DeadLetter:
    """Makes the row of a table from a bad row. Pickled into tasks.

    Attributes:
        spout: that emitted it.
        fields: of the spout.
    """

    spout: str
    fields: StructType

    def __call__(self, bad: Row) -> tuple[Any, ...]:
        """Return the values of `FIELDS`."""
        names = self.fields.names
        to_json, _ = codec_of(self.fields)
        row = json.dumps(dict(zip(names, to_json(bad[: len(names)]), strict=True)), ensure_ascii=False)
        return (bad["_txid"], bad[BRANCH], self.spout, bad["_operation"], bad["_error"], row)
