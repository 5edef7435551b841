"""States that are shipped keep what they promise: the kit kills them everywhere. No Spark is needed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from trident_py import Count, RedisState, SQLiteState, StateFactory
from trident_py.testing import Report, check_state

pytestmark = pytest.mark.slow


def counted(factory: StateFactory, read: Callable[[], Sequence[Sequence[Any]]]) -> Report:
    return check_state(lambda: factory, read, schema="word string, count bigint", aggregator=Count())


def test_a_sqlite_state_passes(tmp_path: Path) -> None:
    path = tmp_path / "counts.db"

    def read() -> Sequence[Sequence[Any]]:
        with closing(sqlite3.connect(path)) as client:
            return client.execute("SELECT word, count FROM counts").fetchall()

    report = counted(SQLiteState(path, table="counts"), read)
    assert report.ok, str(report)


@pytest.mark.redis
def test_a_redis_state_passes(redis: str) -> None:
    def read() -> Sequence[Sequence[Any]]:
        with closing(Redis.from_url(redis, decode_responses=True)) as client:
            return [(*json.loads(key), int(value)) for key, value in client.hgetall("counts").items()]

    report = counted(RedisState(redis, prefix="counts"), read)
    assert report.ok, str(report)
