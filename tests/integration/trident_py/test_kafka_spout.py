"""`KafkaSpout` and a real broker."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import fastavro
import pytest
from attrs import define, field
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.servers.kafka import KafkaBroker, tools_command
from tests.servers.schema_registry import registry_running
from tests.topologies import until
from trident_py import (
    Count,
    KafkaSpout,
    PoisonBatchError,
    Replay,
    SpoutError,
    SQLiteState,
    Stream,
    TopologyContext,
    TridentConfig,
    TridentTopology,
)
from trident_py.testing import LocalCoordination, run_batches

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@define
class Topic:
    """A topic of a test's own, and a topology that counts its values, restarts included."""

    broker: KafkaBroker
    directory: Path
    name: str
    coordination: LocalCoordination = field(factory=LocalCoordination)
    batches: list[int] = field(factory=list)

    def make(self, partitions: int = 1, name: str = "", config: dict[str, str] | None = None) -> None:
        made = self.broker.admin.create_topics([NewTopic(name or self.name, partitions, 1, config=config or {})])
        made[name or self.name].result()

    def send(self, *values: str | None, partition: int = 0, topic: str = "", **more: Any) -> None:
        producer = Producer({"bootstrap.servers": self.broker.servers})
        for value in values:
            given = None if value is None else value.encode()
            producer.produce(topic or self.name, value=given, partition=partition, **more)
        assert producer.flush(30) == 0

    def producer(self) -> Producer:
        """One of transactions."""
        made = Producer({"bootstrap.servers": self.broker.servers, "transactional.id": uuid4().hex})
        made.init_transactions(30)
        return made

    def spout(self, topics: Any = None, **options: Any) -> KafkaSpout:
        return KafkaSpout(self.broker.servers, topics or self.name, **{"value": "string", **options})

    def count(
        self, spout: KafkaSpout | None = None, change: Callable[[Stream], Stream] = lambda stream: stream
    ) -> None:
        topology = TridentTopology("kafka")
        stream = change(topology.new_stream("records", spout or self.spout()))
        state = SQLiteState(self.directory / "counts.db", table="counts")
        stream.project("value").group_by("value").persistent_aggregate(state, Count(), "n")
        self.batches += [batch.num_input_rows for batch in run_batches(topology, self.coordination)]

    @property
    def counts(self) -> dict[str, int]:
        with closing(sqlite3.connect(self.directory / "counts.db")) as connection:
            return dict(connection.execute("SELECT value, n FROM counts"))


@pytest.fixture
def topic(kafka_broker: KafkaBroker, tmp_path: Path) -> Topic:
    return Topic(kafka_broker, tmp_path, f"t{uuid4().hex[:8]}")


def test_each_record_counts_once_over_restarts(topic: Topic) -> None:
    topic.make(3)
    for _ in range(2):
        for partition in range(3):
            topic.send("a", "b", "a", partition=partition)
        topic.count()
        topic.count()
    assert topic.counts == {"a": 12, "b": 6}


def test_batches_are_cut_by_records_and_share_out_partitions(topic: Topic) -> None:
    topic.make(2)
    topic.send(*["a"] * 5, partition=0)
    topic.send(*["b"] * 25, partition=1)
    topic.count(topic.spout(max_records_per_batch=10))
    assert topic.counts == {"a": 5, "b": 25}
    assert len(topic.batches) == 3


def test_batches_are_cut_by_bytes(topic: Topic) -> None:
    topic.make()
    topic.send(*["x" * 1000] * 100)
    topic.count(topic.spout(max_bytes_per_batch=20_000))
    assert topic.counts == {"x" * 1000: 100}
    assert len(topic.batches) >= 4


def test_aborted_records_are_left_out_and_open_transactions_wait(topic: Topic) -> None:
    topic.make()
    producer = topic.producer()
    for value, commits in (("a", True), ("b", False), ("c", True), ("d", False)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic.name, value=value)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    topic.count(topic.spout(max_records_per_batch=4))
    assert topic.counts == {"a": 3, "c": 3}
    producer.begin_transaction()
    producer.produce(topic.name, value="e")
    producer.flush()
    topic.send("f")
    topic.count()
    assert topic.counts == {"a": 3, "c": 3}
    producer.commit_transaction(30)
    topic.count()
    assert topic.counts == {"a": 3, "c": 3, "e": 1, "f": 1}


