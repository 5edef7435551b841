"""A topology whose states are in shards: new values, queries, a single value, readers, and a changed number."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from trident_py import (
    Count,
    FixedBatchSpout,
    MapGet,
    MemoryMapState,
    Row,
    SQLiteState,
    Sum,
    TridentError,
    TridentTopology,
    TupleCollectionGet,
)
from trident_py.testing import LocalCoordination, run_batches

WORDS = [("tea",), ("cup",), ("tea",), ("pot",), ("tea",), ("cup",)]


def seen(path: Path, table: str) -> list[tuple[Any, ...]]:
    """What a client sees that has run the script of the central file."""
    with closing(sqlite3.connect(path)) as client:
        client.executescript(client.execute(f"SELECT script FROM _{table}_shards").fetchone()[0])  # noqa: S608
        return sorted(client.execute(f"SELECT * FROM {table}").fetchall())  # noqa: S608


def counting(path: Path, rows: int, shards: int) -> TridentTopology:
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS[:rows]))
    words.group_by("word").persistent_aggregate(SQLiteState(path, table="words", shards=shards), Count(), "n")
    return topology


def test_new_values_queries_and_a_single_value_work_as_in_one_file(tmp_path: Path) -> None:
    path, answers = tmp_path / "words.db", list[Any]()
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))
    counts = words.group_by("word").persistent_aggregate(SQLiteState(path, table="words", shards=3), Count(), "n")
    words.persistent_aggregate(SQLiteState(path, table="total", shards=2), Count(), "n")
    values = counts.new_values_stream()
    values.group_by("word").persistent_aggregate(SQLiteState(path, table="fed", shards=2), Sum("n"), "n")

    def told(row: Row) -> None:
        answers.append(tuple(row))

    values.project("word").state_query(counts, "word", MapGet(), "now bigint").peek(told)
    run_batches(topology)
    assert [row[:2] for row in seen(path, "words")] == [("cup", 2), ("pot", 1), ("tea", 3)]
    assert [row[:2] for row in seen(path, "fed")] == [("cup", 3), ("pot", 1), ("tea", 6)]
    assert [row[0] for row in seen(path, "total")] == [6]
    assert answers == [("cup", 1), ("tea", 1), ("pot", 1), ("tea", 2), ("cup", 2), ("tea", 3)]


def test_a_restart_goes_on_and_another_number_of_shards_is_refused_by_name(tmp_path: Path) -> None:
    path, coordination = tmp_path / "words.db", LocalCoordination()
    run_batches(counting(path, 2, shards=2), coordination)
    with pytest.raises(TridentError, match="shards"):
        run_batches(counting(path, 6, shards=3), coordination)
    run_batches(counting(path, 6, shards=2), coordination)
    assert [row[:2] for row in seen(path, "words")] == [("cup", 2), ("pot", 1), ("tea", 3)]


def test_another_topology_reads_the_shards(tmp_path: Path) -> None:
    path, found, pairs = tmp_path / "words.db", MemoryMapState.factory(), MemoryMapState.factory()
    run_batches(counting(path, 6, shards=2))
    topology = TridentTopology("asking")
    counts = topology.new_static_state(SQLiteState(path, table="words", shards=2))
    asked = topology.new_stream("asked", FixedBatchSpout("word string", 5, ("tea",), ("pot",), ("no",)))
    one = asked.state_query(counts, "word", MapGet(), "n bigint").group_by("word")
    one.persistent_aggregate(found, Sum("n"), "n")
    all_of_it = asked.state_query(counts, (), TupleCollectionGet(), "other string, n bigint").group_by("other")
    all_of_it.persistent_aggregate(pairs, Count(), "times")
    run_batches(topology)
    assert found.values() == {("tea",): 3, ("pot",): 1, ("no",): 0}
    assert pairs.values() == {("tea",): 3, ("pot",): 3, ("cup",): 3}
