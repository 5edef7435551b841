"""A topology into a real Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.redis_visits import visits
from tests.servers.redis_server import RedisServer
from trident_py import Count, FixedBatchSpout, RedisState, StateError, TridentTopology
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.redis

LINE = '192.0.2.1 - - [23/Nov/2026:02:03:04 +0000] "GET {} HTTP/1.1" 200 17\n'


def test_the_example_counts_each_line_once_over_restarts(redis: str, redis_server: RedisServer, tmp_path: Path) -> None:
    coordination, log = LocalCoordination(), tmp_path / "access.log"
    for _ in range(2):
        with log.open("a") as file:
            file.writelines(LINE.format(page) for page in ("/", "/a", "/"))
        run_batches(visits(redis, str(log)), coordination)
    with redis_server.client() as client:
        assert client.hgetall("visits") == {'["/"]': "4", '["/a"]': "2"}


def test_values_that_were_lost_stop_the_next_start_by_name(redis: str, redis_server: RedisServer) -> None:
    coordination = LocalCoordination()

    def topology() -> TridentTopology:
        made = TridentTopology("words")
        words = made.new_stream("words", FixedBatchSpout("word string", 1, ("a",), ("b",)))
        words.group_by("word").persistent_aggregate(RedisState(redis, prefix="counts"), Count(), "count")
        return made

    run_batches(topology(), coordination)
    with redis_server.client() as client:
        client.flushall()
    with pytest.raises(StateError, match="counts"):
        run_batches(topology(), coordination)
