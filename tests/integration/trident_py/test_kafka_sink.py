"""`KafkaSink` and a real broker: what is killed, fenced and in doubt, as consumers of committed rows see it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from attrs import define, field
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from examples.kafka_avro_totals import ORDER, TOTAL, totals
from tests.faults.drivers import wait_until
from tests.servers.kafka import KafkaBroker
from tests.servers.schema_registry import registry_running
from trident_py import (
    CommitToken,
    FencedError,
    FixedBatchSpout,
    KafkaSink,
    KafkaSpout,
    SinkError,
    SinkTransaction,
    SQLSink,
    TopologyKey,
    TransactionAttempt,
    TransactionKey,
    TridentTopology,
)
from trident_py.errors import FailedException, PoisonBatchError, StoreBusyException
from trident_py.sinks.kafka import token_topic as token_topics
from trident_py.sinks.kafka import transactions as protocol
from trident_py.sinks.kafka.staging import StagedRows
from trident_py.sinks.kafka.token_topic import token_topic, transactional_id
from trident_py.sinks.kafka.transactions import KafkaTransactions
from trident_py.testing import LocalCoordination, run_batches

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 2
PATIENCE_SECONDS = 60
ROWS = 20


@define
class Leader:
    """One that writes to a topic, ``ROWS`` rows a transaction; it has recovered."""

    servers: str
    topic: str
    uuid: str
    epoch: int = 1
    incarnation: int = 1
    transactions: KafkaTransactions = field(init=False)
    last: CommitToken | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        options = {"bootstrap.servers": self.servers, "topic.metadata.propagation.max.ms": 1000, "log_level": 0}
        self.transactions = KafkaTransactions(options, self.topic)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.recover()
            except StoreBusyException:  # asked again, as a topology does: a broker may not lead yet what was just made
                assert time.monotonic() < deadline
            else:
                break

    def recover(self) -> CommitToken | None:
        key = TopologyKey("words", self.uuid, self.incarnation)
        self.last = self.transactions.recover(key, self.epoch)
        return self.last

    def await_markers(self) -> None:
        """Wait for what a broker does after it has acknowledged a commit: killed before, Kafka 4.4 never does it."""
        token_topics.TokenTopic(self.transactions.options, token_topic("words", self.uuid, self.topic)).await_settled()

    def commit(self, txid: int, attempt: int = 0, between: Callable[[], object] = lambda: None) -> None:
        """Commit a transaction; ``between`` is called when half of its rows are under way."""
        self.transactions.commit([self.member(txid, attempt, between)])

    def member(
        self, txid: int, attempt: int = 0, between: Callable[[], object] = lambda: None
    ) -> tuple[SinkTransaction, StagedRows]:
        """A transaction of a group, and its rows."""
        key = TransactionKey(self.uuid, self.incarnation, txid)
        return SinkTransaction(key, TransactionAttempt(txid, attempt), self.epoch), Halves(txid, between)


class Halves(StagedRows):
    """The rows of a transaction, in two batches."""

    def __init__(self, txid: int, between: Callable[[], object]) -> None:
        super().__init__(0)
        self._txid, self._between = txid, between

    def batches(self) -> Iterator[pa.RecordBatch]:
        values = [f"{self._txid}:{number}" for number in range(ROWS)]
        yield pa.record_batch({"value": values[::2], "key": values[::2]})
        self._between()
        yield pa.record_batch({"value": values[1::2], "key": values[1::2]})


@define
class Topic:
    """A topic of a test's own, and what is in it."""

    broker: KafkaBroker
    name: str
    uuid: str

    def lead(self, epoch: int = 1, **more: Any) -> Leader:
        return Leader(self.broker.servers, self.name, self.uuid, epoch, **more)

    def values(self, isolation: str = "read_committed") -> list[str]:
        """What a consumer of another library's making sees, partition by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.servers,
                "group.id": uuid4().hex,
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        found: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
        consumer.assign([TopicPartition(self.name, number, 0) for number in found])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            message = consumer.poll(5)
            assert message is not None
            if (error := message.error()) is None:
                found[message.partition() or 0].append((message.value() or b"").decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
        consumer.close()
        return [value for values in found.values() for value in values]

    @property
    def counts(self) -> dict[int, int]:
        """The rows of each transaction that consumers see, each of which is there once."""
        values = self.values()
        assert len(values) == len(set(values))
        return dict(Counter(int(value.partition(":")[0]) for value in values))

    def whole(self, *txids: int) -> bool:
        return self.counts == dict.fromkeys(txids, ROWS)

    def fence(self) -> None:
        """What a late old leader does that has looked at the token before: its producer comes last."""
        options = {"bootstrap.servers": self.broker.servers, "transactional.id": transactional_id(self.uuid, self.name)}
        Producer({**options, "log_level": 0}).init_transactions(30)

    def killed(self, epoch: int, txid: int, point: str) -> None:
        """A leader of another process that dies at a point of the commit of a transaction."""
        program = [
            sys.executable,
            "-m",
            __name__,
            self.broker.servers,
            self.name,
            self.uuid,
            str(epoch),
            str(txid),
            point,
        ]
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == 9, done.stderr


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> Topic:
    name = f"t{uuid4().hex[:8]}"
    kafka_broker.admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
    return Topic(kafka_broker, name, str(uuid4()))


def die(servers: str, name: str, uuid: str, epoch: str, txid: str, point: str) -> None:
    """Commit a transaction, and die before or after that."""
    leader, commit = Leader(servers, name, uuid, int(epoch)), protocol._commit

    def dying(producer: Producer) -> None:
        producer.flush()
        if point == "after":
            commit(producer)
        os._exit(9)

    protocol._commit = dying
    leader.commit(int(txid))


# --- what is killed ---------------------------------------------------------------------------------------------------


def test_a_leader_that_is_killed_before_its_commit_leaves_nothing(topic: Topic) -> None:
    topic.lead().commit(1)
    topic.killed(2, 2, "before")
    assert len(topic.values("read_uncommitted")) == 2 * ROWS
    assert topic.whole(1)
    leader = topic.lead(epoch=3)
    assert leader.last == CommitToken(1, 1, 0)
    leader.commit(2, attempt=1)
    assert topic.whole(1, 2)


def test_what_was_committed_before_a_leader_was_killed_comes_once(topic: Topic) -> None:
    """The repros of apache/paimon#9666 and delta-io/delta#1813."""
    topic.killed(1, 1, "after")
    leader = topic.lead(epoch=2)
    assert leader.last == CommitToken(1, 1, 0)
    leader.commit(1, attempt=1)
    leader.commit(2)
    assert topic.whole(1, 2)


