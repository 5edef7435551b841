"""A table that many sessions write to, read by a topology: each row counts once, however late it is committed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import psycopg
import pytest
from attrs import evolve
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.integration.trident_py.test_windows import Failing
from trident_py import PostgresState, SQLSpout, Sum, TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.zookeeper]

SESSIONS, ROUNDS = 4, 12


@pytest.fixture
def writing(postgres: str) -> Iterator[threading.Event]:
    """Sessions that insert with gaps, and commit in another order than they have drawn ids; set when they ended."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigserial PRIMARY KEY, amount bigint)")
    ended, drawn = threading.Event(), threading.Barrier(SESSIONS)

    def write(number: int) -> None:
        chance = Random(number)
        with psycopg.connect(postgres) as connection:
            for _ in range(ROUNDS):
                drawn.wait(PATIENCE_SECONDS)
                connection.execute("INSERT INTO orders (amount) VALUES (1), (1)")
                if chance.random() < 0.3:
                    connection.rollback()
                    connection.execute("INSERT INTO orders (amount) VALUES (1)")
                connection.commit()

    def run() -> None:
        with ThreadPoolExecutor(SESSIONS) as sessions:
            list(sessions.map(write, range(SESSIONS)))
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    yield ended
    thread.join()


def test_rows_of_sessions_that_commit_late_count_once_over_failures(
    spark: SparkSession, config: TridentConfig, postgres: str, writing: threading.Event, tmp_path: Path
) -> None:
    failing, topology = Failing({2, 4}), TridentTopology("orders")
    orders = topology.new_stream("orders", SQLSpout(postgres, "orders", "id", 200, max_records_per_batch=7))
    orders.persistent_aggregate(PostgresState(postgres, table="totals"), Sum("amount"), "total")
    orders.partition_persist(failing, failing, ["id"])
    with topology.start(evolve(config, max_spout_pending=3), spark=spark) as query:
        assert writing.wait(PATIENCE_SECONDS)
        query.process_all_available(PATIENCE_SECONDS)
    with psycopg.connect(postgres) as connection:
        expected = connection.execute("SELECT sum(amount) FROM orders").fetchone()
        assert connection.execute("SELECT total FROM totals").fetchone() == expected
    assert failing.failed == {2, 4}
