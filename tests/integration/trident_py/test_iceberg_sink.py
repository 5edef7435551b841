"""`IcebergSink` with Spark: a reader in another process sees whole transactions, and the kit finds nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.topologies import failing_last
from tests.unit.trident_py.sinks.iceberg.tables import NAME, catalog_at, files_in, rows_in, table_at
from tests.unit.trident_py.sinks.tables.leaders import TOPOLOGY, transaction
from trident_py import FixedBatchSpout, IcebergSink, SinkTransaction, TridentTopology
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark

READER = """
import sys
from collections import Counter
from pyiceberg.catalog import load_catalog
table = load_catalog(type="sql", uri=sys.argv[1]).load_table(sys.argv[2])
print(sorted(Counter(table.scan().to_arrow()["n"].to_pylist()).items()))
"""


class AskingIcebergSink(IcebergSink):
    """Asks a reader after each commit, and before the first."""

    seen: list[str] = []  # noqa: RUF012 - of one test
    path: Path

    def look(self) -> None:
        command = [sys.executable, "-c", READER, catalog_at(self.path)["uri"], NAME]
        self.seen.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())

    def commit(self, tx: SinkTransaction, receipt: Any) -> None:
        if not self.seen:
            self.look()
        super().commit(tx, receipt)
        self.look()


def test_a_reader_in_another_process_sees_all_of_a_transaction_or_nothing(spark: SparkSession, tmp_path: Path) -> None:
    AskingIcebergSink.path = tmp_path
    rows = [(f"a{n % 2}", n // 6) for n in range(12)]
    topology = TridentTopology("rows")
    stream = topology.new_stream("rows", FixedBatchSpout("word string, n bigint", 6, *rows))
    stream.shuffle().write_to(AskingIcebergSink(NAME, catalog=catalog_at(tmp_path), partition_by="truncate(1, word)"))
    coordination = LocalCoordination()
    run_batches(topology, coordination, spark)
    assert AskingIcebergSink.seen == [str([(n, 6) for n in range(seen)]) for seen in (0, 1, 2)]
    assert run_batches(topology, coordination, spark) == []
    assert table_at(tmp_path).scan().count() == 12


def test_an_opaque_batch_that_comes_again_with_other_rows_replaces_them_and_a_job_that_fails_leaves_no_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = IcebergSink(NAME, catalog=catalog_at(tmp_path))
    sink.recover(TOPOLOGY, 1)
    for attempt, count in ((0, 5), (1, 3), (2, 3)):
        rows = spark.range(0, count, 1, 2).selectExpr("id AS `a.b`", "map('k', id) AS m")
        sink.commit(transaction(1, attempt), sink.prepare(transaction(1, attempt), rows))
        assert rows_in(tmp_path) == [(number, [("k", number)]) for number in range(count)]
    before = files_in(tmp_path)
    broken = failing_last(spark.range(0, 8, 1, 4), tmp_path, len(before) + 3)
    with pytest.raises(Exception, match="broken"):
        sink.prepare(transaction(2), broken.selectExpr("id AS `a.b`", "map('k', id) AS m"))
    sink.abort(transaction(2), None)
    assert files_in(tmp_path) == before
