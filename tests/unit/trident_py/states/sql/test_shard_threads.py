"""Each shard is used by one thread, and calls wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from trident_py.rows.schema import schema_of
from trident_py.states.sql.shard import Shard
from trident_py.states.sql.shard_threads import ShardThreads
from trident_py.states.sql.sqlite_database import SQLITE, SQLiteDatabase
from trident_py.states.sql.table import Table

TABLE = Table.of(SQLITE, "counts", schema_of("word string"), schema_of("count bigint").fields[0])


@pytest.fixture
def threads(tmp_path: Path) -> Iterator[ShardThreads]:
    shards = [Shard(SQLiteDatabase(tmp_path / f"{number}.db"), TABLE) for number in range(3)]
    with closing(ShardThreads(shards)) as found:
        found.start("counts")
        yield found


def test_all_shards_are_called_side_by_side_each_on_its_thread(threads: ShardThreads) -> None:
    together = threading.Barrier(3)

    def called(shard: Shard) -> tuple[Shard, str]:
        together.wait(60)
        return shard, threading.current_thread().name

    found = threads.each(called)
    assert [shard for shard, _ in found] == list(threads.shards)
    assert [name.rpartition("_")[0] for _, name in found] == [f"counts-shard-{number}" for number in range(3)]
    assert threads.each(called) == found


def test_those_that_are_not_wanted_are_left_out(threads: ShardThreads) -> None:
    assert threads.each(threads.shards.index, [False, True, False]) == [1]
    assert threads.each(threads.shards.index, [False] * 3) == []
    assert threads.each_with("abc", lambda shard, part: (threads.shards.index(shard), part)) == [*enumerate("abc")]


def test_the_error_of_the_first_shard_is_raised_when_all_have_ended(threads: ShardThreads) -> None:
    ended = []

    def fails(shard: Shard) -> None:
        number = threads.shards.index(shard)
        ended.append(number)
        if number:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        threads.each(fails)
    assert sorted(ended) == [0, 1, 2]


def test_a_call_that_was_begun_raises_when_it_is_waited_for_and_once(threads: ShardThreads) -> None:
    def fails(_: Shard) -> None:
        raise ValueError("full")

    threads.begin(1, fails)
    with pytest.raises(ValueError, match="full"):
        threads.settle()
    threads.settle()
    threads.begin(1, fails)
    threads.abandon()
    threads.settle()
