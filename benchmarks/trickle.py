"""Rows that come one at a time, some hundred a second: how long each takes, beside a loop by hand.

    python -m benchmarks.trickle [--sizes full] [--out DIR]

- ``by hand``     one thread that takes what has come, and writes it in one transaction of Kafka or the database. Its
                  position is stored in the databases only, so it is not exactly once into Kafka
- ``trident_py``  a topology with shared jobs; with a resident task; with that and 1 or 64 pending transactions

From Kafka to Kafka, a latency ends when a consumer of committed records has the row. Into a database it ends by hand
with COMMIT, and in a topology with the emitter's ``success``: then ZooKeeper has the transaction, too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from statistics import median
from time import perf_counter
from typing import Any

import confluent_kafka as kafka
import psycopg
import pyarrow as pa
from attrs import define, evolve, field, frozen
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from benchmarks.command import run_part
from benchmarks.competitors import OURS
from benchmarks.feed import Feed, FeedSpout, emit_rows
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import quantile, turned
from benchmarks.sizes import Sizes
from benchmarks.small import resident, sentences
from benchmarks.stage import SMALL, Stage
from benchmarks.topics import Topic, Topics, topics_of
from benchmarks.totals import Totals
from tests.servers.kafka import KafkaBroker
from tests.servers.postgresql import NoServerError, PostgresServer
from trident_py import (
    Count,
    KafkaSink,
    KafkaSpout,
    PostgresState,
    SQLiteState,
    TopologyContext,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentTopology,
)
from trident_py.spouts import Emitter, ITridentSpout
from trident_py.spouts.kafka.coordinator import KafkaCoordinator
from trident_py.spouts.kafka.ranges import StoredRange

BY_HAND = "by hand"
UPSERT = "INSERT INTO totals VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET total = totals.total + excluded.total"
ONE, MANY = resident(1), resident(64)
TASK = f"{OURS}, resident"
SECONDS_MAX = 60.0

Source = Callable[[int], None]
"""Sends the row of a number."""

Latencies = Mapping[str, list[list[float]]]
"""Seconds, by competitor, of each round."""


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Kafka → Kafka, Kafka → word count → PostgreSQL, rows → SQLite."""
    if not sizes.trickle_rows:
        return Part()
    found: dict[str, Latencies] = {}
    stage.directory.chmod(0o711)  # the servers' users have to get through
    broker, database = KafkaBroker(stage.scratch("broker")), PostgresServer(stage.scratch("postgres") / "data")
    database.data.parent.chmod(0o711)
    with closing(broker), closing(database), stage.session(SMALL) as spark:
        notes = []
        for server in (broker, database):
            try:
                server.start()
            except NoServerError as error:
                notes.append(f"left out: {error}")
        with topics_of(broker.servers) as topics:
            course = TrickleCourse(stage, spark, topics, database, sizes)
            if not notes:
                found["Kafka → Kafka"] = course.raced(course.send_by_hand, course.send)
                found["Kafka → word count → PostgreSQL"] = course.raced(course.count_by_hand, course.count)
            found["row → SQLite"] = course.raced(course.store_by_hand, course.store)
    return part(sizes, found, notes)


