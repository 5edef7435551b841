"""Latency from topic to topic: from when a record is sent until a reader of committed records has what became of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import islice
from time import monotonic

import confluent_kafka as kafka
from attrs import frozen
from pyspark.sql import SparkSession

from benchmarks.competitors import OURS, with_pending
from benchmarks.other_spark import OtherSpark
from benchmarks.rounds import turned
from benchmarks.sizes import Sizes
from benchmarks.stage import Stage
from benchmarks.topics import Topic, Topics
from trident_py import KafkaSink, KafkaSpout, TridentTopology

MICRO, REAL_TIME = "streaming, micro-batches", "streaming, real-time mode"
TRIGGER = "10 seconds"
"""How long a batch of the real-time mode takes: records go through as they come, a checkpoint is as rare as that."""

Latencies = Mapping[str, list[float]]
"""Seconds, by competitor, of all rounds."""


@frozen
class LatencyCourse:
    """Where they meet.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: our session.
        topics: of the broker.
        peer: the other Spark.
        sizes: how much.
    """

    stage: Stage
    spark: SparkSession
    topics: Topics
    peer: OtherSpark
    sizes: Sizes

    def measured(self) -> Latencies:
        """Each in turns, after one of each that doesn't count: Spark compiles its code there."""
        competitors: dict[str, Callable[[Topic, Topic], AbstractContextManager[None]]] = {
            OURS: partial(self._topology, None),
            with_pending(1): partial(self._topology, 1),
            MICRO: partial(self._streaming, None),
            REAL_TIME: partial(self._streaming, TRIGGER),
        }
        found: dict[str, list[float]] = {name: [] for name in competitors}
        for number in range(self.sizes.rounds + 1):
            for name in turned(list(competitors), number):
                topic, out = self.topics.new(1), self.topics.new(1)
                with competitors[name](topic, out):
                    latencies = self._turn(topic, out)
                found[name] += latencies if number else []
        return found

    @contextmanager
    def _topology(self, pending: int | None, topic: Topic, out: Topic) -> Iterator[None]:
        options = {"log_level": 0}
        topology = TridentTopology("latency")
        stream = topology.new_stream(
            "records", KafkaSpout(self.topics.servers, topic.name, value="string", options=options)
        )
        capitals = stream.map(lambda row: (row.value.upper(),), "value string")
        capitals.write_to(KafkaSink(self.topics.servers, out.name, options=options))
        with topology.start(self.stage.config(pending), spark=self.spark):
            yield

    @contextmanager
    def _streaming(self, trigger: str | None, topic: Topic, out: Topic) -> Iterator[None]:
        given = {"topic": topic.name, "out": out.name, "directory": str(self.stage.scratch("latency")), "batch": 0}
        options = {"kafka.bootstrap.servers": self.topics.servers}
        self.peer.ask("start", what="capitals", trigger=trigger, **given, **options)
        try:
            yield
        finally:
            self.peer.ask("stop")

    def _turn(self, topic: Topic, out: Topic) -> list[float]:
        """Return the latencies of some records; as many go before them, and one that is alone: then it runs."""
        given = {"group.id": out.name, "fetch.wait.max.ms": 5, "auto.offset.reset": "earliest"}
        producer, ended = kafka.Producer(self._client | {"linger.ms": 0}), threading.Event()
        sender = threading.Thread(target=self._send, args=(producer, topic, ended))
        with closing(kafka.Consumer(self._client | given)) as consumer:
            consumer.assign([kafka.TopicPartition(out.name, 0, 0)])
            received = _received(consumer)
            producer.produce(topic.name, f"{monotonic()!r}")
            producer.flush()
            next(received)
            sender.start()
            try:
                return list(islice(received, 2 * self.sizes.kafka_timed))[self.sizes.kafka_timed :]
            finally:
                ended.set()
                sender.join()

    def _send(self, producer: kafka.Producer, topic: Topic, ended: threading.Event) -> None:
        number, began = 0, monotonic()
        while not ended.wait(max(0.0, began + number / self.sizes.kafka_rate - monotonic())):
            producer.produce(topic.name, f"{monotonic()!r}")
            producer.poll(0)
            number += 1
        producer.flush()

    @property
    def _client(self) -> dict[str, object]:
        return {"bootstrap.servers": self.topics.servers, "log_level": 0}


def _received(consumer: kafka.Consumer) -> Iterator[float]:
    """Give for each record how long it took."""
    while True:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            yield monotonic() - float(message.value() or b"")
