"""How `KafkaSink` and its transactions end, at the cluster that librdkafka has in the process for tests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from trident_py import KafkaSink, SinkTransaction, TransactionAttempt, TransactionKey
from trident_py.errors import SinkError
from trident_py.sinks.kafka import transactions as protocol
from trident_py.sinks.kafka.staging import StagedRows
from trident_py.sinks.kafka.transactions import KafkaTransactions

CLUSTER = {"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0}
PATIENCE_SECONDS = 30


def clients() -> int:
    """How many of librdkafka's clients this process has; each has a thread of this name."""
    return [name(task) for task in Path("/proc/self/task").iterdir()].count("rdk:main")


def name(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:  # it has ended meanwhile
        return ""


def await_clients(wanted: int) -> None:
    """Wait until there are so many: a thread that was joined is listed until the system has removed it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while clients() != wanted:
        assert time.monotonic() < deadline, f"{clients()} clients, not {wanted}"
        time.sleep(0.01)


def test_a_sink_that_is_closed_ends_its_producer() -> None:
    sink, before = KafkaSink("none", "words"), clients()
    sink._transactions._producer = Producer({**CLUSTER, "transactional.id": "words"})
    sink._transactions._producer.init_transactions(30)
    await_clients(before + 1)
    sink.close()
    await_clients(before)


def test_closing_ends_a_producer_whose_cluster_went_away_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_ABORT_SECONDS", 0.1)
    transactions, before = KafkaTransactions({"bootstrap.servers": "none"}, "words"), clients()
    cluster = Producer(CLUSTER)
    [broker] = cluster.list_topics(timeout=30).brokers.values()
    address = f"{broker.host}:{broker.port}"
    producer = Producer({"bootstrap.servers": address, "transactional.id": "words", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("words", b"sent")
    assert producer.flush(30) == 0
    del cluster
    producer.produce("words", b"never sent")
    transactions._producer = producer
    del producer
    await_clients(before + 1)
    transactions.close()
    await_clients(before)


def test_who_has_closed_has_to_recover_before_the_next_commit() -> None:
    transactions = KafkaTransactions({"bootstrap.servers": "none"}, "words")
    transactions.close()
    tx = SinkTransaction(TransactionKey("uuid", 1, 1), TransactionAttempt(1, 0), epoch=1)
    with pytest.raises(SinkError, match="call recover"):
        transactions.commit([(tx, StagedRows(0))])