@frozen
class TrickleCourse:
    """Where they meet.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session.
        topics: of the broker.
        database: the PostgreSQL server.
        sizes: how much.
    """

    stage: Stage
    spark: SparkSession
    topics: Topics
    database: PostgresServer
    sizes: Sizes

    def raced(self, by_hand: Callable[[], list[float]], trident: Callable[..., list[float]]) -> Latencies:
        """Each in turns, after one turn of each that doesn't count."""
        competitors: dict[str, Callable[[], list[float]]] = {
            BY_HAND: by_hand,
            OURS: partial(trident, resident_tasks=0),
            TASK: partial(trident, resident_tasks=1),
            ONE: partial(trident, resident_tasks=1, max_spout_pending=1),
            MANY: partial(trident, resident_tasks=1, max_spout_pending=64),
        }
        found: dict[str, list[list[float]]] = {name: [] for name in competitors}
        for number in range(self.sizes.rounds + 1):
            for name in turned(list(competitors), number):
                latencies = competitors[name]()
                if number:
                    found[name].append(latencies)
        return found

    # --- Kafka → Kafka ------------------------------------------------------------------------------------------------

    def send(self, **settings: Any) -> list[float]:
        """A topology that writes capitals."""
        topic, out = self.topics.new(1), self.topics.new(1)
        topology = TridentTopology("capitals")
        stream = topology.new_stream("records", self._spout(topic))
        capitals = stream.map(lambda row: (row.value.upper(),), "value string")
        capitals.write_to(KafkaSink(self.topics.servers, out.name, options={"log_level": 0}))
        with self._running(topology, settings):
            return self._sent(topic, out)

    def send_by_hand(self) -> list[float]:
        """A transaction for whatever has come."""
        topic, out = self.topics.new(1), self.topics.new(1)
        producer = kafka.Producer(self._client | {"transactional.id": out.name, "linger.ms": 0})
        producer.init_transactions(SECONDS_MAX)

        def write(values: list[str]) -> None:
            producer.begin_transaction()
            for value in values:
                producer.produce(out.name, value.upper())
            producer.commit_transaction(SECONDS_MAX)

        with self._looping(topic, write):
            return self._sent(topic, out)

    def _sent(self, topic: Topic, out: Topic) -> list[float]:
        times: list[float] = []
        with closing(self._reader(out)) as reader, self._arriving(self._source(topic), times):
            received = islice(_values(reader), self._rows)
            latencies = [perf_counter() - times[number] for number, _ in enumerate(received)]
        return latencies[self.sizes.trickle_rows :]

    # --- Kafka → word count → PostgreSQL ------------------------------------------------------------------------------

    def count(self, **settings: Any) -> list[float]:
        """A topology that counts words."""
        topic, noted = self.topics.new(1), Noted()
        topology = TridentTopology("words")
        (
            topology.new_stream("lines", NotingSpout(noted, self._spout(topic)))
            .flat_map(lambda row: [(word,) for word in row.value.split()], "word string")
            .group_by("word")
            .persistent_aggregate(PostgresState(self.database.dsn(), table=f"t{topic.name[10:]}"), Count(), "count")
        )
        times: list[float] = []
        with self._running(topology, settings), self._arriving(self._source(topic), times):
            noted.wait(self._rows)
        return noted.latencies(times)[self.sizes.trickle_rows : self._rows]

    def count_by_hand(self) -> list[float]:
        """A transaction with the offset for whatever has come."""
        topic, noted = self.topics.new(1), Noted()
        with psycopg.connect(self.database.dsn(), autocommit=True) as database:
            database.execute("DROP TABLE IF EXISTS totals, done")
            database.execute("CREATE TABLE totals (key TEXT PRIMARY KEY, total BIGINT)")
            database.execute("CREATE TABLE done (upto BIGINT)")
            database.execute("INSERT INTO done VALUES (0)")

            def write(values: list[str]) -> None:
                words = sorted(word for value in values for word in value.split())
                upto = noted.upto + len(values)
                with database.transaction(), database.cursor() as cursor:
                    cursor.executemany(UPSERT, [(word, 1) for word in words])
                    cursor.execute("UPDATE done SET upto = %s", (upto,))
                noted.note(upto)

            times: list[float] = []
            with self._looping(topic, write), self._arriving(self._source(topic), times):
                noted.wait(self._rows)
        return noted.latencies(times)[self.sizes.trickle_rows : self._rows]

    # --- row → SQLite -------------------------------------------------------------------------------------------------

    def store(self, **settings: Any) -> list[float]:
        """A topology whose spout has each row as a batch of its own."""
        feed, times = Feed(), list[float]()
        topology = TridentTopology("rows")
        database = self.stage.scratch("rows") / "counts.db"
        stream = topology.new_stream("rows", FeedSpout(feed, "word string", emit_rows))
        stream.group_by("word").persistent_aggregate(SQLiteState(database, table="counts"), Count(), "count")

        def hand_out(number: int) -> None:
            feed.hand_out([[(f"word{number % 100}",)]])

        with self._running(topology, settings), self._arriving(hand_out, times):
            while len(feed.succeeded) < self._rows:
                time.sleep(0.01)
        at = [feed.succeeded[txid] for txid in range(1, self._rows + 1)]
        return [after - before for before, after in zip(times, at, strict=False)][self.sizes.trickle_rows :]

    def store_by_hand(self) -> list[float]:
        """An upsert and the number of the row in a transaction, as soon as it is there."""
        latencies: list[float] = []
        with Totals.opened(self.stage.scratch("rows") / "totals.db") as totals:

            def store(number: int) -> None:
                began = perf_counter()
                totals.add(number, pa.table({"key": [f"word{number % 100}"], "total": [1]}))
                latencies.append(perf_counter() - began)

            with self._arriving(store, []):
                while len(latencies) < self._rows:
                    time.sleep(0.01)
        return latencies[self.sizes.trickle_rows : self._rows]

    # --- all ----------------------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> int:
        return 2 * self.sizes.trickle_rows  # as many to warm up

    @property
    def _client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.topics.servers, "log_level": 0}

    def _spout(self, topic: Topic) -> KafkaSpout:
        return KafkaSpout(self.topics.servers, topic.name, value="string", options={"log_level": 0})

    def _reader(self, topic: Topic) -> kafka.Consumer:
        given = {"group.id": topic.name, "isolation.level": "read_committed", "fetch.wait.max.ms": 5}
        reader = kafka.Consumer(self._client | given)
        reader.assign([kafka.TopicPartition(topic.name, 0, 0)])
        return reader

    def _source(self, topic: Topic) -> Source:
        producer = kafka.Producer(self._client | {"linger.ms": 0})
        lines = [line for batch in islice(sentences(100, self.sizes), 100) for (line,) in batch]

        def send(number: int) -> None:
            producer.produce(topic.name, lines[number % len(lines)])
            producer.poll(0)

        return send

    @contextmanager
    def _running(self, topology: TridentTopology, settings: Mapping[str, Any]) -> Iterator[None]:
        config = evolve(self.stage.config(), **settings)
        with topology.start(config, spark=self.spark) as query:
            while query.status.resident_tasks.get("there", 0) < settings.get("resident_tasks", 0):
                time.sleep(0.01)
            yield

    @contextmanager
    def _arriving(self, source: Source, times: list[float]) -> Iterator[None]:
        """Let rows come at the rate, and note when each came."""

        def send(ended: threading.Event) -> None:
            began = perf_counter()
            while not ended.wait(max(0.0, began + len(times) / self.sizes.trickle_rate - perf_counter())):
                times.append(perf_counter())
                source(len(times) - 1)

        with _thread(send):
            yield

    @contextmanager
    def _looping(self, topic: Topic, write: Callable[[list[str]], None]) -> Iterator[None]:
        """Let a thread write what has come, again and again."""

        def loop(ended: threading.Event) -> None:
            with closing(self._reader(topic)) as reader:
                while not ended.is_set():
                    first = reader.consume(1, 0.1)
                    messages = [*first, *(reader.consume(1_000, 0) if first else [])]
                    if values := [(each.value() or b"").decode() for each in messages if each.error() is None]:
                        write(values)

        with _thread(loop):
            yield