def test_a_group_is_one_transaction_and_what_comes_again_of_it_is_skipped(topic: Topic) -> None:
    leader, seen = topic.lead(), list[dict[int, int]]()
    leader.commit(1)
    second = leader.member(2, between=lambda: seen.append(topic.counts))
    third = leader.member(3, between=lambda: seen.append(topic.counts))
    leader.transactions.commit([second, third])
    assert seen == [{1: ROWS}, {1: ROWS}]
    assert topic.whole(1, 2, 3)
    leader = topic.lead(epoch=2)
    assert leader.last == CommitToken(3, 1, 0)
    leader.transactions.commit([leader.member(txid, attempt=1) for txid in (2, 3, 4)])
    assert topic.whole(1, 2, 3, 4)


# --- leaders that are none any more -----------------------------------------------------------------------------------


def test_a_leader_that_goes_on_beside_a_new_one_is_refused(topic: Topic) -> None:
    old = topic.lead()
    old.commit(1)
    new = topic.lead(epoch=2)
    for _ in range(2):
        with pytest.raises(FencedError, match="a leader of epoch 2 has taken over topic"):
            old.commit(2)
    new.commit(2)
    with pytest.raises(FencedError):
        old.commit(3)
    new.commit(3)
    assert topic.whole(1, 2, 3)


def test_a_leader_that_is_taken_over_in_its_transaction_is_refused(topic: Topic) -> None:
    old, new = topic.lead(), []
    with pytest.raises(FencedError):
        old.commit(1, between=lambda: new.append(topic.lead(epoch=2)))
    assert topic.counts == {}
    assert new[0].last is None
    new[0].commit(1)
    assert topic.whole(1)


def test_a_late_leader_that_takes_over_again_is_refused_and_disturbs_nobody(topic: Topic) -> None:
    old, new = topic.lead(), topic.lead(epoch=2)
    with pytest.raises(FencedError):
        new.commit(1, between=lambda: topic.lead(epoch=3))
    with pytest.raises(FencedError):
        old.recover()
    assert topic.counts == {}


def test_a_leader_whose_producer_is_fenced_by_one_that_leads_no_more_goes_on(topic: Topic) -> None:
    leader, fences = topic.lead(), iter([topic.fence])
    leader.commit(1)
    topic.fence()
    leader.commit(2)
    leader.commit(3, between=lambda: next(fences, lambda: None)())
    leader.commit(4)
    assert topic.whole(1, 2, 3, 4)


