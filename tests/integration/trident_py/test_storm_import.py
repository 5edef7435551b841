"""An import of the offsets that storm-kafka-client 2.8.3 has stored, and a real broker with the same records."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tests.servers.kafka import KafkaBroker
from tests.storm_data.dumps import counted, line, program, wanted
from trident_py import KafkaSpout, SpoutError, SQLiteState, TridentConfig
from trident_py.storm.importing import import_topology
from trident_py.testing import LocalCoordination, run_batches

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LINES = 30
"""Of each partition; Storm's topic had 20 when it was recorded."""


@pytest.fixture(scope="module")
def lines(kafka_broker: KafkaBroker) -> KafkaBroker:
    """The broker of the topic."""
    kafka_broker.admin.create_topics([NewTopic("storm-lines", 2, 1)])["storm-lines"].result()
    producer = Producer({"bootstrap.servers": kafka_broker.servers})
    for number in range(LINES):
        for partition in range(2):
            producer.produce("storm-lines", line(partition, number), partition=partition)
    producer.flush()
    return kafka_broker


@pytest.mark.parametrize(
    ("name", "said", "first", "pending"),
    [
        ("storm-kafka-exact", "transactional,hash=storm-kafka-exact,tasks=1", 4, [4, 5]),
        ("storm-kafka-opaque", "opaque,hash=storm-kafka-opaque", 3, [3]),
    ],
)
def test_each_record_counts_once_though_storm_was_stopped_in_a_commit(
    lines: KafkaBroker, name: str, said: str, first: int, pending: list[int], tmp_path: Path
) -> None:
    database, coordination = tmp_path / "counts.db", LocalCoordination()
    spout = KafkaSpout(lines.servers, "storm-lines", value="string", max_records_per_batch=7)
    topology = program(name, spout, lambda: SQLiteState(database, table="counts"))
    done = import_topology(topology._graph, TridentConfig(), coordination, wanted(name, counts=said))
    assert list(done.record.attempt_ids) == pending
    txids = [each["txid"] for each in run_batches(topology, coordination)]
    assert txids[0] == first
    with closing(sqlite3.connect(database)) as client:
        assert dict(client.execute("SELECT word, count FROM counts").fetchall()) == dict(counted([0, 1], LINES))


def test_a_cluster_that_does_not_answer_is_named(lines: KafkaBroker, tmp_path: Path) -> None:
    spout = KafkaSpout(lines.servers, "storm-lines", value="string")
    spout.replay  # noqa: B018 - asks the cluster, while it is the right one
    spout._options["bootstrap.servers"] = "127.0.0.1:1"
    with pytest.raises(SpoutError, match="spout 'lines': Kafka doesn't answer"):
        spout.find_topic_ids("lines")
