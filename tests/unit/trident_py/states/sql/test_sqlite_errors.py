from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from trident_py.errors import FailedException, StateError
from trident_py.states.sql.sqlite_database import explained, writers_of


def raised(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "way_out"),
    [
        (sqlite3.SQLITE_NOTADB, "give another path, or move the file away"),
        (sqlite3.SQLITE_CORRUPT, "restore the file from a backup"),
        (sqlite3.SQLITE_READONLY | (1 << 8), "make the file and its directory writable"),
        (sqlite3.SQLITE_CANTOPEN, "make the file and its directory writable"),
        (sqlite3.SQLITE_FULL, "free some space"),
        (sqlite3.SQLITE_IOERR | (3 << 8), "see to the disk"),
        (sqlite3.SQLITE_ERROR, "nothing was committed"),
    ],
)
def test_each_cause_comes_with_its_way_out(code: int, way_out: str) -> None:
    with pytest.raises(StateError, match=f"counts.db: what SQLite says; .*{way_out}"), explained("counts.db"):
        raise raised(code)


def test_a_value_that_a_constraint_refuses_counts_as_a_failure_of_the_batch() -> None:
    told = "counts.db: what SQLite says; to fix this: correct the value before it gets here, or change the constraint"
    with pytest.raises(FailedException, match=told) as error, explained("counts.db"):
        raise raised(sqlite3.SQLITE_CONSTRAINT | (1 << 8))
    assert type(error.value) is FailedException


@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY | (2 << 8), sqlite3.SQLITE_LOCKED])
def test_a_lock_only_fails_the_attempt(code: int) -> None:
    with pytest.raises(FailedException, match=r"counts.db: another process keeps it locked"), explained("counts.db"):
        raise raised(code)


def test_values_that_cannot_be_bound_are_explained() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(FailedException, match="beyond 64 bits"), explained("counts.db"):
        connection.execute("SELECT ?", (2**63,))
    with pytest.raises(StateError, match="is not Unicode text"), explained("counts.db"):
        connection.execute("SELECT ?", ("\ud800",))
    with pytest.raises(StateError, match=r"counts.db: .*nothing was committed"), explained("counts.db"):
        connection.execute("SELECT ?", (object(),))
    connection.close()


def test_who_has_the_write_lock_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "counts.db"
    assert writers_of(path) == []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN")
        assert writers_of(path) == []
        connection.execute("CREATE TABLE counts (n)")
        assert [pid for pid, _ in writers_of(path)] == [os.getpid()]
        connection.execute("COMMIT")
        assert writers_of(path) == []
