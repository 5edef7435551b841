"""A shard that is ahead of the central token keeps the values that readers see."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, transaction
from tests.unit.trident_py.states.sql.test_removals import commit
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import CommitToken
from trident_py.rows.schema import schema_of
from trident_py.states.sql.shard import Shard
from trident_py.states.sql.sqlite_database import SQLITE, SQLiteDatabase
from trident_py.states.sql.table import Table

TABLE = Table.of(SQLITE, "counts", schema_of("word string"), schema_of("count bigint").fields[0])
FIRST = {"a": 1, "b": 1, "c": 1}
SECOND = {"a": 5, "b": REMOVE, "c": REMOVE, "new": 1}


def made(at: Path) -> Shard:
    return Shard(SQLiteDatabase(at / "shard.db"), TABLE)


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    """A shard with two transactions; the central token is at the second one."""
    with closing(made(tmp_path)) as found:
        found.recover(TOPOLOGY, 1)
        for txid, changes in ((1, FIRST), (2, SECOND)):
            found.central = found.token
            commit(found, transaction(txid), changes)
        found.central = found.token
        yield found


def kept(at: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(at / "shard.db")) as client:
        return sorted(client.execute("SELECT word, count, _gone FROM _counts_replaced").fetchall())


CHANGES_OF_SECOND = [("a", 6, 0), ("b", 1, 1), ("c", 1, 1), ("new", 1, 0)]


@pytest.mark.usefixtures("shard")
def test_the_first_attempt_keeps_nothing(tmp_path: Path) -> None:
    assert kept(tmp_path) == []


def test_an_attempt_keeps_the_changes_of_the_central_one_that_it_replaces(shard: Shard, tmp_path: Path) -> None:
    commit(shard, transaction(2, 1), {"b": 7})
    assert kept(tmp_path) == CHANGES_OF_SECOND
    commit(shard, transaction(2, 2), {"c": 7})
    assert kept(tmp_path) == CHANGES_OF_SECOND
    shard.central = shard.token
    commit(shard, transaction(2, 3), {})
    assert kept(tmp_path) == [("a", 1, 0), ("b", 1, 0), ("c", 8, 0)]  # with those that were put back


def test_what_is_removed_and_written_again_counts_as_written(shard: Shard, tmp_path: Path) -> None:
    commit(shard, transaction(2, 1), {})
    shard.begin_group([transaction(2, 2)])
    shard.begin_member(transaction(2, 2))
    shard.multi_remove([("a",)])
    shard.multi_put([("a",)], [3])
    shard.commit_group()
    shard.central = shard.token
    commit(shard, transaction(2, 3), {})
    assert kept(tmp_path) == [("a", 3, 0), ("b", 1, 0), ("c", 1, 0)]


def test_a_takeover_reads_the_central_token_of_the_last_commit(shard: Shard, tmp_path: Path) -> None:
    commit(shard, transaction(3), {"a": 1})
    shard.close()
    with closing(made(tmp_path)) as again:
        again.recover(TOPOLOGY, 2)
        assert (again.token, again.after) == (CommitToken(3, 1, 0), CommitToken(2, 1, 0))


def test_a_new_incarnation_forgets_both(shard: Shard, tmp_path: Path) -> None:
    commit(shard, transaction(2, 1), {"b": 7})
    shard.close()
    with closing(made(tmp_path)) as again:
        again.recover(evolve(TOPOLOGY, incarnation=2), 2)
        assert (again.token, again.after, kept(tmp_path)) == (None, None, [])
