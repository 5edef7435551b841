from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaException

from trident_py import KafkaSink, TopologyKey
from trident_py.errors import StoreBusyException
from trident_py.sinks.kafka import token_topic
from trident_py.sinks.kafka.client_log import SILENCE_SECONDS, ClientLog
from trident_py.spouts.kafka import cluster
from trident_py.spouts.kafka.cluster import Cluster

AWAY = "broker:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused"


def test_the_same_thing_is_said_once_a_while_whichever_client_says_it(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    given = ClientLog(lambda: now)

    def say(text: str) -> list[str]:
        caplog.clear()
        given.log(logging.ERROR, "%s [%s] %s", "FAIL", f"rdkafka#consumer-{now}", text)
        assert all(record.levelno == logging.WARNING for record in caplog.records)
        return [record.getMessage() for record in caplog.records]

    assert say(f"[thrd:broker:1/bootstrap]: {AWAY} (after 0ms in state CONNECT)") == [f"Kafka's client: {AWAY}"]
    now = SILENCE_SECONDS / 2
    assert say(f"[thrd:app]: {AWAY} (after 9ms in state CONNECT, 1 identical error(s) suppressed)") == []
    assert say("something else") == ["Kafka's client: something else"]
    now = SILENCE_SECONDS
    assert say(f"[thrd:app]: {AWAY} (after 9ms in state CONNECT)") == [f"Kafka's client: {AWAY}"]


def test_a_cluster_that_is_away_is_logged_once_and_not_on_standard_error(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(cluster, "client_log", ClientLog())
    away = Cluster({"bootstrap.servers": "127.0.0.1:1"})
    for _ in range(2):
        with pytest.raises(KafkaException):
            away.topics(["t"])
        away.close()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "Connection refused" in message
    assert "rdkafka" not in capfd.readouterr().err


def test_a_sink_logs_that_its_cluster_is_away_once_and_not_on_standard_error(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_topic, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(token_topic, "client_log", ClientLog())
    for _ in range(2):
        sink = KafkaSink("127.0.0.1:1", "words")
        with pytest.raises(StoreBusyException):
            sink.recover(TopologyKey("words", "a-uuid", 1), 1)
        sink.close()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "Connection refused" in message
    assert "rdkafka" not in capfd.readouterr().err