def test_partitions_and_topics_that_appear_are_read_from_their_beginning(topic: Topic) -> None:
    topic.make()
    topic.send("a")
    pattern = re.compile(f"{topic.name}.*")
    topic.count(topic.spout(pattern, start="latest"))
    topic.broker.admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result()
    topic.make(name=f"{topic.name}-more")
    topic.send("b", partition=1)
    topic.send("c", topic=f"{topic.name}-more")
    topic.count(topic.spout(pattern, start="latest"))
    assert topic.counts == {"b": 1, "c": 1}


def test_topics_are_read_whose_whole_name_is_wanted_and_those_that_are_absent_are_no_mistake(topic: Topic) -> None:
    for name, partitions in (("-1", 1), ("-11", 2), ("-1x", 1), ("", 1)):
        topic.make(partitions, f"{topic.name}{name}")

    def read(topics: Any) -> set[str]:
        context = TopologyContext("kafka", "records")
        coordinator = topic.spout(topics, start="latest").get_coordinator("records", TridentConfig(), context)
        assert coordinator.is_ready(1)
        coordinator.close()
        return {each.removeprefix(topic.name) for each in coordinator.lag()}

    assert read([f"{topic.name}-1", f"{topic.name}-11"]) == {"-1/0", "-11/0", "-11/1"}
    assert read([f"{topic.name}-1", f"{topic.name}-absent"]) == {"-1/0"}
    assert read(re.compile(rf"{topic.name}-\d+")) == {"-1/0", "-11/0", "-11/1"}


def test_what_comes_between_two_starts_at_the_latest_offset_is_not_missed(topic: Topic) -> None:
    topic.make()
    topic.send("old")
    topic.count(topic.spout(start="latest"))
    topic.send("new")
    topic.count(topic.spout(start="latest"))
    assert topic.counts == {"new": 1}


def test_the_first_batch_begins_where_it_is_said(topic: Topic, tmp_path: Path) -> None:
    topic.make()
    for number in range(4):
        topic.send(f"{number}", timestamp=1_000_000 + number * 1000)

    def begun(**options: Any) -> list[str]:
        other = Topic(topic.broker, tmp_path / uuid4().hex, topic.name)
        other.directory.mkdir()
        other.count(other.spout(**options))
        return sorted(other.counts)

    assert begun() == ["0", "1", "2", "3"]
    assert begun(start=datetime.fromtimestamp(1002, UTC)) == ["2", "3"]
    assert begun(start={(topic.name, 0): 3}) == ["3"]
    assert begun(start="latest") == []
    assert begun(start={(topic.name, 0): 2}, group_id="g") == ["2", "3"]
    topic.send("4")
    assert begun(start="committed", group_id="g") == ["4"]
    assert begun(start="committed", group_id="never") == ["0", "1", "2", "3", "4"]


def test_records_that_expire_before_they_were_read_stop_by_name(topic: Topic) -> None:
    topic.make()
    topic.send("a")
    topic.count()
    topic.send("b", "c")
    next(iter(topic.broker.admin.delete_records([TopicPartition(topic.name, 0, 2)]).values())).result()
    with pytest.raises(SpoutError, match=r"begins at 2 by now: 1 records have expired"):
        topic.count()


def test_a_topic_that_was_made_anew_stops_by_name(topic: Topic) -> None:
    topic.make()
    topic.send("a")
    topic.count()
    topic.broker.admin.delete_topics([topic.name])[topic.name].result()
    _gone(topic)
    topic.make()
    topic.send("a", "b")
    with pytest.raises(SpoutError, match="was deleted and made again since it was read"):
        topic.count()


