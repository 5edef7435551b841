"""A table that many sessions change, copied by a topology: over kills of both in the end, the copy equals the table."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from examples.postgres_copy import copying
from tests.integration.trident_py import changes_program
from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.servers.postgresql import PostgresServer
from trident_py import TridentConfig

pytestmark = [pytest.mark.postgres, pytest.mark.zookeeper]

SECONDS = float(os.environ.get("TRIDENT_TEST_CHANGES_SECONDS", "60"))
"""How long the slow test changes the table."""

SESSIONS, KEYS, LARGE, ENDS_MAX = 4, 60, 3_000, 3
PREPARE = (
    "CREATE TABLE items (id int PRIMARY KEY, n int, doc text)",
    "ALTER TABLE items ALTER doc SET STORAGE EXTERNAL",  # so that a large one is stored outside of its row
    "INSERT INTO items SELECT n, n, repeat('x', n * 100) FROM generate_series(1, 40) AS n",
    "CREATE PUBLICATION shop FOR TABLE items",
)

DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"


def prepare(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in PREPARE:
            connection.execute(statement)


def table(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT id, n, doc FROM items ORDER BY id").fetchall()


def copy_at(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT id, n, doc FROM items ORDER BY id").fetchall()


def change(connection: psycopg.Connection[Any], chance: Random) -> None:
    """Make one change of any kind."""
    id, n = chance.randrange(KEYS), chance.randrange(10**6)
    doc = chance.choice("abc") * chance.choice((10, LARGE))
    kinds: list[tuple[str, list[Any]]] = [
        ("INSERT INTO items VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", [id, n, doc]),
        ("UPDATE items SET n = %s WHERE id = %s", [n, id]),
        ("UPDATE items SET n = %s, doc = %s WHERE id = %s", [n, doc, id]),
        ("UPDATE items SET id = %s, n = %s WHERE id = %s", [chance.randrange(KEYS), n, id]),
        ("DELETE FROM items WHERE id = %s", [id]),
        ("UPDATE items SET n = n + 1", []),
        ("TRUNCATE items", []),
    ]
    ((statement, values),) = chance.choices(kinds, [30, 20, 10, 15, 10, 2, 0.3])
    connection.execute(statement, values)


def run_session(dsn: str, seed: int, ended: threading.Event) -> None:
    """Commit and roll back transactions of many sizes, also while the server is restarted."""
    chance = Random(seed)
    while not ended.is_set():
        with suppress(psycopg.Error, psycopg.Rollback), psycopg.connect(dsn) as connection:  # by a killed server
            while not ended.is_set():
                conflicts = suppress(psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected)
                with conflicts, connection.transaction():
                    for _ in range(chance.choice((1, 1, 2, 5, 200))):
                        change(connection, chance)
                        if chance.random() < 0.02:
                            raise psycopg.Rollback
                ended.wait(chance.random() * 0.05)


@contextmanager
def sessions(dsn: str, number: int = SESSIONS) -> Iterator[None]:
    ended = threading.Event()
    threads = [threading.Thread(target=run_session, args=(dsn, seed, ended)) for seed in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@pytest.mark.long
def test_a_copied_table_equals_the_table(config: TridentConfig, postgres: str, tmp_path: Path) -> None:
    prepare(postgres)
    with copying(postgres, f"sqlite:///{tmp_path / 'copy.db'}").start(config) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert copy_at(tmp_path / "copy.db") == table(postgres)
        chance = Random(1)
        with psycopg.connect(postgres) as connection:
            for _ in range(30):
                with suppress(psycopg.errors.UniqueViolation), connection.transaction():
                    for _ in range(chance.choice((1, 5, 20))):
                        change(connection, chance)
        query.process_all_available(PATIENCE_SECONDS)
        assert copy_at(tmp_path / "copy.db") == table(postgres)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(DROP)


@pytest.mark.slow
def test_a_copied_table_equals_the_table_over_kills_of_topology_and_database(
    fresh_postgres: PostgresServer, zookeeper: str, tmp_path: Path
) -> None:
    dsn, chance, until = fresh_postgres.dsn(), Random(7), time.monotonic() + SECONDS
    prepare(dsn)
    command = [sys.executable, changes_program.__file__, dsn, zookeeper, str(tmp_path)]
    kills = 0
    with sessions(dsn), (tmp_path / "log").open("w") as log:
        while time.monotonic() < until:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(2, 12))
            if chance.random() < 0.3:
                fresh_postgres.kill()
                fresh_postgres.start()
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait()
    for _ in range(ENDS_MAX):  # on a busy machine, ZooKeeper may take the leadership away
        done = subprocess.run([*command, "end"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    assert kills
    assert copy_at(tmp_path / "copy.db") == table(dsn)
