"""A topology whose states are in one file: a transaction, or a group, is one COMMIT, and readers see it whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
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
    StateError,
    Sum,
    TridentConfig,
    TridentTopology,
)
from trident_py.testing import LocalCoordination, run_batches

WORDS = [("tea",), ("cup",), ("tea",), ("pot",), ("tea",), ("cup",)]


class Counting(sqlite3.Connection):
    """Counts what is committed by a connection for commits, and looks, as another client, each time before."""

    looks: list[Any]

    def execute(self, query: str, *values: Any) -> Any:
        if query == "COMMIT":
            path = super().execute("PRAGMA database_list").fetchone()[2]
            Counting.looks.append(seen(Path(path)))
        return super().execute(query, *values)


def seen(path: Path) -> Any:
    sums = "SELECT (SELECT sum(n) FROM words), (SELECT sum(n) FROM total), (SELECT sum(changes) FROM fed)"
    with closing(sqlite3.Connection(path)) as reader:
        try:
            return reader.execute(sums).fetchone()
        except sqlite3.OperationalError:
            return None


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    Counting.looks = []
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Counting))
    return Counting.looks


def declared(path: Path) -> TridentTopology:
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))
    counts = words.group_by("word").persistent_aggregate(SQLiteState(path, table="words"), Count(), "n")
    words.persistent_aggregate(SQLiteState(path, table="total"), Count(), "n")
    changes = counts.new_values_stream().group_by("word")
    changes.persistent_aggregate(SQLiteState(path, table="fed"), Count(), "changes")
    return topology


def test_whoever_looks_sees_all_tables_of_a_file_agree(tmp_path: Path, looks: list[Any]) -> None:
    path = tmp_path / "words.db"
    run_batches(declared(path))
    assert seen(path) == (6, 6, 6)
    assert all(words == total == changes for words, total, changes in filter(None, looks))
    assert len(looks) <= 3 + 3  # each table was taken over; and there were three transactions, or groups


def test_what_is_asked_within_a_commit_has_what_it_commits(tmp_path: Path) -> None:
    path, answers = tmp_path / "words.db", list[Any]()
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))
    counts = words.group_by("word").persistent_aggregate(SQLiteState(path, table="words"), Count(), "n")
    asked = counts.new_values_stream().project("word").state_query(counts, "word", MapGet(), "now bigint")

    def told(row: Row) -> None:
        answers.append(tuple(row))

    fed = asked.peek(told).group_by("word")
    fed.persistent_aggregate(SQLiteState(path, table="fed"), Count(), "changes")
    run_batches(topology)
    assert answers == [("cup", 1), ("tea", 1), ("pot", 1), ("tea", 2), ("cup", 2), ("tea", 3)]


def test_a_user_function_behind_new_values_that_goes_elsewhere_finds_them_committed(tmp_path: Path) -> None:
    path, found = tmp_path / "words.db", list[Any]()
    topology = declared(path)
    words = topology.new_stream("more", FixedBatchSpout("word string", 2, *WORDS))
    state = words.group_by("word").persistent_aggregate(SQLiteState(path, table="more"), Count(), "n")

    def look(row: Row) -> None:
        with closing(sqlite3.connect(path)) as reader:
            found.append(reader.execute("SELECT n FROM more WHERE word = ?", [row.word]).fetchone() == (row.n,))

    state.new_values_stream().peek(look)
    run_batches(topology)
    assert found
    assert all(found)


def test_an_error_in_one_rolls_back_the_others_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "words.db"
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))
    words.group_by("word").persistent_aggregate(SQLiteState(path, table="words"), Count(), "n")
    numbers = words.map(lambda row: (row.word, 2**62), "word string, n bigint").group_by("word")
    numbers.persistent_aggregate(SQLiteState(path, table="sums"), Sum("n"), "n")
    config = TridentConfig(max_spout_pending=1)  # the first transaction is not in one group with the second
    with (
        pytest.raises(StateError, match="sums"),
        topology.start(config, coordination=LocalCoordination()) as query,
    ):
        query.process_all_available()
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT sum(n) FROM words").fetchone() == (2,)
        assert reader.execute("SELECT count(*) FROM sums").fetchone() == (2,)


def test_a_topology_goes_on_from_states_that_were_committed_one_by_one(tmp_path: Path) -> None:
    coordination, path = LocalCoordination(), tmp_path / "words.db"
    one = TridentTopology("words")
    words = one.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))
    words.group_by("word").persistent_aggregate(SQLiteState(path, table="words"), Count(), "n")
    words.persistent_aggregate(SQLiteState(tmp_path / "other.db", table="total"), Count(), "n")
    with one.start(coordination=coordination) as query:
        query.process_all_available(60)
    both = TridentTopology("words")
    words = both.new_stream("words", FixedBatchSpout("word string", 2, *WORDS, ("end",)))
    words.group_by("word").persistent_aggregate(SQLiteState(path, table="words"), Count(), "n")
    words.persistent_aggregate(SQLiteState(tmp_path / "other.db", table="total"), Count(), "n")
    words.persistent_aggregate(SQLiteState(path, table="latest"), Count(), "n")
    with both.start(coordination=coordination) as query:
        query.process_all_available(60)
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT sum(n) FROM words").fetchone() == (7,)
        assert reader.execute("SELECT sum(n) FROM latest").fetchone() == (1,)


def test_memory_and_a_file_commit_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "words.db"
    topology = declared(path)
    words = topology.new_stream("more", FixedBatchSpout("word string", 2, *WORDS))
    cache = words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "n")
    more = cache.new_values_stream().group_by("word")
    more.persistent_aggregate(SQLiteState(path, table="more"), Count(), "changes")
    run_batches(topology)
    assert seen(path) == (6, 6, 6)
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT sum(changes) FROM more").fetchone() == (6,)