@pytest.mark.parametrize("records", [20, 6_000], ids=["read on the driver", "read by tasks"])
def test_a_batch_that_was_defined_is_not_read_from_a_topic_of_the_same_name(topic: Topic, records: int) -> None:
    def fail(row: Any) -> Any:
        raise RuntimeError("killed here")

    topic.make()
    topic.send(*["old"] * records)
    with pytest.raises(PoisonBatchError):
        topic.count(change=lambda stream: stream.map(fail, "value string"))
    _recreate(topic, records)
    with pytest.raises(SpoutError, match="was deleted and made again since it was read"):
        topic.count()
    assert topic.counts == {}


@pytest.mark.parametrize("records", [20, 6_000], ids=["read on the driver", "read by tasks"])
def test_a_topic_that_is_made_anew_before_its_batch_is_read_stops_before_the_commit(
    topic: Topic, spark: Any, records: int
) -> None:
    class Recreating(KafkaSpout):
        def get_emitter(self, *arguments: Any) -> Any:
            emitter = super().get_emitter(*arguments)
            emit_batch = emitter.emit_batch

            def recreate(*arguments: Any) -> None:
                if not topic.batches:
                    topic.batches.append(records)
                    _recreate(topic, records)
                emit_batch(*arguments)

            emitter.emit_batch = recreate  # type: ignore[method-assign, assignment]
            return emitter

    topic.make()
    topic.send(*["old"] * records)
    topology = TridentTopology("kafka")
    state = SQLiteState(topic.directory / "counts.db", table="counts")
    stream = topology.new_stream("records", Recreating(topic.broker.servers, topic.name, value="string"))
    stream.group_by("value").persistent_aggregate(state, Count(), "n")
    with pytest.raises(SpoutError, match="was deleted and made again since it was read"):
        run_batches(topology, topic.coordination, spark)
    assert topic.counts == {}


def test_a_topic_that_is_deleted_stops_by_name_with_its_unread_records(topic: Topic) -> None:
    topic.make()
    topic.send("a")
    other = f"{topic.name}-other"
    topic.make(name=other)
    spout = topic.spout([topic.name, other])
    topic.count(spout)
    topic.send("unread")
    topic.broker.admin.delete_topics([topic.name])[topic.name].result()
    _gone(topic)
    with pytest.raises(SpoutError, match=f"topic '{topic.name}', which was read before, is not there any more"):
        topic.count(spout)
    topic.send("b", topic=other)
    topic.count(topic.spout([other]))
    assert topic.counts == {"a": 1, "b": 1}


def _recreate(topic: Topic, records: int) -> None:
    topic.broker.admin.delete_topics([topic.name])[topic.name].result()
    _gone(topic)
    topic.make()
    topic.send(*["new"] * records)


def _gone(topic: Topic) -> None:
    while topic.name in topic.broker.admin.list_topics(timeout=10).topics:
        pass


def test_a_compacted_topic_is_opaque_and_one_that_becomes_so_stops(topic: Topic) -> None:
    topic.make(config={"cleanup.policy": "compact"})
    assert topic.spout().replay is Replay.OPAQUE
    topic.send("a", key="k")
    topic.count()
    assert topic.counts == {"a": 1}
    other = Topic(topic.broker, topic.directory / "other", f"{topic.name}x")
    other.directory.mkdir()
    other.make()
    spout = other.spout()
    assert spout.replay is Replay.EXACT
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, other.name, incremental_configs=[change])
    topic.broker.admin.incremental_alter_configs([resource])[resource].result()
    other.send("a", key="k")
    with pytest.raises(SpoutError, match=f"Kafka compacts {other.name}"):
        other.count(spout)


def test_json_is_decoded_where_it_is_read(topic: Topic) -> None:
    topic.make()
    shop = {"item": "cup", "price": "1.50", "at": "2026-01-02T03:04:05+00:00", "tags": ["x", None], "more": 1}
    topic.send(json.dumps(shop), json.dumps({"item": "pot"}), None)
    schema = "item string, price decimal(10,2), at timestamp, tags array<string>"
    seen: list[Any] = []

    def change(stream: Stream) -> Stream:
        return stream.map(lambda row: (repr(row.value),), "value string")

    topic.count(topic.spout(value="json", schema=schema), change)
    seen = sorted(topic.counts)
    assert len(seen) == 3
    assert "Decimal('1.50')" in "".join(seen)
    assert "None" in seen


