from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.declared import Append, Nowhere, Ticks
from tests.unit.trident_py.worker.aggregators import Longest
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import State, StateFactory
from trident_py.operations.builtin import Count, FilterNull
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Own(StateFactory):
    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        raise AssertionError("nothing is started here")


def split(row: Any) -> Any:
    return [(word,) for word in row.value.split()]


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_plan_says_what_runs_where_and_how_often_a_row_counts() -> None:
    topology = TridentTopology("wordcount")
    words = (
        topology.new_stream("lines", FixedBatchSpout("value string, n int", 2))
        .filter(FilterNull("value"))
        .flat_map(split, "word string")
        .filter(FilterNull())
    )
    counts = words.group_by("word").persistent_aggregate(SQLiteState("counts.db", table="counts"), Count(), "count")
    counts.new_values_stream().project("word").partition_persist(Own(), Append(), "word")
    words.persistent_aggregate(MemoryMapState.factory(), Longest(), "longest string")
    words.transform(lambda frame: frame).name("copies").write_to(Nowhere())
    here = f"test_explain.py:{split.__code__.co_firstlineno}"
    lines = squeezed(topology.explain())
    way = [
        "lines",
        "filter(FilterNull) Spark value string, n int",
        f"flat_map(split at {here}) Python word string",
        "filter(FilterNull) Python word string",
    ]
    assert lines[:4] == ["topology wordcount", "", "spouts", "lines: FixedBatchSpout, a replay gives the same rows"]
    start = lines.index(way[0])
    assert lines[start : start + 6] == [
        *way,
        "persistent_aggregate(Count(), 'word') Spark word string, count bigint",
        "small batches share jobs, or go to a resident task",
    ]
    assert lines[start + 7 : start + 13] == [
        *way,
        "persistent_aggregate(Longest) Python longest string",
        "small batches share jobs, or go to a resident task",
    ]
    assert "fields known at the start" in topology.explain()
    text = "\n".join(lines[lines.index("commit phase: on the driver, transactions in order") :])
    assert (
        "persistent_aggregate(Count(), 'word')\nexactly-once: data and commit token change in one atomic step" in text
    )
    assert "partition_persist(Append)\nat-least-once: nothing says that its commits compare the txid" in text
    assert "lost with the process" in text
    assert "copies: Nowhere\nexactly-once: attempts are staged apart" in text
    assert str(Path("counts.db")) in text


def test_a_state_of_the_user_s_behind_an_opaque_spout_counts_at_least_once() -> None:
    topology = TridentTopology("ticks")
    topology.new_stream("ticks", Ticks()).partition_persist(Own(), Append(), "n")
    topology.new_stream("lines", FixedBatchSpout("n int", 2)).partition_persist(Own(), Append(), "n")
    text = "\n".join(squeezed(topology.explain()))
    assert "ticks: Ticks, opaque: a replay may give other rows" in text
    assert "ticks-state: Own, partition_persist(Append)\nat-least-once: nothing says that its commits" in text
    assert "lines-state: Own, partition_persist(Append)\nat-least-once: nothing says that its commits" in text


def test_a_topology_that_commits_nothing_says_so() -> None:
    topology = TridentTopology("ticks")
    topology.new_stream("ticks", Ticks())
    assert topology.explain().endswith("\n  nothing: commits acknowledge themselves\n")


def test_what_needs_a_spark_job_in_each_commit_says_so() -> None:
    topology = TridentTopology("wordcount")
    words = topology.new_stream("lines", FixedBatchSpout("word string", 1))
    counts = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    counts.new_values_stream().project("count").filter("count > 1")
    lines = [line.strip() for line in topology.explain().splitlines()]
    assert "project('count')" in lines
    assert "filter('count > 1'), by a Spark job in each commit" in lines


def test_where_bad_rows_are_left_out_and_where_they_go_is_told() -> None:
    topology = TridentTopology("lines")
    lines = topology.new_stream("lines", FixedBatchSpout("word string", 1))
    lines.on_error(to=MemoryMapState.factory())
    lines.map(tuple, "word string").name("words").group_by("word").persistent_aggregate(
        MemoryMapState.factory(), Count(), "count"
    )
    text = "\n".join(squeezed(topology.explain()))
    assert "a row over which a row function raises is left out" in text
    assert "these are the rows that are left out of words" in text


def kept(stream: Stream) -> object:
    return stream.partition_persist(Own(), Append(), "n")


def left_out(stream: Stream) -> object:
    mapped = stream.map(lambda row: row, "n int")
    mapped.on_error().name("bad").partition_persist(Own(), Append(), "_error")
    return kept(mapped)


SMALL: dict[str, tuple[Callable[[Stream, TridentTopology], object], str]] = {
    "a condition of Spark's": (
        lambda s, _: kept(s.filter("n > 1")),
        "small batches share jobs; a resident task can't run filter('n > 1')",
    ),
    "a sink of DataFrames": (
        lambda s, _: s.write_to(Nowhere()),
        "each batch takes its own job, because of write_to(Nowhere)",
    ),
    "a transform": (
        lambda s, _: s.transform(lambda frame: frame).write_to(Nowhere()),
        "each batch takes its own job, because of transform(",
    ),
    "two paths": (
        lambda s, topology: kept(topology.merge(s, s)),
        "each batch takes its own job, because several spouts or paths come together",
    ),
    "bad rows": (
        lambda s, _: left_out(s),
        "each batch takes its own job, because bad rows are left out before it",
    ),
}


@pytest.mark.parametrize("case", SMALL)
def test_it_says_how_small_batches_are_processed(case: str) -> None:
    declare, expected = SMALL[case]
    topology = TridentTopology("small")
    declare(topology.new_stream("lines", FixedBatchSpout("n int", 2)), topology)
    assert expected in topology.explain()


def test_it_lists_migrations() -> None:
    topology = TridentTopology("migrated")
    kept(topology.new_stream("log", FixedBatchSpout("n int", 2)))
    assert "migrations" not in topology.explain()
    topology.migrate("lines", rename="log")
    expected = "migrations: at the start, if they were not carried out before\n  lines: rename='log'\n"
    assert topology.explain().endswith(expected)
