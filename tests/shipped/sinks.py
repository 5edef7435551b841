"""Shipped sinks, each with a store and a reader of it that isn't ours."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable
from pyiceberg.table import FileScanTask
from pyspark.sql import DataFrame

from tests.faults.program import url_of
from tests.shipped.servers import broker_in, mariadb_in, postgres_in
from tests.unit.trident_py.sinks.iceberg.tables import NAME, catalog_at, table_at
from trident_py import DeltaSink, FileSink, ForeachBatchSink, IcebergSink, KafkaSink, SinkTransaction, SQLSink
from trident_py.testing import Report, check_sink

SCHEMA = "word string, n bigint"

Rows = Sequence[tuple[Any, ...]]
S = TypeVar("S", SQLSink, DeltaSink)


def parquet_files(directory: Path) -> Report:
    """As pyarrow reads them."""
    path = directory / "words"

    def read() -> Rows:
        files = [str(file) for file in path.glob("txid=*/[!_.]*.parquet")]
        return _rows(ds.dataset(files, format="parquet").to_table().to_pylist()) if files else []

    return check_sink(lambda: FileSink(path), read, schema=SCHEMA)


def json_files(directory: Path) -> Report:
    """Line by line."""
    path = directory / "words"

    def read() -> Rows:
        files = path.glob("txid=*/[!_.]*.json")
        return _rows(json.loads(line) for file in files for line in file.read_text().splitlines())

    return check_sink(lambda: FileSink(path, format="json"), read, schema=SCHEMA)


class CompactedDeltaSink(DeltaSink):
    """Waits for its compaction in each commit: the kit stops what belongs to a call, and no thread that outlives it."""

    def commit(self, tx: SinkTransaction, receipt: Any) -> None:
        super().commit(tx, receipt)
        self.close()


def delta(directory: Path) -> Report:
    """As delta-rs reads the table, which is compacted all the time."""
    path = directory / "words"
    return check_sink(lambda: CompactedDeltaSink(path, compact_every=2), _delta_reader(path), schema=SCHEMA)


def delta_by_key(directory: Path) -> Report:
    """The same with a table in which a row replaces the one with the same word."""
    path = directory / "words"
    return check_sink(lambda: DeltaSink(path, mode="merge", keys=["word"]), _delta_reader(path), schema=SCHEMA)


def delta_changes(directory: Path) -> Report:
    """The same with rows that are changes, in an order."""
    path = directory / "words"
    return check_sink(
        lambda: _keyed(DeltaSink(path, mode="merge", keys="word", sequence_by="n")), _delta_reader(path), schema=SCHEMA
    )


def _delta_reader(path: Path) -> Callable[[], Rows]:
    """Return a reader of a table of ours: delta-rs names the files, and Arrow reads each once, as none ever changes."""
    rows_of = cache(lambda uri: _rows(pq.read_table(uri.removeprefix("file://")).to_pylist()))
    return lambda: [row for uri in DeltaTable(path).file_uris() for row in rows_of(uri)]


def _keyed(sink: S) -> S:
    """Say to the kit which rows a sink of changes replaces."""
    sink.replaces_by = ("word",)
    return sink


def iceberg(directory: Path) -> Report:
    """A table of a SQLite catalog, as pyiceberg plans to read it, and Arrow reads its files."""
    catalog = catalog_at(directory)
    rows_of = cache(lambda path: _rows(pq.read_table(path).to_pylist()))  # files never change; there are thousands

    def read() -> Rows:
        return [row for task in table_at(directory).scan().plan_files() for row in rows_of(_whole(task))]

    # each commit writes the list of all snapshots anew, and there are thousands of commits
    return check_sink(
        lambda: IcebergSink(NAME, catalog=catalog, expire_after=timedelta(seconds=10)), read, schema=SCHEMA
    )


def _whole(task: FileScanTask) -> str:
    """Return the path of a file no row of which was deleted: ours delete whole files only."""
    if task.delete_files:
        raise AssertionError(f"{task.file.file_path} has deleted rows")
    return task.file.file_path.removeprefix("file://")


def sqlite(directory: Path) -> Report:
    """A table in a file."""
    return _in_a_file(directory, lambda url: SQLSink(url, "rows"))


def sqlite_by_key(directory: Path) -> Report:
    """A table in a file, in which a row replaces the one with the same word."""
    return _in_a_file(directory, lambda url: SQLSink(url, "rows", mode="upsert", keys="word"))


def sqlite_changes(directory: Path) -> Report:
    """A table in a file, and rows that are changes of it, in an order."""
    return _in_a_file(directory, lambda url: _keyed(SQLSink(url, "rows", mode="merge", keys="word", sequence_by="n")))


def _in_a_file(directory: Path, make: Callable[[str], SQLSink]) -> Report:
    path = directory / "rows.db"

    def read() -> Rows:
        with closing(sqlite3.connect(path)) as client:
            found = client.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchall()
            return client.execute("SELECT word, n FROM rows").fetchall() if found else []

    return check_sink(lambda: make(f"sqlite:///{path}"), read, schema=SCHEMA)


def postgres(directory: Path) -> Report:
    """A table of a server."""
    with postgres_in(directory) as dsn:

        def read() -> Rows:
            with psycopg.connect(dsn) as client:
                found = client.execute("SELECT to_regclass('rows')").fetchone()
                return client.execute("SELECT word, n FROM rows").fetchall() if found != (None,) else []

        return check_sink(lambda: SQLSink(url_of(dsn), "rows"), read, schema=SCHEMA)


def mysql(directory: Path) -> Report:
    """A table of a server."""
    with mariadb_in(directory) as server:

        def read() -> Rows:
            found = server.run("SHOW TABLES LIKE 'rows'", database="test")
            return server.run("SELECT word, n FROM `rows`", database="test") if found else []

        return check_sink(lambda: SQLSink(server.url(), "rows"), read, schema=SCHEMA)


def kafka(directory: Path) -> Report:
    """A topic, as a consumer of committed records reads it."""
    with broker_in(directory) as broker:
        for made in broker.admin.create_topics([NewTopic("words", 1, 1)]).values():
            made.result()
        options = {"bootstrap.servers": broker.servers, "group.id": "reader", "isolation.level": "read_committed"}
        return check_sink(
            lambda: KafkaSink(broker.servers, "words"),
            lambda: _records({**options, "enable.partition.eof": True}),
            schema="key string, value string",
        )


def _records(options: dict[str, Any]) -> Rows:
    consumer, rows = Consumer(options), []
    consumer.assign([TopicPartition("words", 0, 0)])
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            rows.append((_text(message.key()), _text(message.value())))
    finally:
        consumer.close()
    return rows


def _text(raw: bytes | str | None) -> str | None:
    return raw.decode() if isinstance(raw, bytes) else raw


def foreach_batch(directory: Path) -> Report:
    """A function that appends to a file; it promises at least once."""
    path = directory / "rows"
    path.touch()

    def append(frame: DataFrame, tx: SinkTransaction) -> None:
        text = "".join(f"{json.dumps(tuple(row))}\n" for row in frame.collect())
        with path.open("a") as file:
            file.write(text)

    read: Callable[[], Rows] = lambda: [tuple(json.loads(line)) for line in path.read_text().splitlines()]  # noqa: E731
    return check_sink(lambda: ForeachBatchSink(append), read, schema=SCHEMA)


def _rows(found: Any) -> Rows:
    return [(row["word"], row["n"]) for row in found]