@contextmanager
def _thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``work`` on a thread, which ends soon after its event is set: at the end of the block."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=[ended])
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _values(reader: kafka.Consumer) -> Iterator[bytes]:
    while True:
        message = reader.poll(1.0)
        if message is not None and message.error() is None:
            yield message.value() or b""


@define(eq=False)
class Noted:
    """Up to which row all are stored, and since when.

    Attributes:
        upto: how many rows are stored.
    """

    upto: int = 0
    _at: list[tuple[int, float]] = field(factory=list, init=False)

    def note(self, upto: int) -> None:
        """That many rows are stored by now."""
        self._at.append((upto, perf_counter()))
        self.upto = upto

    def wait(self, rows: int) -> None:
        """Wait until so many are stored."""
        while self.upto < rows:
            time.sleep(0.01)

    def latencies(self, times: list[float]) -> list[float]:
        """Return how long each row took that came at these times."""
        stored: list[float] = []
        for upto, at in self._at:
            stored += [at] * (upto - len(stored))
        return [after - before for before, after in zip(times, stored, strict=False)]


@define(eq=False)
class NotingSpout(ITridentSpout[list[StoredRange]]):
    """`KafkaSpout` over one partition, whose successes are noted."""

    noted: Noted
    inner: KafkaSpout

    @property
    def output_schema(self) -> StructType:  # type: ignore[override]
        """The spout's own."""
        return self.inner.output_schema

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> KafkaCoordinator:
        """The spout's own."""
        return self.inner.get_coordinator(tx_state_id, conf, context)

    def get_emitter(
        self, tx_state_id: str, conf: TridentConfig, context: TopologyContext
    ) -> Emitter[list[StoredRange]]:
        """The spout's own, which notes."""
        return NotingEmitter(self.noted, self.inner.get_emitter(tx_state_id, conf, context))


