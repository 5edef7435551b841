"""A replication slot over a real server: reading consumes nothing, and a snapshot has the rows of its moment."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from coordinators.values.secret import Secret
from trident_py.errors import StoreBusyException
from trident_py.spouts.postgres import log as module
from trident_py.spouts.postgres.changes import Position, changes_after
from trident_py.spouts.postgres.log import PostgresLog, layout_of
from trident_py.states.sql.postgres_client import Target

pytestmark = pytest.mark.postgres


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION p FOR TABLE t")
        yield connection


@pytest.fixture
def log(postgres: str, connection: psycopg.Connection) -> Iterator[PostgresLog]:
    made = PostgresLog(
        where="w", target=Target(Secret(postgres)), publication="p", as_text=(), prefix="log_", run="one"
    )
    yield made
    for slot in made.slots():
        made.drop(slot)
    made.close()


def test_a_log_is_read_in_portions_again_and_again_until_it_is_released(
    log: PostgresLog, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_PORTION", 2)
    connection.execute("INSERT INTO t SELECT generate_series(1, 5)")
    snapshot = log.create("log_1", layout_of(log.target, "p", ()))
    connection.execute("INSERT INTO t SELECT generate_series(6, 9)")
    portions = [rows for _, rows in snapshot.rows]
    assert portions == [[("1",), ("2",)], [("3",), ("4",)], [("5",)]]
    assert list(log.slots()) == ["log_1"]
    first, again = (list(changes_after(Position(snapshot.lsn), log.read("log_1"))) for _ in range(2))
    assert first == again
    assert len(first) == 4
    halfway = changes_after(Position(snapshot.lsn), log.read("log_1"))
    assert next(halfway) == first[0]
    assert log.look("log_1").confirmed == snapshot.lsn
    assert list(halfway) == first[1:], "what was read is kept by the server"
    log.advance("log_1", first[-1].after.lsn)
    log.advance("log_1", snapshot.lsn)  # never back
    assert list(log.read("log_1")) == []


def test_a_log_whose_connection_broke_is_read_again(log: PostgresLog, connection: psycopg.Connection) -> None:
    snapshot = log.create("log_1", layout_of(log.target, "p", ()))
    assert [rows for _, rows in snapshot.rows] == [[]]
    connection.execute("INSERT INTO t SELECT generate_series(1, 3000)")
    reading = log.read("log_1")
    next(reading)
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'trident ch%'"
    )
    with pytest.raises(StoreBusyException, match="w: "):
        list(reading)
    assert sum(1 for _ in changes_after(Position(snapshot.lsn), log.read("log_1"))) == 3000
