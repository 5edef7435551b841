"""Another client changes what topologies read and write: rows of docs/how-to/other-writers.md."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from attrs import define, field
from confluent_kafka import Producer
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from tests.servers.kafka import KafkaBroker, tools_command
from tests.unit.trident_py.sinks.iceberg.tables import catalog_at
from trident_py import (
    Count,
    DeltaSink,
    DeltaSpout,
    FeederBatchSpout,
    IcebergSink,
    KafkaSink,
    KafkaSpout,
    SinkError,
    SpoutError,
    SQLiteState,
    TridentError,
    TridentQuery,
    TridentTopology,
)
from trident_py.testing import LocalCoordination

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS = 120
PHASES = ["while it runs", "while it is down"]
FEW = pa.table({"word": ["x"], "n": pa.array([9], pa.int64())})
Change = Callable[[Any], object]


@define
class Life:
    """A topology from its first start on; ``declare`` makes it anew for each start."""

    declare: Callable[[TridentTopology], object]
    spark: SparkSession
    coordination: LocalCoordination = field(factory=LocalCoordination)

    @contextmanager
    def running(self) -> Iterator[TridentQuery]:
        topology = TridentTopology("neighbours")
        self.declare(topology)
        with topology.start(spark=self.spark, coordination=self.coordination) as query:
            yield query

    def lived(self, phase: str, before: Change, change: Change, after: Change) -> None:
        """Do ``before``, then ``change`` in its phase, then ``after``; raise what ends the topology."""
        with self.running() as query:
            before(query)
            if phase == PHASES[0]:
                change(query)
                after(query)
        if phase == PHASES[1]:
            change(None)
            with self.running() as query:
                after(query)


def fed(life_of: Callable[[FeederBatchSpout], Life], phase: str, change: Callable[[], object]) -> None:
    """Feed one batch before a change, and one after it."""
    feeder = FeederBatchSpout("word string, n bigint")
    life = life_of(feeder)

    def feed(word: str, query: TridentQuery) -> None:
        try:
            feeder.feed([(word, 1)], SECONDS)
        except SpoutError:  # it has stopped
            query.await_termination(SECONDS)

    life.lived(phase, lambda query: feed("a", query), lambda _: change(), lambda query: feed("b", query))


# --- Delta ------------------------------------------------------------------------------------------------------------


def other_fields(path: Path) -> None:
    write_deltalake(path, pa.table({"word": ["x"], "q": [1.5]}), mode="overwrite", schema_mode="overwrite")


def other_partitions(path: Path) -> None:
    write_deltalake(path, FEW, mode="overwrite", schema_mode="overwrite", partition_by=["word"])


def recreated(path: Path) -> None:
    shutil.rmtree(path)
    for _ in range(6):
        write_deltalake(path, FEW, mode="append")


DELTA: dict[str, tuple[Callable[[Path], object], str, list[str]]] = {
    "appended": (lambda path: write_deltalake(path, FEW, mode="append"), "", ["a", "b", "x"]),
    "overwritten": (lambda path: write_deltalake(path, FEW, mode="overwrite"), "", ["b", "x"]),
    "deleted": (lambda path: DeltaTable(path).delete(), "", ["b"]),
    "compacted": (lambda path: DeltaTable(path).optimize.compact(), "", ["a", "b"]),
    "vacuumed": (
        lambda path: DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False, full=True),
        "",
        ["a", "b"],
    ),
    "other fields": (other_fields, "field 'n' is not in the Delta table", []),
    "other partitions": (other_partitions, r"is partitioned by \['word'\]", []),
    "a constraint": (
        lambda path: DeltaTable(path).alter.add_constraint({"positive": "n > 0"}),
        "has delta.constraints.positive",
        [],
    ),
    "recreated": (recreated, "and has 0 now|has nothing of what was committed", []),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", DELTA)
def test_a_delta_table_that_another_client_changes(tmp_path: Path, spark: SparkSession, phase: str, name: str) -> None:
    change, message, rows = DELTA[name]
    path = tmp_path / "t"

    def life(feeder: FeederBatchSpout) -> Life:
        return Life(lambda topology: topology.new_stream("fed", feeder).write_to(DeltaSink(path)), spark)

    if message:
        with pytest.raises(TridentError, match=message):
            fed(life, phase, lambda: change(path))
        assert "b" not in DeltaTable(path).to_pyarrow_table()["word"].to_pylist()
    else:
        fed(life, phase, lambda: change(path))
        assert sorted(DeltaTable(path).to_pyarrow_table()["word"].to_pylist()) == rows


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (recreated, "was removed and made again|it was replaced"),
        (lambda path: DeltaTable(path).delete(), "removes rows"),
        (lambda path: DeltaTable(path).optimize.compact(), ""),
    ],
    ids=["recreated", "deleted", "compacted"],
)
def test_a_delta_table_that_is_read_and_that_another_client_changes(
    tmp_path: Path, spark: SparkSession, phase: str, change: Callable[[Path], object], message: str
) -> None:
    path = tmp_path / "t"
    for _ in range(2):
        write_deltalake(path, FEW, mode="append")
    life = Life(counting(tmp_path, lambda: DeltaSpout(path)), spark)
    if not message:
        life.lived(phase, run_all, lambda _: change(path), run_all)
        return
    with pytest.raises(SpoutError, match=message):
        life.lived(phase, run_all, lambda _: change(path), run_all)


def counting(directory: Path, spout: Callable[[], Any]) -> Callable[[TridentTopology], object]:
    def declare(topology: TridentTopology) -> object:
        state = SQLiteState(directory / "counts.db", table="counts")
        return topology.new_stream("read", spout()).persistent_aggregate(state, Count(), "n")

    return declare


def run_all(query: TridentQuery) -> None:
    query.process_all_available(SECONDS)


# --- Iceberg ----------------------------------------------------------------------------------------------------------


def dropped(table: Any) -> None:
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("n")


def partitioned(table: Any) -> None:
    with table.update_spec() as update:
        update.add_identity("word")


ICEBERG: dict[str, tuple[Callable[[Any], object], str, list[str]]] = {
    "appended": (lambda table: table.append(FEW), "", ["a", "b", "x"]),
    "overwritten": (lambda table: table.overwrite(FEW), "", ["b", "x"]),
    "rewritten": (lambda table: table.overwrite(table.scan().to_arrow()), "", ["a", "b"]),
    "other partitions": (partitioned, "", ["a", "b"]),
    "a column dropped": (dropped, "field 'n' is not in the Iceberg table", []),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", ICEBERG)
def test_an_iceberg_table_that_another_client_changes(
    tmp_path: Path, spark: SparkSession, phase: str, name: str
) -> None:
    change, message, rows = ICEBERG[name]
    catalog = catalog_at(tmp_path / "t")

    def life(feeder: FeederBatchSpout) -> Life:
        sink = IcebergSink("web.events", catalog=catalog)
        return Life(lambda topology: topology.new_stream("fed", feeder).write_to(sink), spark)

    def do() -> None:
        change(load_catalog(**catalog).load_table("web.events"))

    if message:
        with pytest.raises(SinkError, match=message):
            fed(life, phase, do)
        return
    fed(life, phase, do)
    found = load_catalog(**catalog).load_table("web.events").scan().to_arrow()
    assert sorted(found["word"].to_pylist()) == rows


# --- Kafka ------------------------------------------------------------------------------------------------------------


@define
class Topics:
    """The topics of a broker, as kafka-topics.sh changes them."""

    broker: KafkaBroker
    name: str

    def tool(self, *arguments: str) -> None:
        command = tools_command("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.broker.servers)
        subprocess.run([*command, *arguments, "--topic", self.name], check=True, capture_output=True)

    def make(self, *arguments: str) -> None:
        self.tool("--create", "--partitions", "1", *arguments)

    def remove(self) -> None:
        self.tool("--delete")
        while self.name in self.broker.admin.list_topics(timeout=10).topics:
            pass

    def remake(self) -> None:
        self.remove()
        self.make()
        self.send(10)

    def send(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.servers, "log_level": 0})
        for number in range(count):
            producer.produce(self.name, f"{number}")
        assert producer.flush(30) == 0


@pytest.fixture
def topics(kafka_broker: KafkaBroker) -> Topics:
    found = Topics(kafka_broker, f"t{uuid4().hex[:8]}")
    found.make()
    return found


@pytest.mark.kafka
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Topics.remake, "was deleted and made again"),
        (Topics.remove, "is not there any more"),
        (lambda topics: topics.tool("--alter", "--partitions", "3"), ""),
    ],
    ids=["made again", "deleted", "partitions added"],
)
def test_a_topic_that_is_read_and_that_kafka_topics_changes(
    tmp_path: Path, spark: SparkSession, topics: Topics, phase: str, change: Change, message: str
) -> None:
    topics.send(5)
    life = Life(counting(tmp_path, lambda: KafkaSpout(topics.broker.servers, topics.name)), spark)
    if not message:
        life.lived(phase, run_all, lambda _: change(topics), run_all)
        return
    with pytest.raises(SpoutError, match=message):
        life.lived(phase, run_all, lambda _: change(topics), run_all)


@pytest.mark.kafka
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("change", "message"),
    [(Topics.remake, ""), (Topics.remove, "Kafka refuses: .*Unknown topic")],
    ids=["anew", "gone"],
)
def test_a_topic_that_is_written_to_and_that_kafka_topics_changes(
    spark: SparkSession, topics: Topics, phase: str, change: Change, message: str
) -> None:
    options = {"topic.metadata.propagation.max.ms": 2000, "topic.metadata.refresh.interval.ms": 1000}

    def life(feeder: FeederBatchSpout) -> Life:
        def declare(topology: TridentTopology) -> None:
            records = topology.new_stream("fed", feeder).map(lambda row: (row.word,), "value string")
            records.write_to(KafkaSink(topics.broker.servers, topics.name, options=options))

        return Life(declare, spark)

    if not message:
        fed(life, phase, lambda: change(topics))
        return
    with pytest.raises(SinkError, match=message), suppress(TimeoutError):
        fed(life, phase, lambda: change(topics))
