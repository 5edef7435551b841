"""Shipped spouts, each with a source that is filled before."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pika
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from deltalake import write_deltalake
from redis import Redis

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from tests.shipped.servers import broker_in, nats_in, postgres_in, rabbitmq_in, redis_in, s3_in
from tests.unit.trident_py.spouts.collecting import ListCollector
from tests.unit.trident_py.spouts.test_data_source import ROWS as NUMBERS
from tests.unit.trident_py.spouts.test_data_source import NumbersSource, SimpleSource
from trident_py import (
    DataFrameSpout,
    DataSourceSpout,
    DeltaSpout,
    FileSpout,
    FixedBatchSpout,
    HttpSpout,
    KafkaSpout,
    NATSSpout,
    PostgresChangesSpout,
    RabbitMQSpout,
    RedisStreamsSpout,
    Replay,
    SQLSpout,
    TopologyContext,
    TridentCollector,
    TridentConfig,
)
from trident_py.spark.session import topology_session
from trident_py.spouts.http.spout import received_of
from trident_py.spouts.postgres.coordinator import Batch
from trident_py.spouts.postgres.spout import ChangesEmitter
from trident_py.spouts.rabbitmq.spout import QueueCoordinator
from trident_py.spouts.spool.batches import SpoolCoordinator
from trident_py.spouts.spool.log import Position
from trident_py.testing import Report, check_spout

ROWS = [(f"line {number}",) for number in range(12)]


def fixed(directory: Path) -> Report:
    """Rows of the program."""
    return check_spout(lambda: FixedBatchSpout("line string", 2, *ROWS), lambda: ROWS)


def files(directory: Path) -> Report:
    """Lines of a file."""
    path = directory / "lines.txt"
    path.write_text("".join(f"{line}\n" for (line,) in ROWS))
    return check_spout(lambda: FileSpout(path, max_bytes_per_batch=20), lambda: ROWS)


def parquet(directory: Path) -> Report:
    """Rows of Parquet files, a file in each batch."""
    for number in range(0, len(ROWS), 4):
        table = pa.table({"line": [line for (line,) in ROWS[number : number + 4]]})
        pq.write_table(table, directory / f"{number:02}.parquet", row_group_size=2)
    return _whole(directory, "parquet")


def avro(directory: Path) -> Report:
    """Rows of Avro files, a file in each batch."""
    schema = {"type": "record", "name": "Line", "fields": [{"name": "line", "type": "string"}]}
    for number in range(0, len(ROWS), 4):
        with (directory / f"{number:02}.avro").open("wb") as file:
            fastavro.writer(file, schema, [{"line": line} for (line,) in ROWS[number : number + 4]])
    return _whole(directory, "avro")


def _whole(directory: Path, kind: str) -> Report:
    spout = partial(
        FileSpout,
        *(directory / "*", 1),
        format=kind,
        schema="line string",
        settled=timedelta(0),
        directory=directory / ".names",
    )
    expected = [(line, str(directory / f"{n // 4 * 4:02}.{kind}"), n % 4) for n, (line,) in enumerate(ROWS)]
    return check_spout(spout, lambda: expected)


def objects(directory: Path) -> Report:
    """Lines of objects in a store, an object in each batch, whose names are kept there, too."""
    with s3_in(directory) as server:
        server.make_bucket("names")  # each experiment leaves some, and a list of the other would grow
        for number in range(0, len(ROWS), 4):
            text = "".join(f"{line}\n" for (line,) in ROWS[number : number + 4])
            server.put("lines", f"{number:02}.txt", text.encode())
        spout = partial(
            FileSpout,
            *("s3://lines/*.txt", 1),
            storage_options=server.storage_options,
            order="name",
            directory="s3://names/of",
        )
        return check_spout(spout, lambda: ROWS)


def dataframe(directory: Path) -> Report:
    """Rows that Spark makes."""
    spout = DataFrameSpout(
        "n bigint",
        lambda spark: 11,
        lambda spark, start, end: spark.range(start + 1, end + 1).toDF("n"),
        start=-1,
        upto=lambda spark, start, latest: min(start + 2, latest),
    )
    with topology_session("kit", None):
        return check_spout(lambda: spout, lambda: [(number,) for number in range(12)])


def data_source(directory: Path) -> Report:
    """Rows of a partitioned reader of the Python Data Source API."""
    return check_spout(lambda: DataSourceSpout(NumbersSource, replay=Replay.EXACT, upto=len(NUMBERS)), lambda: NUMBERS)


def simple_data_source(directory: Path) -> Report:
    """Rows of a simple reader of that API."""
    return check_spout(lambda: DataSourceSpout(SimpleSource, replay=Replay.EXACT), lambda: NUMBERS)


def sql(directory: Path) -> Report:
    """Rows of a table, by their ids."""
    path = directory / "lines.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE lines (id INTEGER PRIMARY KEY, line TEXT)")
        connection.executemany("INSERT INTO lines (line) VALUES (?)", ROWS)
    expected = [(number, line) for number, (line,) in enumerate(ROWS, 1)]
    return check_spout(lambda: SQLSpout(f"sqlite:///{path}", "lines", "id", max_records_per_batch=2), lambda: expected)


def redis_streams(directory: Path) -> Report:
    """Entries of a stream."""
    with redis_in(directory) as url, closing(Redis.from_url(url)) as client:
        for number, (line,) in enumerate(ROWS, 1):
            client.xadd("lines", {"line": line}, id=f"{number}-0")
        expected = [
            ("lines", f"{number}-0", datetime.fromtimestamp(number / 1000, UTC), {"line": line})
            for number, (line,) in enumerate(ROWS, 1)
        ]
        return check_spout(lambda: RedisStreamsSpout(url, "lines", max_records_per_batch=2), lambda: expected)


def nats(directory: Path) -> Report:
    """Messages of a stream."""
    with nats_in(directory) as server:
        server.make_stream("lines")
        server.publish("lines.a", *(line.encode() for (line,) in ROWS))
        no_headers: dict[str, str] = {}
        found = [server.ask("STREAM.MSG.GET.lines", seq=number)["message"] for number in range(1, len(ROWS) + 1)]
        expected = [
            ("lines.a", number, datetime.fromisoformat(message["time"]), no_headers, line)
            for number, ((line,), message) in enumerate(zip(ROWS, found, strict=True), 1)
        ]
        spout = partial(NATSSpout, server.url, "lines", value="string", max_records_per_batch=2)
        return check_spout(spout, lambda: expected)


class Lines(PostgresChangesSpout):
    """Without the positions in the log, which are others in each run."""

    def __init__(self, dsn: str, directory: Path) -> None:
        super().__init__(dsn, "lines", max_records_per_batch=2, spool=directory)
        self.output_schema = "op string, id int, line string"

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Any:
        emitter = super().get_emitter(tx_state_id, conf, context)
        return LinesEmitter(where=emitter.where, log=emitter.log, spool=emitter.spool, layout=emitter.layout)


class LinesEmitter(ChangesEmitter):
    """Emits rows with some of the fields."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: Batch, collector: TridentCollector) -> None:
        found = ListCollector()
        super().emit_batch(attempt, metadata, found)
        for row in found.rows:
            collector.emit(row[:3])


