"""Shipped states, each with a store and a reader of it that isn't ours. No Spark is needed."""

from __future__ import annotations

import json
import sqlite3 as sqlite_client
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from redis import Redis

from tests.shipped.servers import mariadb_in, postgres_in, redis_in
from trident_py import Count, MySQLState, PostgresState, RedisState, SQLiteState, StateFactory
from trident_py.testing import Report, check_state

QUERY = "SELECT word, count FROM counts"


def _counted(factory: StateFactory, read: Callable[[], Sequence[Sequence[Any]]]) -> Report:
    return check_state(lambda: factory, read, schema="word string, count bigint", aggregator=Count())


def sqlite(directory: Path) -> Report:
    """A table in a file."""
    path = directory / "counts.db"

    def read() -> Sequence[Sequence[Any]]:
        with closing(sqlite_client.connect(path)) as client:
            return client.execute(QUERY).fetchall()

    return _counted(SQLiteState(path, table="counts"), read)


def sqlite_shards(directory: Path) -> Report:
    """A table in three files, with a fourth one for the token."""
    path = directory / "counts.db"

    def read() -> Sequence[Sequence[Any]]:
        with closing(sqlite_client.connect(path)) as client:
            ((script,),) = client.execute("SELECT script FROM _counts_shards").fetchall()
            client.executescript(script)
            return client.execute(QUERY).fetchall()

    return _counted(SQLiteState(path, table="counts", shards=3), read)


def postgres(directory: Path) -> Report:
    """A table of a server."""
    with postgres_in(directory) as dsn:

        def read() -> Sequence[Sequence[Any]]:
            with psycopg.connect(dsn) as client:
                return client.execute(QUERY).fetchall()

        return _counted(PostgresState(dsn, table="counts"), read)


def mysql(directory: Path) -> Report:
    """A table of a server."""
    with mariadb_in(directory) as server:
        return _counted(MySQLState(server.url(), table="counts"), lambda: server.run(QUERY, database="test"))


def redis(directory: Path) -> Report:
    """A hash of a server."""
    with redis_in(directory) as url:

        def read() -> Sequence[Sequence[Any]]:
            with closing(Redis.from_url(url, decode_responses=True)) as client:
                return [(*json.loads(key), int(value)) for key, value in client.hgetall("counts").items()]

        return _counted(RedisState(url, prefix="counts"), read)
