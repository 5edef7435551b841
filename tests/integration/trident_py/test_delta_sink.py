"""`DeltaSink` with Spark: a reader in another process sees whole transactions, and the kit finds nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.topologies import failing_last
from trident_py import (
    DeltaSink,
    DeltaSpout,
    FixedBatchSpout,
    SinkTransaction,
    TopologyKey,
    TransactionAttempt,
    TransactionKey,
    TridentTopology,
)
from trident_py.operations import Sum
from trident_py.states import SQLiteState
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark

READER = """
import os, sys
from collections import Counter
from deltalake import DeltaTable
print(sorted(Counter(DeltaTable(sys.argv[1]).to_pyarrow_table()["n"].to_pylist()).items()), flush=True)
os._exit(0)  # threads of deltalake and pyarrow may abort a process that ends in order
"""


class AskingDeltaSink(DeltaSink):
    """Asks a reader before each commit and after it."""

    seen: list[str] = []  # noqa: RUF012 - of one test

    def look(self) -> None:
        told = subprocess.run(
            [sys.executable, "-c", READER, str(self.details()["table"])], capture_output=True, text=True, check=True
        )
        self.seen.append(told.stdout.strip())

    def commit(self, tx: SinkTransaction, receipt: Any) -> None:
        self.look()
        super().commit(tx, receipt)
        self.look()


def test_a_reader_in_another_process_sees_all_of_a_transaction_or_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows é"
    rows = [(f"a{n % 2}", n // 6) for n in range(12)]
    topology = TridentTopology("rows")
    stream = topology.new_stream("rows", FixedBatchSpout("word string, n bigint", 6, *rows))
    stream.shuffle().write_to(AskingDeltaSink(path, partition_by="word"))
    coordination = LocalCoordination()
    run_batches(topology, coordination, spark)
    assert AskingDeltaSink.seen == [str([(n, 6) for n in range(seen)]) for seen in (0, 1, 1, 2)]
    assert run_batches(topology, coordination, spark) == []
    assert DeltaTable(path).count() == 12


def transaction(attempt: int) -> SinkTransaction:
    return SinkTransaction(TransactionKey("a-uuid", 1, 1), TransactionAttempt(1, attempt), 1)


def test_an_opaque_batch_that_was_committed_and_comes_again_with_other_rows_replaces_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DeltaSink(tmp_path / "drawn")
    sink.recover(TopologyKey("drawn", "a-uuid", 1), 1)
    for attempt, count in ((0, 5), (1, 3), (2, 3)):
        at = "timestamp'2026-11-22 09:30:00.000005Z' AS at"
        rows = spark.range(0, count, 1, 2).selectExpr("id AS `a.b`", at, "map('k', id) AS m")
        sink.commit(transaction(attempt), sink.prepare(transaction(attempt), rows))
        found = DeltaTable(tmp_path / "drawn").to_pyarrow_table().sort_by("a.b").to_pylist()
        assert [row["a.b"] for row in found] == list(range(count))
        assert found[0] == {"a.b": 0, "at": datetime(2026, 11, 22, 9, 30, 0, 5, UTC), "m": [("k", 0)]}


def test_a_job_that_fails_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    sink = DeltaSink(tmp_path / "rows")
    sink.recover(TopologyKey("rows", "a-uuid", 1), 1)
    rows, words = spark.range(0, 8, 1, 4), "cast(id as string) AS word"
    with pytest.raises(Exception, match="broken"):
        sink.prepare(transaction(0), failing_last(rows, tmp_path, 3).selectExpr(words))
    sink.abort(transaction(0), None)
    whole = sink.prepare(transaction(1), rows.selectExpr(words))
    sink.commit(transaction(1), whole)
    assert DeltaTable(tmp_path / "rows").count() == 8
    assert len(list((tmp_path / "rows").glob("trident-*/*/*/*.parquet"))) == 4


def test_what_one_topology_writes_another_one_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.spouts.delta.spout.DRIVER_BYTES", 0)  # tasks read
    rows = [(f"a{n % 3}", n) for n in range(9)]
    writing, reading = TridentTopology("writing"), TridentTopology("reading")
    writing.new_stream("rows", FixedBatchSpout("word string, n bigint", 3, *rows)).write_to(
        DeltaSink(tmp_path / "rows", partition_by="word")
    )
    run_batches(writing, spark=spark)
    words = reading.new_stream("rows", DeltaSpout(tmp_path / "rows", start_version=0)).group_by("word")
    words.persistent_aggregate(SQLiteState(tmp_path / "words.db", table="words"), Sum("n"), "total")
    run_batches(reading, spark=spark)
    with closing(sqlite3.connect(tmp_path / "words.db")) as database:
        assert dict(database.execute("SELECT word, total FROM words")) == {"a0": 9, "a1": 12, "a2": 15}