def postgres_changes(directory: Path) -> Report:
    """Rows of a snapshot, each two of them a batch."""
    with postgres_in(directory) as dsn, closing(psycopg.connect(dsn, autocommit=True)) as connection:
        connection.execute("CREATE TABLE lines (id int PRIMARY KEY, line text)")
        connection.execute("CREATE PUBLICATION lines FOR TABLE lines")
        connection.execute("INSERT INTO lines SELECT n, 'line ' || n FROM generate_series(0, 11) AS n")
        expected = [("snapshot", number, line) for number, (line,) in enumerate(ROWS)]
        return check_spout(lambda: Lines(dsn, directory / "spool"), lambda: expected)


class FilledSpout(HttpSpout):
    """An `HttpSpout` that has received rows before its topology starts for the first time."""

    def __init__(self, directory: Path) -> None:
        super().__init__("lines", "line string", directory=directory, max_bytes_per_batch=1_000)

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> SpoolCoordinator:
        made = super().get_coordinator(tx_state_id, conf, context)
        return FilledCoordinator(spool=made.spool, lag_name=made.lag_name, bytes_max=made.bytes_max)


class FilledCoordinator(SpoolCoordinator):
    """Fills its spool when there is no position."""

    def restore(self, cursors: Mapping[str, Json]) -> None:
        if not cursors:
            shutil.rmtree(self.spool.files.place, ignore_errors=True)
            sender = evolve(self.spool, epoch=0)
            sender.open(None, Position())
            sender.accept()
            for row in ROWS:
                sender.offer(received_of(pa.table({"line": row}), row[0], row[0].encode()))
            sender.close()
        super().restore(cursors)


def http(directory: Path) -> Report:
    """Rows of requests."""
    return check_spout(lambda: FilledSpout(directory), lambda: ROWS)


class FilledQueueSpout(RabbitMQSpout):
    """A `RabbitMQSpout` whose queue is filled before its topology starts for the first time."""

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> QueueCoordinator:
        made = super().get_coordinator(tx_state_id, conf, context)
        return FilledQueueCoordinator(
            spool=made.spool, lag_name=made.lag_name, bytes_max=made.bytes_max, consumer=made.consumer
        )


class FilledQueueCoordinator(QueueCoordinator):
    """Fills its queue when there is no position."""

    def restore(self, cursors: Mapping[str, Json]) -> None:
        if not cursors:
            shutil.rmtree(self.spool.files.place, ignore_errors=True)
            parameters = pika.URLParameters(self.consumer.url.reveal())
            with closing(pika.BlockingConnection(parameters)) as connection:
                channel = connection.channel()
                channel.queue_delete("lines")  # with what an earlier consumer has not acknowledged
                channel.queue_declare("lines", durable=True)
                for (line,) in ROWS:
                    channel.basic_publish("", "lines", line.encode(), pika.BasicProperties(message_id=line))
        super().restore(cursors)


def rabbitmq(directory: Path) -> Report:
    """Messages of a queue."""
    with rabbitmq_in(directory) as server:
        spout = partial(FilledQueueSpout, server.url, "lines", directory=directory / "spool", max_bytes_per_batch=500)
        no_headers: dict[str, str] = {}
        return check_spout(spout, lambda: [(line, "lines", None, no_headers, line) for (line,) in ROWS])


def delta(directory: Path) -> Report:
    """Versions of a table."""
    for number in range(0, len(ROWS), 2):
        lines = [line for (line,) in ROWS[number : number + 2]]
        write_deltalake(directory / "lines", pa.table({"line": lines}), mode="append")
    return check_spout(lambda: DeltaSpout(directory / "lines", start_version=0), lambda: ROWS)


def kafka(directory: Path) -> Report:
    """Records of a topic."""
    with broker_in(directory) as broker:
        for made in broker.admin.create_topics([NewTopic("lines", 1, 1)]).values():
            made.result()
        producer = Producer({"bootstrap.servers": broker.servers})
        for (line,) in ROWS:
            producer.produce("lines", line)
        producer.flush()
        spout = lambda: KafkaSpout(broker.servers, "lines", value="string", max_records_per_batch=2)  # noqa: E731
        return check_spout(spout, lambda: [(None, line) for (line,) in ROWS])