def test_avro_is_decoded_where_it_is_read(topic: Topic) -> None:
    topic.make()
    shop = {
        "type": "record",
        "name": "Shop",
        "fields": [
            {"name": "item", "type": "string"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        ],
    }
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(shop), {"item": "cup", "price": Decimal("1.50")})
    producer = Producer({"bootstrap.servers": topic.broker.servers})
    producer.produce(topic.name, value=stream.getvalue())
    assert producer.flush(30) == 0
    spout = topic.spout(value="avro", schema=json.dumps(shop))
    topic.count(spout, lambda stream: stream.map(lambda row: (f"{row.value.item} {row.value.price}",), "value string"))
    assert topic.counts == {"cup 1.50": 1}


def test_values_of_a_schema_registry_wait_for_it_and_count_once(topic: Topic) -> None:
    topic.make()
    old: dict[str, Any] = {"type": "record", "name": "Shop", "fields": [{"name": "item", "type": "string"}]}
    more = {"name": "price", "type": "int", "default": 7}
    new, producer = {**old, "fields": [*old["fields"], more]}, Producer({"bootstrap.servers": topic.broker.servers})
    with registry_running() as registry:
        registry.answers = 503
        for schema, value in ((old, {"item": "cup"}), (new, {"item": "tea", "price": 3})):
            stream = BytesIO()
            fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
            number = registry.register("shops-value", schema)
            producer.produce(topic.name, value=b"\0" + number.to_bytes(4, "big") + stream.getvalue())
        assert producer.flush(30) == 0

        def mend() -> None:
            until(lambda: len(registry.asked) > 2)
            registry.answers = 200

        mending = threading.Thread(target=mend)
        mending.start()
        spout = topic.spout(value="avro", schema=json.dumps(new), registry=registry.url)
        topic.count(
            spout, lambda stream: stream.map(lambda row: (f"{row.value.item} {row.value.price}",), "value string")
        )
        mending.join()
    assert topic.counts == {"cup 7": 1, "tea 3": 1}


def test_lag_is_what_no_batch_has_yet(topic: Topic) -> None:
    topic.make(2)
    topic.send(*["a"] * 25)
    spout = topic.spout(max_records_per_batch=10)
    context = TopologyContext("kafka", "records")
    coordinator = spout.get_coordinator("records", TridentConfig(), context)
    assert coordinator.is_ready(1)
    assert coordinator.lag() == {f"{topic.name}/0": 25, f"{topic.name}/1": 0}
    coordinator.initialize_transaction(1, None, None)
    assert coordinator.lag() == {f"{topic.name}/0": 15, f"{topic.name}/1": 0}
    coordinator.close()
    topology = TridentTopology("kafka")
    topology.new_stream("records", spout).peek(lambda row: None)
    with topology.start(coordination=topic.coordination) as query:
        query.process_all_available()
        assert query.status.lag == {"records": {f"{topic.name}/0": 0, f"{topic.name}/1": 0}}


def test_lag_is_what_kafkas_own_tool_tells(topic: Topic) -> None:
    topic.make(2)
    topic.send(*["a"] * 25)
    topic.count(topic.spout(group_id=topic.name, max_records_per_batch=10))  # which tells Kafka how far it is
    topic.send(*["a"] * 7)
    topic.send(*["b"] * 3, partition=1)
    told = tools_command(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", topic.broker.servers, "--describe", "--group", topic.name),
    )
    lines = [
        line.split() for line in subprocess.run(told, capture_output=True, text=True, check=True).stdout.splitlines()
    ]
    head = next(line for line in lines if "LAG" in line)
    by_tool = {
        f"{topic.name}/{row[head.index('PARTITION')]}": int(row[head.index("LAG")])
        for row in lines
        if topic.name in row and row != head
    }
    coordinator = topic.spout(group_id=topic.name, start="committed").get_coordinator(
        "records", TridentConfig(), TopologyContext("kafka", "records")
    )
    assert coordinator.is_ready(1)
    assert coordinator.lag() == by_tool == {f"{topic.name}/0": 7, f"{topic.name}/1": 3}
    coordinator.close()


