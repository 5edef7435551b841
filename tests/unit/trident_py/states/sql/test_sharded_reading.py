"""Readers of a state in shards: any client by the stored script, and another topology by a static state."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, made_by, transaction
from tests.unit.trident_py.states.sql.test_removals import at, commit
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.states import FencedState
from trident_py.states.sql import sharded_reading
from trident_py.states.sql.reading import TableReader
from trident_py.states.sql.sharded_reading import ShardsLink, split_columns
from trident_py.states.sql.sqlite import SHARDS_MAX, SQLiteState
from trident_py.states.sql.sqlite_database import SQLiteLink

TTL = timedelta(seconds=10)


@contextmanager
def opened(
    path: Path, shards: int = 2, ttl: timedelta | None = None, keys: str = "word string"
) -> Iterator[FencedState[Any]]:
    with closing(made_by(SQLiteState(path, table="counts", shards=shards, ttl=ttl), keys)) as state:
        state.recover(TOPOLOGY, 1)
        yield state


def read(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as client:
        ((script,),) = client.execute("SELECT script FROM _counts_shards").fetchall()
        client.executescript(script)
        return sorted(client.execute(query).fetchall())


def reader(path: Path, shards: int = 2) -> TableReader:
    made = SQLiteState(path, table="counts", shards=shards).for_reading().make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(made, TableReader)
    return made


def torn(state: Any, tx: Any, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All shards get the transaction, and the central file doesn't."""

    def busy(*_: Any) -> None:
        raise StoreBusyException("busy")

    with monkeypatch.context() as patched:
        patched.setattr(state._central, "advance", busy)
        with pytest.raises(StoreBusyException):
            commit(state, tx, changes)
    state.rollback()


def test_any_client_reads_all_keys_after_it_ran_the_stored_script(tmp_path: Path) -> None:
    path = tmp_path / "it's here.db"
    with opened(path, keys="word string, day date") as state:
        commit(state, transaction(1), {})
        state.begin_group([transaction(2)])
        state.begin_member(transaction(2))
        state.multi_put([("a", None), (None, None), ("b", None)], [1, 2, 3])
        state.commit_group()
        assert read(path, "SELECT word, count FROM counts WHERE word IS NOT NULL") == [("a", 1), ("b", 3)]
        assert read(path, "SELECT count(*), sum(count) FROM counts") == [(3, 6)]


def test_as_many_files_as_sqlite_attaches_are_read_together(tmp_path: Path) -> None:
    words = {f"w{number}": 1 for number in range(50)}
    with opened(tmp_path / "s.db", SHARDS_MAX) as state:
        commit(state, transaction(1), words)
        assert dict(read(tmp_path / "s.db", "SELECT word, count FROM counts")) == words
        assert dict(state.get_tuples()) == words  # type: ignore[attr-defined]


@pytest.mark.parametrize("ttl", [None, TTL])
def test_a_transaction_that_only_shards_have_is_not_seen_by_any_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ttl: timedelta | None
) -> None:
    path = tmp_path / "s.db"
    with opened(path, ttl=ttl) as state:
        commit(state, at(0, 1), {"a": 1, "b": 2, "c": 3, "d": 4})
        commit(state, at(6, 2), {"c": 3, "d": 4})
        torn(state, at(14, 3), {"a": 5, "b": REMOVE, "c": 5, "d": REMOVE, "e": 5}, monkeypatch)
        before = {"a": 1, "b": 2, "c": 6, "d": 8}
        assert dict(read(path, "SELECT word, count FROM counts")) == before
        assert dict(state.get_tuples()) == before  # type: ignore[attr-defined]
        with closing(reader(path)) as other:
            assert other.multi_get([(word,) for word in "abcde"]) == [1, 2, 6, 8, None]
        commit(state, at(14, 3, 1), {"a": 5, "c": 1})
        after = {"a": 5, "c": 7, "d": 8} if ttl else {"a": 6, "b": 2, "c": 7, "d": 8}
        assert dict(read(path, "SELECT word, count FROM counts")) == after
        torn(state, at(14, 3, 2), {"a": REMOVE, "b": 9, "c": REMOVE, "d": 9, "e": 9}, monkeypatch)
        assert dict(read(path, "SELECT word, count FROM counts")) == after


def test_one_key_is_found_without_reading_the_others(tmp_path: Path) -> None:
    with opened(tmp_path / "s.db") as state:
        commit(state, transaction(1), {"a": 1})
        plan = read(tmp_path / "s.db", "EXPLAIN QUERY PLAN SELECT word, count FROM counts WHERE _key = '[\"a\"]'")
        told = [row[3] for row in plan]
    assert len([each for each in told if each == "SEARCH r USING PRIMARY KEY (_key=?)"]) == 6
    assert not [each for each in told if each.startswith("SCAN r")]


def test_another_topology_reads_it_and_sees_each_commit(tmp_path: Path) -> None:
    with opened(tmp_path / "s.db") as state, closing(reader(tmp_path / "s.db")) as other:
        assert other.get_tuples() == []
        commit(state, transaction(1), {"a": 1, "b": 1})
        assert sorted(other.get_tuples()) == [("a", 1), ("b", 1)]
        commit(state, transaction(2), {"a": 1})
        assert other.multi_get([("a",), ("b",), ("c",)]) == [2, 1, None]
        assert other.keys.names == ["word"]


def test_a_reader_is_told_what_it_can_t_read(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no topology has made such a table"):
        reader(tmp_path / "s.db")
    with opened(tmp_path / "s.db"), pytest.raises(StateError, match="has 2 shards, declared are 3"):
        reader(tmp_path / "s.db", 3)
    with closing(sqlite3.connect(tmp_path / "other.db")) as client:
        client.execute("CREATE TABLE counts AS SELECT 1 AS count")
    with pytest.raises(StateError, match="no topology has made such a table"):
        reader(tmp_path / "other.db")


@pytest.mark.parametrize("times", [3, 5])
def test_a_reader_begins_again_while_shards_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Two transactions commit after it has seen the central file, and before it sees the shards."""
    begin, txids = SQLiteLink.begin, iter(range(1, 2 * times + 2))

    def late(link: SQLiteLink) -> sqlite3.Connection:
        connection = begin(link)
        if isinstance(link, ShardsLink):
            connection.execute("SELECT txid FROM main._trident").fetchall()
            for txid in itertools.islice(txids, 2):
                commit(state, transaction(txid), {"a": 1})
        return connection

    monkeypatch.setattr(sharded_reading, "READ_TRIES", 5)
    with opened(tmp_path / "s.db") as state, closing(reader(tmp_path / "s.db")) as other:
        commit(state, transaction(next(txids)), {"a": 1})
        monkeypatch.setattr(SQLiteLink, "begin", late)
        if times < 5:
            assert other.multi_get([("a",)]) == [2 * times + 1]
        else:
            with pytest.raises(StoreBusyException, match="its shards changed whenever it was read"):
                other.multi_get([("a",)])


def test_columns_with_the_number_of_shards_are_told_from_others() -> None:
    assert split_columns("word string, count bigint in 4 shards") == ("word string, count bigint", 4)
    assert split_columns("in 4 shards bigint") == ("in 4 shards bigint", 1)
    assert split_columns("x bigint in many shards") == ("x bigint in many shards", 1)
