"""Two states, and sinks beside them and behind new values, in one database of each kind: one transaction for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.unit.trident_py.states.sql.everywhere import select
from tests.unit.trident_py.states.sql.everywhere import url as url
from trident_py import Count, FixedBatchSpout, MySQLState, PostgresState, SQLiteState, SQLSink, TridentTopology
from trident_py.interfaces.states import StateFactory
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark

WORDS = [("a",), ("b",), ("a",), ("c",)]


def state(url: str, table: str) -> StateFactory:
    kind, _, path = url.partition("://")
    match kind:
        case "sqlite":
            return SQLiteState(Path(path.removeprefix("/")), table=table)
        case "mysql":
            return MySQLState(url, table=table)
    return PostgresState(url.replace("127.0.0.1", "localhost"), table=table)


def test_states_and_sinks_of_a_database_commit_together(spark: SparkSession, url: str) -> None:
    topology = TridentTopology("together")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))
    counts = words.group_by("word").persistent_aggregate(state(url, "counts"), Count(), "n")
    words.persistent_aggregate(state(url, "total"), Count(), "n")
    words.name("log").write_to(SQLSink(url, "log"))
    counts.new_values_stream().name("latest").write_to(SQLSink(url, "latest", mode="upsert", keys="word"))
    told = [" ".join(line.split()) for line in topology.explain().splitlines()]
    together = {line.partition(" with ")[2] for line in told if line.startswith("in one transaction of")}
    assert together == {"total, log, latest", "counts, log, latest", "counts, total, latest", "counts, total, log"}
    coordination = LocalCoordination()
    for _ in range(2):
        run_batches(topology, coordination, spark)
    found: dict[str, Any] = {
        table: select(url, f"SELECT {columns} FROM {table}")  # noqa: S608
        for table, columns in {"counts": "word, n", "latest": "word, n", "total": "n", "log": "count(*)"}.items()
    }
    assert found["counts"] == found["latest"]
    assert (found["total"], found["log"]) == ([(4,)], [(4,)])
    tokens = select(url, "SELECT txid, epoch, attempt_id FROM _trident")
    assert len(tokens) == 4
    assert len(set(tokens)) == 1
