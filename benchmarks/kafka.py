"""Kafka: rows a second and latency beside Spark's own connector, each with what it promises.

    python -m benchmarks kafka [--sizes full] [--out DIR]

Spark's connector is of the newest version that is published, in a process of its own with the same settings
(`benchmarks.other_spark`). A turn begins with a topic from which the first batch is processed; then the records of the
others become visible at one moment, by the commit of a transaction, and the clock runs until all are processed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from attrs import frozen
from pyspark.sql import SparkSession

from benchmarks.competitors import OURS, STREAMING, with_pending
from benchmarks.latency import MICRO, REAL_TIME, Latencies, LatencyCourse
from benchmarks.other_spark import VERSION, NoSparkError, OtherSpark, settings_of
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import Measured, quantile, race
from benchmarks.sizes import LINE_WORDS, WORDS, Sizes
from benchmarks.stage import LARGE, Stage
from benchmarks.topics import Topic, Topics, topics_of
from benchmarks.totals import total
from tests.servers.kafka import KafkaBroker
from tests.servers.postgresql import NoServerError
from trident_py import Count, KafkaSink, KafkaSpout, SQLiteState, TridentTopology

PARTITIONS = 4
RECORD_BYTES = 100
SOURCE = "Spark's source"
SETTINGS = {"spark.sql.streaming.realTimeMode.allowlistCheck": "false"}
"""Without it the real-time mode takes no query but those that its authors have tried."""

SHORT = {OURS: "default", with_pending(1): "pending_1", MICRO: "streaming", REAL_TIME: "real_time"}
"""What numbers are called by."""

PROMISES = {
    ("sqlite", OURS): "exactly once",
    ("sqlite", STREAMING): "exactly once, by a deduplication of one's own in `foreachBatch`",
    ("kafka", OURS): "exactly once",
    ("kafka", STREAMING): "at least once: Spark's Kafka sink has no transactions",
}


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Reading, word counts, latency."""
    if not sizes.kafka_records:
        return Part()
    try:
        with running(stage) as (spark, topics, peer):
            course = Course(stage, spark, topics, peer, sizes)
            reading = race({SOURCE: course.read_by_spark, OURS: course.read}, sizes.rounds, SOURCE)
            counts = {
                into: race(
                    {STREAMING: partial(course.streamed, into), OURS: partial(course.counted, into)},
                    sizes.rounds,
                    STREAMING,
                )
                for into in ("sqlite", "kafka")
            }
            latencies = LatencyCourse(stage, spark, topics, peer, sizes).measured()
    except (NoServerError, NoSparkError) as error:
        return Part(notes=(f"left out: {error}",))
    return part(sizes, reading, counts, latencies)


@contextmanager
def running(stage: Stage) -> Iterator[tuple[SparkSession, Topics, OtherSpark]]:
    """A broker, our session, and the other one."""
    with ExitStack() as held:
        directory = stage.scratch("broker")
        broker = KafkaBroker(directory)
        held.callback(broker.close)
        broker.start()
        spark = held.enter_context(stage.session(LARGE))
        peer = held.enter_context(OtherSpark.running(stage.scratch("peer"), {**settings_of(spark), **SETTINGS}))
        yield spark, held.enter_context(topics_of(broker.servers)), peer