@pytest.mark.parametrize(("on_error", "expected"), [("skip", {"7": 1}), ("null", {"7": 1, "None": 1})])
def test_a_value_that_can_t_be_decoded_is_left_out_or_null(
    topic: Topic, on_error: str, expected: dict[str, int]
) -> None:
    topic.make()
    topic.send('{"n": "many"}', '{"n": 7}')

    def change(stream: Stream) -> Stream:
        return stream.map(lambda row: (str(row.value and row.value.n),), "value string")

    topic.count(topic.spout(value="json", schema="n int", on_decode_error=on_error), change)
    assert topic.counts == expected


def test_a_value_that_can_t_be_decoded_ends_the_topology_and_is_named(topic: Topic) -> None:
    topic.make()
    topic.send('{"n": 7}', "not JSON")
    with pytest.raises(SpoutError, match=f"record {topic.name}/0 at 1: its value is not json"):
        topic.count(topic.spout(value="json", schema="n int"), lambda s: s.map(lambda _: ("x",), "value string"))


def test_all_of_a_record_is_there(topic: Topic) -> None:
    topic.make()
    topic.send("v", key=b"k", headers=[("h", b"1"), ("h", None)], timestamp=1_700_000_000_123)
    topic.count(change=lambda s: s.map(lambda row: (repr(tuple(row)),), "value string"))
    (row,) = topic.counts
    headers = "[Row(key='h', value=b'1'), Row(key='h', value=None)]"
    at = repr(datetime.fromtimestamp(1_700_000_000.123, UTC).replace(microsecond=123_000))
    assert row.startswith(f"(b'k', 'v', '{topic.name}', 0, 0, {at[:30]}")
    assert "h" in row
    assert headers.count("h") > 1


def test_large_batches_are_read_by_spark_tasks(topic: Topic, spark: Any) -> None:
    topic.make(2)
    for partition in range(2):
        topic.send(*[f"{number % 7}" for number in range(7_000)], partition=partition)
    topology = TridentTopology("kafka")
    state = SQLiteState(topic.directory / "counts.db", table="counts")
    words = topology.new_stream("records", topic.spout())
    words.group_by("value").persistent_aggregate(state, Count(), "n")
    run_batches(topology, topic.coordination, spark)
    assert topic.counts == dict.fromkeys("0123456", 2000)


def test_a_broker_that_was_away_is_found_again(fresh_kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = Topic(fresh_kafka, tmp_path, "t")
    topic.make()
    topic.send("a")
    spout = topic.spout()
    coordinator = spout.get_coordinator("records", TridentConfig(), TopologyContext("kafka", "records"))
    assert coordinator.is_ready(1)
    coordinator.initialize_transaction(1, None, None)
    fresh_kafka.kill()
    with pytest.raises(KafkaException):
        coordinator.is_ready(2)
    fresh_kafka.start()
    topic.send("b")

    def is_ready() -> bool:
        try:
            return coordinator.is_ready(2)
        except KafkaException:  # as the driver takes it: the source can't be reached, and is asked again
            return False

    deadline = monotonic() + 60
    while not is_ready():
        assert monotonic() < deadline
    coordinator.close()


def test_a_compacted_topic_that_nobody_could_ask_about_stops_by_name(fresh_kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = Topic(fresh_kafka, tmp_path, "t")
    topic.make(config={"cleanup.policy": "compact"})
    topic.send("a", key="k")
    fresh_kafka.kill()
    spout = topic.spout()
    assert spout.replay is Replay.EXACT
    fresh_kafka.start()
    assert spout.replay is Replay.EXACT  # as the plan was made
    with pytest.raises(SpoutError, match="Kafka compacts t"):
        topic.count(spout)
