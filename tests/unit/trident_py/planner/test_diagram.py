from __future__ import annotations

import json
from typing import Any

from tests.unit.trident_py.declared import Nowhere
from trident_py.operations.builtin import Count
from trident_py.operations.queries import MapGet
from trident_py.planner.explain import diagram
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology


def drawn(topology: TridentTopology) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = json.loads(json.dumps(diagram(topology._graph)))
    return nodes


def test_each_node_says_what_it_is_and_what_it_reads() -> None:
    topology = TridentTopology("wordcount")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2))
    counts = words.group_by("word").persistent_aggregate(SQLiteState("counts.db", table="counts"), Count(), "count")
    words.write_to(Nowhere())
    asked = topology.new_drpc_stream("count").map(lambda row: (row.args,), "word string")
    asked.state_query(counts, "word", MapGet(), "count bigint")
    nodes = drawn(topology)
    assert [(each["kind"], each["name"]) for each in nodes] == [
        ("spout", "words"),
        ("state", "counts"),
        ("sink", "words-sink"),
        ("request", "count"),
        ("operation", ""),
        ("operation", ""),
    ]
    spout, state, sink, request, mapped, query = nodes
    assert spout["replay"] == "exact"
    assert [each["inputs"] for each in (state, sink, mapped, query)] == [[spout["id"]]] * 2 + [
        [request["id"]],
        [mapped["id"]],
    ]
    assert state["promise"] == sink["promise"] == "exactly-once"
    assert state["fields"] == "word string, count bigint"
    assert query["asks"] == "counts"
    assert (mapped["phase"], mapped["engine"], query["engine"]) == ("request", "Python", "driver")
