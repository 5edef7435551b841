"""The central token of a state in shards: what a takeover accepts, and how it moves on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, commit, made_by, transaction
from trident_py.errors import FencedError, StateError
from trident_py.interfaces.sinks import CommitToken, TopologyKey
from trident_py.interfaces.states import FencedState
from trident_py.rows.schema import schema_of
from trident_py.states.sql.central_token import CentralToken
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.sql.sqlite_database import SQLITE, SQLiteDatabase
from trident_py.states.sql.table import Table

TABLE = Table.of(SQLITE, "counts", schema_of("word string"), schema_of("count bigint").fields[0])


def state(at: Path, shards: int, value: str = "count bigint", table: str = "counts") -> FencedState[Any]:
    return made_by(SQLiteState(at / "s.db", table=table, shards=shards), value=value)


def filled(at: Path, shards: int) -> set[str]:
    """A state with one transaction; the names of its files."""
    with closing(state(at, shards)) as made:
        made.recover(TOPOLOGY, 1)
        commit(made, transaction(1), {"a": 1, "b": 2, **{f"w{number}": 1 for number in range(20)}})
    return names(at)


def names(at: Path) -> set[str]:
    return {path.name for path in at.iterdir() if not path.name.endswith(("-wal", "-shm"))}


# --- the number of shards ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (2, 3, "has 2 shards, declared are 3, .*to fix this: declare shards=2; or use another table"),
        (3, 2, "has 3 shards, declared are 2, .*to fix this: declare shards=3"),
        (1, 2, "was made without shards, declared are 2, .*declare shards=1"),
        (2, 1, "has the fields word string, count bigint in 2 shards, declared are word string, count bigint"),
    ],
)
def test_another_number_of_shards_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, before: int, now: int, said: str
) -> None:
    files = filled(tmp_path, before)
    with (
        closing(state(tmp_path, now)) as other,
        pytest.raises(StateError, match=f"'wordcount': table 'counts' .*{said}"),
    ):
        other.recover(TOPOLOGY, 2)
    assert names(tmp_path) == files
    with closing(state(tmp_path, before)) as same:
        assert same.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)
        assert same.multi_get([("a",), ("b",)]) == [1, 2]


@pytest.mark.parametrize(("before", "now"), [(2, 3), (3, 2), (1, 2), (2, 1)])
def test_after_a_reset_the_number_may_be_another_and_the_old_rows_are_set_aside(
    tmp_path: Path, before: int, now: int
) -> None:
    filled(tmp_path, before)
    newer = evolve(TOPOLOGY, incarnation=2)
    with closing(state(tmp_path, now)) as other:
        assert other.recover(newer, 2) is None
        assert other.multi_get([("a",)]) == [None]
        commit(other, transaction(1, epoch=2, topology=newer), {"a": 5})
    with closing(state(tmp_path, now)) as again:
        assert again.recover(newer, 3) == CommitToken(1, 2, 0)
        assert again.multi_get([("a",), ("b",)]) == [5, None]
    name = "s.db" if before == 1 else "s.db-counts-0"
    aside = "_counts_incarnation_1" if before == 1 else "_counts_0_incarnation_1"
    if before == 1 or now > 1:
        with closing(sqlite3.connect(tmp_path / name)) as client:
            assert client.execute(f"SELECT max(_txid) FROM {aside}").fetchone() == (1,)  # noqa: S608


# --- what else a takeover refuses, before it makes a file -------------------------------------------------------------


def test_a_takeover_that_is_refused_makes_no_file(tmp_path: Path) -> None:
    files = filled(tmp_path, 2)
    with closing(state(tmp_path, 2, value="count double")) as other, pytest.raises(StateError, match="has the fields"):
        other.recover(TOPOLOGY, 2)
    with closing(state(tmp_path, 2)) as other, pytest.raises(StateError, match="belongs to topology 'wordcount'"):
        other.recover(TopologyKey("other", "77aa", 1), 9)
    with closing(sqlite3.connect(tmp_path / "s.db")) as client:
        client.execute("CREATE TABLE mine AS SELECT 1 AS count")
    with closing(state(tmp_path, 2, table="mine")) as other, pytest.raises(StateError, match="not made by a topology"):
        other.recover(TOPOLOGY, 2)
    assert names(tmp_path) == files


def test_a_file_that_can_t_be_a_database_makes_no_shards(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"word,count\n" * 500)
    with closing(state(tmp_path, 2)) as made, pytest.raises(StateError, match="file is not a database"):
        made.recover(TOPOLOGY, 1)
    assert names(tmp_path) == {"s.db"}


def test_two_states_of_one_file_have_shards_of_their_own(tmp_path: Path) -> None:
    with closing(state(tmp_path, 2)) as counts, closing(state(tmp_path, 2, table="others")) as others:
        for each in (counts, others):
            each.recover(TOPOLOGY, 1)
        commit(counts, transaction(1), {"a": 1})
        commit(others, transaction(1), {"a": 2})
        assert (counts.multi_get([("a",)]), others.multi_get([("a",)])) == ([1], [2])
    with closing(state(tmp_path, 2)) as twice, closing(state(tmp_path, 2)) as same:
        twice.recover(TOPOLOGY, 2)
        with pytest.raises(StateError, match="twice"):
            same.recover(TOPOLOGY, 2)


# --- the token --------------------------------------------------------------------------------------------------------


def central(at: Path) -> CentralToken:
    return CentralToken(SQLiteDatabase(at / "s.db"), TABLE, 2, None)


def test_the_token_goes_on_by_one_transaction_or_to_another_attempt(tmp_path: Path) -> None:
    with closing(central(tmp_path)) as token:
        assert token.recover(TOPOLOGY, 1) is None
        for txid in (1, 2):
            assert token.due([transaction(txid)]) == 1
            token.advance([transaction(txid)])
        assert token.due([transaction(2)]) == 0
        assert token.due([transaction(2, 1)]) == 1
        token.advance([transaction(2, 1)])
    with closing(central(tmp_path)) as token:
        assert token.recover(TOPOLOGY, 2) == CommitToken(2, 1, 1)


def test_a_token_whose_commit_was_not_told_is_read_again(tmp_path: Path) -> None:
    with closing(central(tmp_path)) as token:
        token.recover(TOPOLOGY, 1)
        token.advance([transaction(1)])
        before = token.known
        token.advance([transaction(2)])
        token.known = before
        assert token.due([transaction(2, 1)]) == 1
        assert token.token == CommitToken(2, 1, 0)


def test_an_older_leader_moves_it_no_more(tmp_path: Path) -> None:
    with closing(central(tmp_path)) as old, closing(central(tmp_path)) as new:
        old.recover(TOPOLOGY, 1)
        old.advance([transaction(1)])
        new.recover(TOPOLOGY, 2)
        with pytest.raises(FencedError):
            old.advance([transaction(2)])
        with pytest.raises(FencedError):
            old.advance([transaction(1, 1)])
        assert new.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)
