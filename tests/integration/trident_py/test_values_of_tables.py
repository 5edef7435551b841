"""All odd values of all types through topologies into Delta, Iceberg and Kafka, by each way that a batch can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka as kafka
import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from tests.servers.kafka import KafkaBroker
from tests.unit.trident_py.sinks.iceberg.tables import catalog_at
from tests.values.odd import HUGE, ODD, same
from tests.values.reading import spark_value, type_of
from trident_py import DeltaSink, FixedBatchSpout, IcebergSink, KafkaSink, Stream, TridentTopology
from trident_py.testing import LocalCoordination, run_batches

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TYPES = [ddl for ddl in ODD if not ddl.startswith("array<struct")]  # pyiceberg reads those wrongly; see tests/values
SCHEMA = ", ".join(["n int", *(f"v{number} {ddl}" for number, ddl in enumerate(TYPES))])


def columns(types: list[str]) -> list[list[Any]]:
    found = [[value for name, value in ODD[ddl].items() if name != "lone surrogate"] for ddl in types]
    longest = max(map(len, found))
    return [[*values, *[None] * (longest + 1 - len(values))] for values in found]


ROWS = [(n, *values) for n, values in enumerate(zip(*columns(TYPES), strict=True))]
LARGE = 5_000
"""So many rows are no small batch."""

WAYS: Mapping[str, tuple[int, int]] = {
    "one small batch": (len(ROWS), 1),
    "small batches that share jobs": (3, 1),
    "a large batch, by tasks": (LARGE, -(-LARGE // len(ROWS))),
}


class FailOnce:
    """Fails the first attempt of the first batch, in whichever process."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __call__(self, row: Any) -> Any:
        mark = self.marks / "once"
        if row.n == 1 and not mark.exists():
            mark.touch()
            raise RuntimeError("once")
        return tuple(row)


def run(
    write: Callable[[Stream], object], schema: str, rows: list[Any], way: str, replays: Path | None, spark: SparkSession
) -> list[Any]:
    size, times = WAYS[way]
    given = [(number, *row[1:]) for number, row in enumerate(row for _ in range(times) for row in rows)]
    topology = TridentTopology(f"v{uuid4().hex[:8]}")
    stream = topology.new_stream("rows", FixedBatchSpout(schema, size, *given))
    if replays:
        replays.mkdir()
        stream = stream.map(FailOnce(replays), schema)
    write(stream)
    run_batches(topology, LocalCoordination(), spark)
    return given


def check(stored: list[dict[str, Any]], given: list[Any], types: list[str]) -> None:
    assert len(stored) == len(given)
    for row, (n, *values) in zip(sorted(stored, key=lambda row: row["n"]), given, strict=True):
        for number, (value, ddl) in enumerate(zip(values, types, strict=True)):
            found = spark_value(row[f"v{number}"], type_of(ddl))
            assert same(found, value), (n, ddl, value, found)


@pytest.mark.parametrize("replays", [False, True], ids=["once", "replayed"])
@pytest.mark.parametrize("way", WAYS)
def test_all_odd_values_are_in_a_delta_table_as_they_were(
    tmp_path: Path, way: str, replays: bool, spark: SparkSession
) -> None:
    path = tmp_path / "t"
    marks = tmp_path / "marks" if replays else None
    given = run(lambda stream: stream.write_to(DeltaSink(path)), SCHEMA, ROWS, way, marks, spark)
    check(DeltaTable(path).to_pyarrow_table().to_pylist(), given, TYPES)


@pytest.mark.parametrize("replays", [False, True], ids=["once", "replayed"])
@pytest.mark.parametrize("way", WAYS)
def test_all_odd_values_are_in_an_iceberg_table_as_they_were(
    tmp_path: Path, way: str, replays: bool, spark: SparkSession
) -> None:
    catalog = catalog_at(tmp_path / "t")
    marks = tmp_path / "marks" if replays else None
    sink = IcebergSink("web.values", catalog=catalog)
    given = run(lambda stream: stream.write_to(sink), SCHEMA, ROWS, way, marks, spark)
    table = load_catalog(**catalog).load_table("web.values")
    check(table.scan().to_arrow().to_pylist(), given, TYPES)


@pytest.mark.kafka
@pytest.mark.parametrize("replays", [False, True], ids=["once", "replayed"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ddl", ["string", "binary"])
def test_all_odd_texts_and_bytes_are_in_kafka_as_they_were(
    tmp_path: Path, way: str, replays: bool, ddl: str, spark: SparkSession, kafka_broker: KafkaBroker
) -> None:
    topic = uuid4().hex
    kafka_broker.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    marks = tmp_path / "marks" if replays else None
    rows = [(n, value) for n, value in enumerate(columns([ddl])[0])]

    def write(stream: Stream) -> None:
        records = stream.map(lambda row: (str(row.n), row.v0), f"key string, value {ddl}")
        records.write_to(KafkaSink(kafka_broker.servers, topic))

    given = run(write, f"n int, v0 {ddl}", rows, way, marks, spark)
    stored = [
        {"n": int(key), "v0": value.decode() if ddl == "string" and value is not None else value}
        for key, value in consumed(kafka_broker.servers, topic)
    ]
    check(stored, given, [ddl])


def test_a_text_of_10_mb_is_in_tables_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    topology = TridentTopology("huge")
    stream = topology.new_stream("rows", FixedBatchSpout("n int, v string", 1, (1, HUGE)))
    stream.name("delta").write_to(DeltaSink(tmp_path / "t"))
    catalog = catalog_at(tmp_path / "i")
    stream.name("iceberg").write_to(IcebergSink("web.values", catalog=catalog))
    run_batches(topology, LocalCoordination(), spark)
    assert DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist() == [{"n": 1, "v": HUGE}]
    assert load_catalog(**catalog).load_table("web.values").scan().to_arrow().to_pylist() == [{"n": 1, "v": HUGE}]


def consumed(servers: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    options = {"bootstrap.servers": servers, "group.id": "x", "enable.partition.eof": True, "log_level": 0}
    consumer = kafka.Consumer(options)
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    consumer.close()
    return found
