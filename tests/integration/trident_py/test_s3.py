"""Tables of Delta and Iceberg, and files, in a store of objects, behind a real server that speaks S3, with Spark."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from io import BytesIO
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from examples.bucket_orders import sums
from tests.servers.s3 import S3Server
from tests.unit.trident_py.sinks.delta.tables import written
from tests.unit.trident_py.sinks.tables.leaders import SCHEMA, TOPOLOGY, A, B, C, between, transaction
from trident_py import (
    CommitToken,
    DeltaSink,
    DeltaSpout,
    FencedError,
    FixedBatchSpout,
    IcebergSink,
    TridentTopology,
)
from trident_py.operations import Sum
from trident_py.rows.schema import schema_of
from trident_py.sinks.delta.staging import Storage
from trident_py.sinks.delta.transactions import DeltaTransactions
from trident_py.states import SQLiteState
from trident_py.testing import LocalCoordination, run_batches

ROWS = [(f"a {n % 3}/é", n) for n in range(18)]


def rows_of(table: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(table["word"].to_pylist(), table["n"].to_pylist(), strict=True))


@pytest.mark.spark
def test_a_delta_table_in_s3_is_written_compacted_and_read_by_tasks_and_no_secret_is_logged(
    spark: SparkSession,
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("trident_py.spouts.delta.spout.DRIVER_BYTES", 0)  # tasks read
    uri, options = f"s3://{bucket}/web/rows", s3_server.storage_options
    writing, reading = TridentTopology("writing"), TridentTopology("reading")
    sink = DeltaSink(uri, partition_by="word", compact_every=4, storage_options=options)
    writing.new_stream("rows", FixedBatchSpout("word string, n bigint", 3, *ROWS)).write_to(sink)
    coordination = LocalCoordination()
    with caplog.at_level(logging.DEBUG, logger="trident_py"):
        run_batches(writing, coordination, spark)
        assert run_batches(writing, coordination, spark) == []
    table = DeltaTable(uri, storage_options=options)
    assert rows_of(table.to_pyarrow_table()) == sorted(ROWS)
    assert any("-compacted/" in each for each in table.file_uris())
    spout = DeltaSpout(uri, start_version=0, storage_options=options)
    words = reading.new_stream("rows", spout).group_by("word")
    words.persistent_aggregate(SQLiteState(tmp_path / "words.db", table="words"), Sum("n"), "total")
    run_batches(reading, spark=spark)
    with closing(sqlite3.connect(tmp_path / "words.db")) as database:
        assert dict(database.execute("SELECT word, total FROM words")) == {"a 0/é": 45, "a 1/é": 51, "a 2/é": 57}
    assert options["AWS_SECRET_ACCESS_KEY"] not in caplog.text


@pytest.mark.spark
def test_an_iceberg_table_in_s3_is_written_by_tasks(
    spark: SparkSession, s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "warehouse": f"s3://{bucket}/warehouse",
        **s3_server.catalog_properties,
    }
    topology = TridentTopology("rows")
    stream = topology.new_stream("rows", FixedBatchSpout("word string, n bigint", 6, *ROWS))
    stream.write_to(IcebergSink("web.rows", catalog=catalog, partition_by="word"))
    coordination = LocalCoordination()
    run_batches(topology, coordination, spark)
    assert run_batches(topology, coordination, spark) == []
    table = load_catalog(**catalog).load_table("web.rows")
    assert table.location().startswith(f"s3://{bucket}/")
    assert rows_of(table.scan().to_arrow()) == sorted(ROWS)


@pytest.mark.spark
def test_objects_that_land_in_s3_are_counted_once_by_tasks(
    spark: SparkSession, s3_server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.spouts.files.whole.SMALL_BYTES", 0)  # tasks read
    coordination, file, given, path = LocalCoordination(), BytesIO(), dict[str, int](), tmp_path / "sums.db"
    pq.write_table(pa.table({"item": ["pen", "ink"], "amount": [2, 1]}), file)
    for name in ("2026-11-28T10", "2026-11-28T11"):
        obstore.put(s3_server.objects(bucket), f"orders/{name}.parquet", file.getvalue())
        given = {"pen": given.get("pen", 0) + 2, "ink": given.get("ink", 0) + 1}
        run_batches(sums(f"s3://{bucket}", str(path), s3_server.storage_options), coordination, spark)
        with closing(sqlite3.connect(path)) as database:
            assert dict(database.execute("SELECT item, amount FROM sums")) == given


def leader(s3_server: S3Server, bucket: str, epoch: int) -> DeltaTransactions:
    made = DeltaTransactions((), Storage(f"s3://{bucket}/rows", s3_server.storage_options))
    made.fields = schema_of(SCHEMA)
    made.recover(TOPOLOGY, epoch)
    return made


def test_what_others_commit_to_s3_between_the_look_and_the_commit_is_not_overwritten(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leading, options, tx = leader(s3_server, bucket, 1), s3_server.storage_options, transaction(1)
    staged = written(leading.storage, tx, SCHEMA, [A])
    other = pa.table({"word": ["other"], "n": [0]})
    between(monkeypatch, lambda: write_deltalake(leading.storage.uri, other, mode="append", storage_options=options))
    leading.commit(tx, staged)
    found = DeltaTable(leading.storage.uri, storage_options=options)
    assert rows_of(found.to_pyarrow_table()) == [A, ("other", 0)]


def test_a_leader_that_is_overtaken_between_its_look_and_its_commit_to_s3_is_refused(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = leader(s3_server, bucket, 1)
    tx = transaction(1)
    staged = written(old.storage, tx, SCHEMA, [A])

    def overtake() -> None:
        new, theirs = leader(s3_server, bucket, 2), transaction(1, epoch=2)
        new.commit(theirs, written(new.storage, theirs, SCHEMA, [B, C]))

    between(monkeypatch, overtake)
    with pytest.raises(FencedError):
        old.commit(tx, staged)
    found = DeltaTable(old.storage.uri, storage_options=s3_server.storage_options)
    assert rows_of(found.to_pyarrow_table()) == [B, C]
    again = leader(s3_server, bucket, 3)
    assert again.recover(TOPOLOGY, 4) == CommitToken(1, 2, 0)
