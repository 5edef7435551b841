"""Where bad rows end that nothing reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.trident_py.planner.test_quarantine import branches, end
from tests.unit.trident_py.worker.test_sieve import numbers, positive
from trident_py import Stream, TridentConfig, TridentTopology
from trident_py.streams.dead_letters import with_dead_letters


def kept(stream: Stream, **settings: Any) -> dict[str, frozenset[str]]:
    """The branches whose bad rows each branch reads, in the graph that is started."""
    graph = with_dead_letters(stream._graph, TridentConfig(state_dir=Path("there"), **settings))
    found = branches(Stream(graph, graph.nodes[0]))
    return {name: branch.collects for name, branch in found.items() if branch.collects}


def test_a_topology_without_on_error_stays_as_it_is() -> None:
    graph = numbers(TridentTopology("t"))._graph
    assert with_dead_letters(graph, TridentConfig()) is graph


def test_bad_rows_that_nothing_reads_get_a_table_and_others_not() -> None:
    stream = numbers(TridentTopology("t"))
    checked = stream.map(positive, "n bigint")
    end(checked, "a")
    bad = checked.on_error()
    assert kept(stream) == {"numbers-dead-letters": {"a"}}
    assert kept(stream) == {"numbers-dead-letters": {"a"}}  # the declared graph has not changed
    end(bad, "bad")
    assert kept(stream) == {"bad": {"a"}}


def test_a_policy_leaves_branches_with_an_on_error_to_that() -> None:
    stream = numbers(TridentTopology("t"))
    checked = stream.map(positive, "n bigint")
    end(checked, "a")
    end(checked.on_error(), "bad")
    end(stream.map(positive, "n bigint"), "b")
    assert kept(stream, on_bad_row="quarantine") == {"bad": {"a"}, "numbers-dead-letters": {"b"}}
