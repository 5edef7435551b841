"""The file of a history."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.trident_py.history.told import ALL_GOOD, LIFE, PROGRAM
from trident_py.errors import HistoryError
from trident_py.history.database import history_at
from trident_py.history.entries import Entries


def test_nobody_else_may_read_it_nor_what_lies_beside_it(tmp_path: Path) -> None:
    with closing(history_at(tmp_path / "history.db")) as database:
        database.write(Entries(PROGRAM).take(ALL_GOOD))
        files = sorted(tmp_path.iterdir())
        assert [each.name for each in files] == ["history.db", "history.db-shm", "history.db-wal"]
        assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


def test_it_is_read_by_any_client_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(history_at(path)) as database, closing(sqlite3.connect(path)) as client:
        database.write(Entries(PROGRAM).take(ALL_GOOD))
        assert client.execute("SELECT txid, phase FROM trident_attempts").fetchall() == [(1, "committed")]
        client.execute("BEGIN")
        client.execute("SELECT * FROM trident_attempts").fetchall()
        database.write(Entries(PROGRAM).take(ALL_GOOD))


def test_what_is_no_database_is_named_and_the_next_use_tries_again(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_text("this is no database, and long enough to be taken for one" * 100)
    with closing(history_at(path)) as database:
        with pytest.raises(HistoryError, match=r"the history in .*history\.db: file is not a database"):
            database.write(Entries(PROGRAM).take(ALL_GOOD))
        path.unlink()
        database.write(Entries(PROGRAM).take(ALL_GOOD))
        assert len(database.attempts(LIFE, 1, 1)) == 1


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    with closing(history_at(tmp_path / "history.db", reads=True)) as reader, pytest.raises(HistoryError):
        reader.topologies()
    assert list(tmp_path.iterdir()) == []


def test_where_no_directory_can_be_made_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HistoryError, match=r"history\.db"):
        history_at(tmp_path / "file" / "history.db").write(Entries(PROGRAM).take(ALL_GOOD))
