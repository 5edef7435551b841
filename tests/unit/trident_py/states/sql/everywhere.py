"""The stores that contracts are held on: one each in a file, or in a database of a server of the test run's."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from coordinators.values.secret import Secret
from trident_py.interfaces.states import StateFactory
from trident_py.states.memory import MemoryMapState
from trident_py.states.redis.redis import RedisState
from trident_py.states.sql.mysql import MySQLDatabase, MySQLState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState

DATABASES = (
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mysql", marks=pytest.mark.mysql),
)
STORES = ("memory", "shards", *DATABASES, pytest.param("redis", marks=pytest.mark.redis))


def factory_over(request: pytest.FixtureRequest, tmp_path: Path, ttl: timedelta | None = None) -> StateFactory:
    """Return a factory over the store that is the fixture's parameter; the same one each time."""
    match request.param:
        case "memory":
            return MemoryMapState.factory(ttl=ttl)
        case "sqlite":
            return SQLiteState(tmp_path / "s.db", table="counts", ttl=ttl)
        case "shards":
            return SQLiteState(tmp_path / "s.db", table="counts", ttl=ttl, shards=3)
        case "redis":
            return RedisState(request.getfixturevalue("redis"), prefix="counts", ttl=ttl)
        case "mysql":
            return MySQLState(request.getfixturevalue("mysql"), table="counts", ttl=ttl)
    return PostgresState(request.getfixturevalue("postgres"), table="counts", ttl=ttl)


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rows.db'}"
    found: str = request.getfixturevalue(request.param)
    if request.param == "mysql":
        return found
    return as_url(found)


def as_url(dsn: str) -> str:
    """The DSN of a PostgreSQL database as a URL."""
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    user, password = parts["user"], str(parts["password"]).replace("%", "%25").replace("/", "%2F").replace("@", "%40")
    return f"postgresql://{user}:{password}@{parts['host']}:{parts['port']}/{parts['dbname']}"


def select(url: str, query: str) -> Any:
    """What another client sees, or does."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as client:
            return sorted(client.execute(query).fetchall())
    if url.startswith("mysql"):
        session = MySQLDatabase(Secret(url)).connect()
        with closing(session.client):
            return sorted(session.execute(query).fetchall())
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query.encode())
        return sorted(found.fetchall()) if found.description else []


def changed(url: str, statement: str) -> None:
    """Another client changes something."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as client:
            client.execute(statement)
            client.commit()
    elif url.startswith("mysql"):
        session = MySQLDatabase(Secret(url)).connect()
        with closing(session.client):
            session.execute(statement)
    else:
        select(url, statement)