@frozen
class Course:
    """Where they meet.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: our session.
        topics: of the broker.
        peer: the other one.
        sizes: how much.
    """

    stage: Stage
    spark: SparkSession
    topics: Topics
    peer: OtherSpark
    sizes: Sizes

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self) -> float:
        """A topology that counts records."""
        topic, records = self._loaded_topic(), self.sizes.kafka_records
        database = self.stage.scratch("read") / "counts.db"
        topology = TridentTopology("read")
        stream = topology.new_stream("records", self._spout(topic, "binary"))
        stream.persistent_aggregate(SQLiteState(database, table="counts"), Count(), "count")
        seconds = self._timed(topology, topic, self._records(records))
        found = total(database, "counts", "count")
        assert found == records + self._warm, f"{found} records"
        return seconds

    def read_by_spark(self) -> float:
        """A batch query that counts them, and their bytes, as it would read nothing else."""
        topic = self._loaded_topic()
        begin = topic.ends()
        topic.load(self._records(self.sizes.kafka_records))
        topic.show()
        asked = {"topic": topic.name, "starts": begin, "ends": topic.ends(), **self._options}
        began = perf_counter()
        found = self.peer.ask("read", **asked)
        seconds = perf_counter() - began
        assert found["records"] == self.sizes.kafka_records, found
        return seconds

    @property
    def _warm(self) -> int:
        return PARTITIONS

    def _loaded_topic(self) -> Topic:
        topic = self.topics.new(PARTITIONS)
        topic.load(self._records(self._warm))
        topic.show()
        return topic

    def _records(self, count: int) -> Iterator[bytes]:
        return (b"%0*d" % (RECORD_BYTES, number) for number in range(count))

    # --- counting words -----------------------------------------------------------------------------------------------

    def counted(self, into: str) -> float:
        """A topology that counts words, and keeps or sends them."""
        topic, out = self._topic_of_lines(), self.topics.new(PARTITIONS)
        database = self.stage.scratch("counted") / "counts.db"
        topology = TridentTopology("words")
        words = topology.new_stream(
            "lines", self._spout(topic, "string", max_records_per_batch=self.sizes.kafka_lines)
        ).flat_map(lambda row: [(word,) for word in row.value.split()], "word string")
        counts = words.group_by("word").persistent_aggregate(SQLiteState(database, table="counts"), Count(), "total")
        if into == "kafka":
            changes = counts.new_values_stream().map(lambda row: (row.word, str(row.total)), "key string, value string")
            changes.write_to(KafkaSink(self.topics.servers, out.name, options={"log_level": 0}))
        seconds = self._timed(topology, topic, self._lines(self.sizes.kafka_batches))
        self._check(total(database, "counts", "total") if into == "sqlite" else _sum(out))
        return seconds

    def streamed(self, into: str) -> float:
        """A streaming query that does the same."""
        topic, out, directory = self._topic_of_lines(), self.topics.new(PARTITIONS), self.stage.scratch("streamed")
        given = {"topic": topic.name, "out": out.name, "directory": str(directory), "batch": self.sizes.kafka_lines}
        self.peer.ask("start", what=into, trigger=None, **given, **self._options)
        self.peer.ask("drain")
        seconds = _shown(topic, self._lines(self.sizes.kafka_batches), partial(self.peer.ask, "drain"))
        self.peer.ask("stop")
        self._check(total(directory / "totals.db", "totals", "total") if into == "sqlite" else _sum(out))
        return seconds

    def _topic_of_lines(self) -> Topic:
        topic = self.topics.new(PARTITIONS)
        topic.load(self._lines(1))
        topic.show()
        return topic

    def _lines(self, batches: int) -> Iterator[bytes]:
        chance = random.Random(1)  # noqa: S311 - the same input each time
        words = [f"word{number:04}" for number in range(WORDS)]
        for _ in range(batches * self.sizes.kafka_lines):
            yield " ".join(chance.choices(words, k=LINE_WORDS)).encode()

    def _check(self, found: int) -> None:
        wanted = LINE_WORDS * self.sizes.kafka_lines * (1 + self.sizes.kafka_batches)
        assert found == wanted, f"{found} words instead of {wanted}"

    # --- both ---------------------------------------------------------------------------------------------------------

    @property
    def _options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.topics.servers, "kafka.isolation.level": "read_committed"}

    def _spout(self, topic: Topic, value: str, **limits: int) -> KafkaSpout:
        return KafkaSpout(self.topics.servers, topic.name, value=value, options={"log_level": 0}, **limits)  # type: ignore[arg-type]

    def _timed(self, topology: TridentTopology, topic: Topic, values: Iterator[bytes]) -> float:
        with topology.start(self.stage.config(), spark=self.spark) as query:
            query.process_all_available()
            return _shown(topic, values, query.process_all_available)


def _shown(topic: Topic, values: Iterator[bytes], drain: Callable[[], Any]) -> float:
    """Return the seconds from when ``values`` become visible until they are processed."""
    topic.load(values)
    began = perf_counter()
    topic.show()
    drain()
    return perf_counter() - began


def _sum(out: Topic) -> int:
    return sum(map(int, out.latest_by_key().values()))


# --- results ----------------------------------------------------------------------------------------------------------


def part(
    sizes: Sizes, reading: dict[str, Measured], counts: dict[str, dict[str, Measured]], latencies: Latencies
) -> Part:
    """What the turns come to."""
    both = {"kafka_read_vs_spark": reading[OURS]}
    both |= {f"kafka_words_{into}_vs_streaming": found[OURS] for into, found in counts.items()}
    return Part(
        tables=[reading_table(sizes, reading), counts_table(sizes, counts), latency_table(sizes, latencies)],
        numbers={
            **{name: found.ratio for name, found in both.items()},
            **{f"kafka_p50_ms_{SHORT[name]}": 1000 * quantile(found, 0.5) for name, found in latencies.items()},
        },
        spread={name: found.ratio_spread for name, found in both.items()},
        notes=[f"what isn't trident_py is Spark {VERSION}, in a session of its own with the settings of ours"],
    )


def reading_table(sizes: Sizes, reading: dict[str, Measured]) -> Table:
    """Records a second."""
    rows: list[dict[str, Cell]] = [
        {
            "": name,
            "records/s": sizes.kafka_records / found.median,
            "× Spark's": found.ratio,
            "spread": found.ratio_spread,
        }
        for name, found in reading.items()
    ]
    return Table(f"Reading {sizes.kafka_records:,} records of {RECORD_BYTES} bytes in {PARTITIONS} partitions", rows)


def counts_table(sizes: Sizes, counts: dict[str, dict[str, Measured]]) -> Table:
    """Lines a second, and what is promised."""
    names = {"sqlite": "Kafka → word count → SQLite", "kafka": "Kafka → word count → Kafka"}
    lines = sizes.kafka_lines * sizes.kafka_batches
    rows: list[dict[str, Cell]] = [
        {
            "": names[into],
            "by": name,
            "lines/s": lines / found.median,
            "× streaming": found.ratio,
            "spread": found.ratio_spread,
            "promises": PROMISES[into, name],
        }
        for into, both in counts.items()
        for name, found in both.items()
    ]
    return Table(f"Word count of lines of {LINE_WORDS} words, {sizes.kafka_lines:,} lines a batch", rows)


def latency_table(sizes: Sizes, latencies: Latencies) -> Table:
    """Milliseconds from topic to topic."""
    rows: list[dict[str, Cell]] = [
        {
            "": name,
            **{f"p{share:.0f}, ms": 1000 * quantile(found, share / 100) for share in (50, 95, 99)},
            "records": float(len(found)),
            "promises": "exactly once" if name.startswith(OURS) else "at least once",
        }
        for name, found in latencies.items()
    ]
    return Table(f"Latency from topic to topic, {sizes.kafka_rate} records/s in one partition", rows)