@define(eq=False)
class NotingEmitter(Emitter[list[StoredRange]]):
    """Passes everything on."""

    noted: Noted
    inner: Emitter[list[StoredRange]]
    _upto: dict[int, int] = field(factory=dict, init=False)

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[StoredRange], collector: TridentCollector) -> None:
        """Emit the batch."""
        self._upto[attempt.txid] = metadata[0]["to"]
        self.inner.emit_batch(attempt, metadata, collector)

    def success(self, attempt: TransactionAttempt) -> None:
        """Note up to where it was."""
        self.noted.note(self._upto.pop(attempt.txid))

    def close(self) -> None:
        """Pass it on."""
        self.inner.close()


# --- results ----------------------------------------------------------------------------------------------------------


def part(sizes: Sizes, found: Mapping[str, Latencies], notes: list[str]) -> Part:
    """What the turns come to."""
    numbers: dict[str, float] = {}
    for title, latencies in found.items():
        name = title.split(" ")[-1].lower()
        for share in (0.5, 0.99):
            numbers[f"trickle_{name}_p{100 * share:.0f}_ms"] = 1000 * median(_quantiles(latencies[ONE], share))
            numbers[f"trickle_{name}_p{100 * share:.0f}_vs_hand"] = median(_ratios(latencies, ONE, share))
    return Part(tables=[table(sizes, *each) for each in found.items()], numbers=numbers, notes=notes)


def table(sizes: Sizes, title: str, latencies: Latencies) -> Table:
    """Milliseconds, medians of the rounds; how many times those by hand, and the lowest and highest of the rounds."""

    def row(name: str) -> dict[str, Cell]:
        cells: dict[str, Cell] = {"": name}
        for share in (0.5, 0.95, 0.99):
            cells[f"p{100 * share:.0f}, ms"] = 1000 * median(_quantiles(latencies[name], share))
        for share in (0.5, 0.99):
            ratios = _ratios(latencies, name, share)
            cells[f"p{100 * share:.0f}, × by hand"] = median(ratios)
            cells[f"p{100 * share:.0f}, of rounds"] = f"{min(ratios):.1f} to {max(ratios):.1f}"
        return cells

    return Table(f"{title}, {sizes.trickle_rate} rows/s, one at a time", [row(name) for name in latencies])


def _quantiles(rounds: list[list[float]], share: float) -> list[float]:
    return [quantile(each, share) for each in rounds]


def _ratios(latencies: Latencies, name: str, share: float) -> list[float]:
    mine, base = _quantiles(latencies[name], share), _quantiles(latencies[BY_HAND], share)
    return [one / other for one, other in zip(mine, base, strict=True)]


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("trickle", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
