"""Kafka's own `transactions_test`, with a topology in the place of its copier: each message is copied once, in order.

    python -m tests.faults.kafka [--kills 20] [--seed N] [--keep]

Kafka's `VerifiableProducer` sends numbered messages; a topology copies them from topic to topic, partition by
partition. It and its standby are killed with SIGKILL so many times, and the broker is restarted once. A
`VerifiableConsumer` that reads committed records has to see each message once, in the order of its partition.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec  # type: ignore[attr-defined]

from tests.faults.killing import Killing
from tests.faults.world import World, options, say
from tests.servers.kafka import KafkaBroker, tools_command
from trident_py import KafkaSink, KafkaSpout, TridentTopology

PARTITIONS = 3
BATCH_RECORDS = 100
MESSAGES_A_SECOND = 200
SOURCE, TARGET = "source", "target"
DRAIN_SECONDS, SEE_SECONDS = 600.0, 300.0
SURPLUS_SECONDS = 10.0
"""How long a consumer that has seen what it should waits for more."""

Messages = dict[int, list[str]]
"""By partition, in the order of their offsets."""


def declared(name: str, servers: str) -> TridentTopology:
    """The topology: what is in one topic goes to the same partition of the other."""
    topology = TridentTopology(name)
    spout = KafkaSpout(servers, SOURCE, value="string", max_records_per_batch=BATCH_RECORDS)
    (
        topology.new_stream("messages", spout)
        .map(lambda row: (row.value, row.partition), "value string, partition int")
        .write_to(KafkaSink(servers, TARGET))
    )
    return topology


@contextmanager
def sending(servers: str, told: Path) -> Iterator[None]:
    """Have Kafka's producer send numbered messages, and tell in a file which of them were acknowledged."""
    options = ["--bootstrap-server", servers, "--topic", SOURCE, "--throughput", str(MESSAGES_A_SECOND)]
    with told.open("w") as out:
        command = tools_command("org.apache.kafka.tools.VerifiableProducer", *options)
        producer = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        try:
            yield
            assert producer.poll() is None, f"the producer ended by itself, with {producer.returncode}"
        finally:
            producer.terminate()  # it sends what it has begun to send
            producer.wait()


def sent(told: Path) -> Messages:
    """What was acknowledged."""
    return _by_partition(event for event in map(_event, told.open()) if event.get("name") == "producer_send_success")


def records(broker: KafkaBroker, topic: str) -> int:
    """How many records there are in a topic that nobody writes to in transactions."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    told = broker.admin.list_offsets(dict.fromkeys(partitions, latest))
    return sum(each.result().offset for each in told.values())


def seen(servers: str, topic: str, wanted: int, directory: Path) -> Messages:
    """What Kafka's consumer of committed records sees: as many as are wanted, and what comes after them."""
    config = directory / "consumer.properties"
    config.write_text("isolation.level=read_committed\n")
    options = ["--bootstrap-server", servers, "--topic", topic, "--group-id", f"verifiable-{topic}", "--verbose"]
    command = tools_command("org.apache.kafka.tools.VerifiableConsumer", *options, "--consumer.config", str(config))
    consumer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    timers = [threading.Timer(SEE_SECONDS, consumer.kill), threading.Timer(SURPLUS_SECONDS, consumer.kill)]
    timers[0].start()
    events = []
    assert consumer.stdout is not None
    with consumer:
        for line in consumer.stdout:
            if (event := _event(line)).get("name") == "record_data":
                events.append(event)
                if len(events) == wanted:
                    timers[1].start()
    for timer in timers:
        timer.cancel()
    return _by_partition(events)


def harm(killing: Killing, broker: KafkaBroker, kills: int) -> None:
    """Kill processes of the topology so many times, and restart the broker in between."""
    killing.rage(kills=kills // 2)
    broker.stop()  # in order: a sole broker that is killed may forget a commit, see docs/how-to/kafka.md
    broker.start()
    killing.rage(kills=kills)


def main(argv: list[str] | None = None) -> int:
    """Send, kill, and compare what came out with what was sent."""
    parser = options("Kafka's own test of transactions, a topology in place of its copier.")
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args(argv)
    say(f"seed {arguments.seed}")
    with World.running(keep=arguments.keep) as world:
        (directory := world.directory / "kafka").mkdir()
        broker, began, told = KafkaBroker(directory), monotonic(), world.directory / "sent.jsonl"
        broker.start()
        try:
            topics = [NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]
            for made in broker.admin.create_topics(topics).values():
                made.result()
            what = {"name": "copier", "servers": broker.servers}
            killing = Killing(world, "tests.faults.kafka", what, random.Random(arguments.seed))
            with sending(broker.servers, told):
                harm(killing, broker, arguments.kills)
            killing.drain(DRAIN_SECONDS)
            came = records(broker, SOURCE)
            source = seen(broker.servers, SOURCE, came, directory)
            target = seen(broker.servers, TARGET, came, directory)
        finally:
            broker.close()
        killing.report(monotonic() - began)
        broken = [*differences(sent(told), source, target), *killing.troubles()]
        say("\n".join(broken) or f"each of {_rows(source)} messages came once, in the order of its partition")
    return 1 if broken else 0


def differences(acknowledged: Messages, source: Messages, target: Messages) -> Iterator[str]:
    """Where what came out is not what went in."""
    if not acknowledged:
        yield "the producer had nothing acknowledged"
    for partition, values in acknowledged.items():
        if lost := set(values) - set(source.get(partition, [])):
            yield f"the source itself lost {len(lost)} messages of partition {partition}"
    for partition in source.keys() | target.keys():
        expected, there = source.get(partition, []), target.get(partition, [])
        if expected != there:
            at = next((n for n, (a, b) in enumerate(zip(expected, there, strict=False)) if a != b), -1)
            yield f"partition {partition}: {len(there)} of {len(expected)} messages came, another one from {at} on"


def _event(line: str) -> dict[str, Any]:
    """What one of Kafka's tools tells in a line; the last one may be cut off."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def _by_partition(events: Iterable[dict[str, Any]]) -> Messages:
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for event in events:
        found[event["partition"]].append((event["offset"], event["value"]))
    return {partition: [value for _, value in sorted(there)] for partition, there in found.items()}


def _rows(messages: Messages) -> int:
    return sum(map(len, messages.values()))


if __name__ == "__main__":
    sys.exit(main())