def test_a_leader_that_is_always_fenced_gives_up_for_now(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TRIES", 2)
    leader = topic.lead()
    with pytest.raises(StoreBusyException, match=r"2 producers of .* were fenced, but not by a newer leader"):
        leader.commit(1, between=topic.fence)
    leader.commit(1, attempt=1)
    assert topic.whole(1)


def test_a_producer_that_was_fenced_without_being_told_is_let_go(topic: Topic) -> None:
    old = topic.lead()
    producer = old.transactions._producer
    assert producer is not None
    producer.begin_transaction()
    topic.lead(epoch=2)

    def is_fenced() -> bool:
        try:
            producer.produce(topic.name, b"late")
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError._FATAL)
        return False

    wait_until("the producer's own thread knows", is_fenced, PATIENCE_SECONDS)
    old.transactions.close()


def test_after_a_reset_all_begins_anew_and_older_incarnations_are_refused(topic: Topic) -> None:
    old = topic.lead(epoch=7)
    old.commit(5)
    new = topic.lead(incarnation=2)
    assert new.last is None
    new.commit(1)
    with pytest.raises(FencedError):
        old.commit(6)
    assert topic.whole(5, 1)


# --- what is in doubt -------------------------------------------------------------------------------------------------


def test_a_commit_whose_answer_was_lost_is_not_repeated(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, commit = topic.lead(), protocol._commit

    def unanswered(producer: Producer) -> None:
        commit(producer)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))

    monkeypatch.setattr(protocol, "_commit", unanswered)
    with pytest.raises(StoreBusyException, match="no answer"):
        leader.commit(1)
    monkeypatch.undo()
    leader.commit(1, attempt=1)
    leader.commit(2)
    assert topic.whole(1, 2)
    assert topic.lead(epoch=2).last == CommitToken(2, 1, 0)


