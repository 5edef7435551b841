"""What a user of Kafka may not do stops a topology by name."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.servers.kafka import KafkaBroker
from trident_py import (
    Count,
    FixedBatchSpout,
    KafkaSink,
    KafkaSpout,
    SinkError,
    SpoutError,
    SQLiteState,
    TridentTopology,
)
from trident_py.testing import LocalCoordination, run_batches

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def guarded(fresh_kafka: KafkaBroker) -> KafkaBroker:
    """A broker that asks what its users may do; all of it, unless it is denied."""
    fresh_kafka.kill()
    with (fresh_kafka.directory / "server.properties").open("a") as properties:
        properties.write("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n")
        properties.write("allow.everyone.if.no.acl.found=true\n")
    fresh_kafka.start()
    return fresh_kafka


def deny(broker: KafkaBroker, topic: str, operation: AclOperation) -> None:
    everybody = (topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    binding = AclBinding(ResourceType.TOPIC, *everybody, operation, AclPermissionType.DENY)
    broker.admin.create_acls([binding])[binding].result()


def made(broker: KafkaBroker) -> str:
    topic = uuid4().hex
    broker.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    producer.produce(topic, b"a")
    assert producer.flush(30) == 0
    return topic


def test_rights_that_are_missing_stop_spouts_and_sinks_by_name(guarded: KafkaBroker, tmp_path: Path) -> None:
    for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        topic = made(guarded)
        deny(guarded, topic, operation)
        topology = TridentTopology("reading")
        state = SQLiteState(tmp_path / f"{topic}.db", table="counts")
        stream = topology.new_stream("records", KafkaSpout(guarded.servers, topic))
        stream.persistent_aggregate(state, Count(), "n")
        with pytest.raises(SpoutError, match=r"Kafka refuses.*TOPIC_AUTHORIZATION_FAILED"):
            run_batches(topology, LocalCoordination())
    topic = made(guarded)
    deny(guarded, topic, AclOperation.WRITE)
    topology = TridentTopology("writing")
    stream = topology.new_stream("words", FixedBatchSpout("value string", 1, ("a",)))
    stream.write_to(KafkaSink(guarded.servers, topic))
    with pytest.raises(SinkError, match=r"Kafka refuses: .*TOPIC_AUTHORIZATION_FAILED"):
        run_batches(topology, LocalCoordination())
