"""Calls of `migrate` that do not fit the topology are told before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trident_py.errors import TopologyError
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.planner.migrations import value_migrations
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.migrating import ValueMigration
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.testing import run_batches
from trident_py.topology import TridentTopology
from trident_py.windows import TumblingCount


def as_text(value: int) -> str:
    return str(value)


def retold(value: str) -> str:
    return value


def counting(factory: StateFactory) -> TridentTopology:
    topology = TridentTopology("wc")
    stream = topology.new_stream("log", FixedBatchSpout("word string", 2, ("a",)))
    stream.group_by("word").persistent_aggregate(factory, Count(), "n")
    stream.name("last").window(TumblingCount(2), "word", Count(), "n")
    return topology


def test_calls_for_one_state_add_up_under_any_of_its_names(tmp_path: Path) -> None:
    topology = counting(SQLiteState(tmp_path / "s.db", table="counts"))
    topology.migrate("words", rename="sums")
    topology.migrate("sums", rename="counts", with_=as_text)
    topology.migrate("counts", rename={"count": "n"})
    topology.migrate("lines", rename="log")
    assert value_migrations(topology._graph) == {
        "counts": ValueMigration(names=["sums", "words"], fields={"count": "n"}, function=as_text, called="as_text")
    }


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([("counts", {"drop": True})], "it is still declared; leave it out of the topology, or leave out this call"),
        (
            [("old", {"rename": "neww"})],
            "there is no spout, state or sink 'neww'; declare it, or call migrate('old'",
        ),
        ([("counts", {"rename": "log"})], "'counts' is declared, too; a part that is renamed has only its new name"),
        ([("log", {"with_": as_text})], "a spout has no values; it can be renamed or dropped"),
        ([("last-old", {"rename": "last"})], "a window can't be migrated: its table is named after it"),
        (
            [("sums", {"rename": "counts", "with_": as_text}), ("counts", {"with_": retold})],
            "two calls change the same values; leave out the one of an earlier version",
        ),
    ],
)
def test_calls_that_do_not_fit_the_topology_are_told_before_anything_is_started(
    tmp_path: Path, calls: list[tuple[str, dict[str, Any]]], message: str
) -> None:
    topology = counting(SQLiteState(tmp_path / "s.db", table="counts"))
    for name, arguments in calls:
        topology.migrate(name, **arguments)
    with pytest.raises(TopologyError) as raised:
        run_batches(topology)
    assert message in str(raised.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("arguments", [{"with_": as_text}, {"rename": {"count": "n"}}])
def test_a_state_in_shards_is_refused_by_name(tmp_path: Path, arguments: dict[str, Any]) -> None:
    topology = counting(SQLiteState(tmp_path / "s.db", table="counts", shards=2))
    topology.migrate("counts", **arguments)
    with pytest.raises(TopologyError, match=r"table='counts', shards=2\) has several files.* a second topology"):
        run_batches(topology)
    assert not [*tmp_path.iterdir()]


def test_values_of_other_states_are_refused_by_name() -> None:
    topology = counting(MemoryMapState.factory())
    topology.migrate("log-state", with_=as_text)
    with pytest.raises(TopologyError, match="values of SQLiteState, PostgresState and MySQLState can be migrated"):
        run_batches(topology)