def test_a_broker_that_is_killed_in_a_commit_comes_back_to_all_of_it_or_nothing(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, commit, starting = topic.lead(), protocol._commit, Thread(target=topic.broker.start)

    def killing(producer: Producer) -> None:
        producer.flush()
        topic.broker.kill()
        starting.start()
        commit(producer)

    monkeypatch.setattr(protocol, "_commit", killing)
    try:
        leader.commit(1)
    except StoreBusyException:  # it took longer than a commit may take
        starting.join()
    monkeypatch.undo()
    starting.join()
    leader.commit(1, attempt=1)
    leader.commit(2)
    assert topic.whole(1, 2)


def test_a_broker_that_is_away_is_asked_again_later(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = topic.lead()
    leader.commit(1)
    leader.await_markers()
    monkeypatch.setattr(protocol, "COMMIT_SECONDS", 0)
    monkeypatch.setattr(protocol, "_ONE_CALL_SECONDS", 1)
    monkeypatch.setattr(protocol, "_ABORT_SECONDS", 1)
    topic.broker.kill()
    try:
        with pytest.raises(StoreBusyException, match="Kafka doesn't answer as expected"):
            leader.commit(2)
    finally:
        topic.broker.start()
    monkeypatch.undo()
    while True:  # a broker that has just started may not lead its partitions yet
        with suppress(StoreBusyException):
            leader.commit(2, attempt=1)
            break
    assert topic.whole(1, 2)


# --- what is refused by name ------------------------------------------------------------------------------------------


def test_two_sinks_of_a_topology_can_t_have_one_topic(topic: Topic) -> None:
    topic.lead()
    with pytest.raises(SinkError, match="another sink of this topology writes to topic"):
        topic.lead()


def test_a_token_topic_that_was_made_anew_is_named(topic: Topic) -> None:
    leader = topic.lead()
    leader.commit(1)
    name = token_topic("words", topic.uuid, topic.name)
    topic.broker.admin.delete_topics([name])[name].result()
    while name in topic.broker.admin.list_topics(timeout=10).topics:
        pass
    with pytest.raises((SinkError, StoreBusyException)):
        leader.commit(2)
    with pytest.raises(SinkError, match="had transaction 1, and has none now"):
        leader.commit(2)


def test_rows_for_a_topic_that_is_not_there_are_named(topic: Topic) -> None:
    leader = Leader(topic.broker.servers, f"{topic.name}-not", topic.uuid)
    with pytest.raises(SinkError, match=r"Kafka refuses: .*Unknown topic or partition.*; to fix this: create"):
        leader.commit(1)


AHEAD = pa.array([int((time.time() + 7200) * 1e6)], pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("config", "columns", "words"),
    [
        ({"cleanup.policy": "compact"}, {"value": ["no key"]}, r"\(INVALID_RECORD\).*: key None .*, value b'no key'"),
        ({}, {"value": ["early"], "timestamp": AHEAD}, r"\(INVALID_TIMESTAMP\).*value b'early'"),
        ({"max.message.bytes": "2000"}, {"value": [os.urandom(5000)]}, r"\(MSG_SIZE_TOO_LARGE\)"),
        (
            {"segment.bytes": "1048576", "max.message.bytes": "3000000"},
            {"value": [os.urandom(2_000_000)]},
            r"\(RECORD_LIST_TOO_LARGE\)",
        ),
        ({}, {"value": [os.urandom(3_000_000)]}, r"\(MSG_SIZE_TOO_LARGE\)"),
        ({}, {"value": ["nowhere"], "partition": [PARTITIONS]}, r"\(_UNKNOWN_PARTITION\).*value b'nowhere'"),
    ],
    ids=["no key", "time ahead", "too large for the topic", "too large for a segment", "for the client", "partition"],
)
def test_records_that_kafka_refuses_are_a_failure_of_their_batch_and_the_next_one_goes_on(
    topic: Topic, config: dict[str, str], columns: dict[str, Any], words: str
) -> None:
    name = f"{topic.name}-{uuid4().hex[:4]}"
    topic.broker.admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result()
    leader = Leader(topic.broker.servers, name, topic.uuid)
    if "segment.bytes" in config:
        leader.transactions.options = {**leader.transactions.options, "message.max.bytes": 4_000_000}
        leader.recover()
    key = TransactionKey(topic.uuid, 1, 1)
    for attempt in range(2):
        tx = SinkTransaction(key, TransactionAttempt(1, attempt), 1)
        with pytest.raises(FailedException, match=words) as caught:
            leader.transactions.commit([(tx, StagedRows.of(pa.table(columns)))])
        assert not isinstance(caught.value, StoreBusyException)
        assert "nothing of the batch is committed" in str(caught.value)
    leader.commit(1, attempt=2)
    assert Topic(topic.broker, name, topic.uuid).whole(1)


def test_a_batch_that_kafka_refuses_each_time_is_a_poison_batch(topic: Topic, spark: SparkSession) -> None:
    name = f"{topic.name}-compacted"
    topic.broker.admin.create_topics([NewTopic(name, PARTITIONS, 1, config={"cleanup.policy": "compact"})])[
        name
    ].result()
    topology = TridentTopology("words")
    spout = FixedBatchSpout("key string, value string", 2, ("k", "good"), (None, "bad"))
    topology.new_stream("words", spout).write_to(KafkaSink(topic.broker.servers, name))
    with pytest.raises(PoisonBatchError, match=r"transaction 1 failed 5 times.*INVALID_RECORD.*value b'bad'"):
        run_batches(topology, LocalCoordination(), spark)
    assert Topic(topic.broker, name, topic.uuid).values() == []


def test_a_failure_counts_only_if_the_token_says_that_nothing_was_committed(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, commit = topic.lead(), protocol._commit

    def fail_after(producer: Producer) -> None:
        commit(producer)
        monkeypatch.setattr(protocol, "_commit", commit)
        raise KafkaException(KafkaError(KafkaError.INVALID_RECORD))

    monkeypatch.setattr(protocol, "_commit", fail_after)
    leader.commit(1)
    assert topic.whole(1)


def test_a_token_topic_that_forgets_is_refused(topic: Topic) -> None:
    name = token_topic("words", topic.uuid, topic.name)
    made = topic.broker.admin.create_topics([NewTopic(name, 1, 1, config={"cleanup.policy": "delete"})])
    made[name].result()
    with pytest.raises(SinkError, match=r"has cleanup\.policy=delete, by which Kafka will remove the token"):
        topic.lead()


# --- tokens and topologies --------------------------------------------------------------------------------------------


def test_a_token_is_found_behind_what_was_aborted_since(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_topics, "FIRST_REACH", 1)
    leader = topic.lead()
    leader.commit(1)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            leader.commit(2, between=lambda: 1 // 0)
    assert topic.lead(epoch=2).last == CommitToken(1, 1, 0)
    assert topic.whole(1)


def test_all_of_a_row_arrives(topic: Topic, spark: SparkSession) -> None:
    schema = (
        "value string, key string, partition int, timestamp timestamp, headers array<struct<key string, value binary>>"
    )
    at = spark.sql("SELECT timestamp'2026-01-02 03:04:05.678Z' AS at").first()
    assert at is not None
    row = ("1:ü", "k", 1, at["at"], [("h", b"x")])
    topology = TridentTopology("rows")
    topology.new_stream("rows", FixedBatchSpout(schema, 1, row)).write_to(KafkaSink(topic.broker.servers, topic.name))
    coordination = LocalCoordination()
    run_batches(topology, coordination, spark)
    assert run_batches(topology, coordination, spark) == []
    consumer = Consumer({"bootstrap.servers": topic.broker.servers, "group.id": "x", "log_level": 0})
    consumer.assign([TopicPartition(topic.name, 1, 0)])
    message = consumer.poll(30)
    assert message is not None
    assert (message.key(), message.value()) == (b"k", "1:ü".encode())
    assert message.headers() == [("h", b"x")]
    assert message.timestamp()[1] == 1_767_323_045_678
    consumer.close()
    assert topic.counts == {1: 1}


def test_totals_of_avro_values_of_a_registry_are_sent_to_another_topic(topic: Topic, tmp_path: Path) -> None:
    target = Topic(topic.broker, f"{topic.name}-totals", topic.uuid)
    topic.broker.admin.create_topics([NewTopic(target.name, 1, 1)])[target.name].result()
    with registry_running() as registry:
        written = TridentTopology("written")
        orders = FixedBatchSpout("item string, cents int", 2, ("tea", 150), ("cup", 299), ("tea", 150))
        (
            written.new_stream("orders", orders)
            .map(
                lambda row: ((row.item, Decimal(row.cents).scaleb(-2)),),
                "value struct<item string, price decimal(10,2)>",
            )
            .write_to(KafkaSink(topic.broker.servers, topic.name, schema=ORDER, registry=registry.url))
        )
        run_batches(written)
        servers = topic.broker.servers
        run_batches(totals(servers, registry.url, topic.name, target.name, str(tmp_path / "totals.db")))
        read = TridentTopology("read")
        spout = KafkaSpout(servers, target.name, value="avro", schema=TOTAL, registry=registry.url)
        (
            read.new_stream("totals", spout)
            .map(lambda row: (row.value.item, row.value.total), "item string, total decimal(10,2)")
            .write_to(SQLSink(f"sqlite:///{tmp_path / 'read.db'}", "read"))
        )
        run_batches(read)
    with closing(sqlite3.connect(tmp_path / "read.db")) as database:
        found = sorted(database.execute("SELECT item, total FROM read"))
    assert {("cup", "2.99"), ("tea", "3.00")} <= set(found)


TOPOLOGY = """
import os, sys
from examples.kafka_large_orders import large_orders
from trident_py import TridentConfig
from trident_py.sinks.kafka import transactions as protocol

servers, source, target, zookeeper, state_dir, death = sys.argv[1:]
commit, commits = protocol._commit, []

def dying(producer):
    commits.append(1)  # the first one is the leader's own token
    producer.flush()
    if len(commits) == 3 and death == "before":
        os._exit(9)
    commit(producer)
    if len(commits) == 3 and death == "after":
        os._exit(9)

protocol._commit = dying
topology = large_orders(servers, source, target, batch=40)
with topology.start(TridentConfig(zookeeper=zookeeper, state_dir=state_dir)) as query:
    query.process_all_available()
"""


def test_a_topology_from_kafka_to_kafka_sends_each_row_once_in_order_whenever_it_is_killed(
    topic: Topic, zookeeper: str, tmp_path: Path
) -> None:
    target = Topic(topic.broker, f"{topic.name}-large", topic.uuid)
    topic.broker.admin.create_topics([NewTopic(target.name, PARTITIONS, 1)])[target.name].result()
    producer = Producer({"bootstrap.servers": topic.broker.servers, "log_level": 0})
    orders = [{"shop": f"s{number % 7}", "price": number * 10.0} for number in range(240)]
    for order in orders:
        producer.produce(topic.name, json.dumps(order), str(order["shop"]))
    assert producer.flush(30) == 0
    arguments = [topic.broker.servers, topic.name, target.name, zookeeper, str(tmp_path)]
    for death, expected in (("before", 9), ("after", 9), ("never", 0)):
        done = subprocess.run([sys.executable, "-c", TOPOLOGY, *arguments, death], capture_output=True, text=True)
        assert done.returncode == expected, done.stderr
    sent = [json.loads(value) for value in target.values()]
    for shop in {order["shop"] for order in orders}:
        large = [order for order in orders if order["shop"] == shop and order["price"] >= 1000]  # type: ignore[operator]
        assert [order for order in sent if order["shop"] == shop] == large


if __name__ == "__main__":
    die(*sys.argv[1:])
