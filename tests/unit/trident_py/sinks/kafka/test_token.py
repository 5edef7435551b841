"""The token of a Kafka sink, and the names that it goes by."""

from __future__ import annotations

import re
from concurrent.futures import Future
from typing import Any

import confluent_kafka as kafka
import pytest
from attrs import define

from trident_py import CommitToken, SinkError
from trident_py.sinks.kafka.token_topic import KafkaToken, TokenTopic, token_topic, transactional_id


@pytest.mark.parametrize("commit", [None, CommitToken(7, 2, 1)])
def test_a_token_is_read_as_it_was_stored(commit: CommitToken | None) -> None:
    token = KafkaToken(incarnation=1, fence=3, sink=5, commit=commit)
    assert KafkaToken.parse(token.stored()) == token
    assert token.txid == (7 if commit else 0)


@pytest.mark.parametrize("stored", [b"", b"[]", b"{}", b"\xff"])
def test_what_is_no_token_is_named(stored: bytes) -> None:
    with pytest.raises(SinkError, match="is not a token of this library"):
        KafkaToken.parse(stored)


def test_a_reset_topology_leads_before_what_it_was() -> None:
    old = KafkaToken(incarnation=1, fence=9, sink=1)
    assert KafkaToken(incarnation=2, fence=1, sink=1).leadership > old.leadership


def test_each_sink_of_each_topology_has_names_of_its_own() -> None:
    sinks = [("a", "u1", "t"), ("a", "u2", "t"), ("a", "u1", "t2"), ("a", "u1", None), ("a.b", "u3", "x" * 249)]
    topics = [token_topic(*sink) for sink in sinks]
    assert len(set(topics)) == len(sinks)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,249}", name) for name in topics)
    assert topics[0].startswith("_trident-a-t-")
    assert transactional_id("u1", "t") != transactional_id("u1", None)


@define
class Broker:
    """Kafka's client, as it answers while a new topic has a leader that doesn't know it yet."""

    codes: list[int]

    def list_offsets(
        self, wanted: dict[kafka.TopicPartition, Any], **_: Any
    ) -> dict[kafka.TopicPartition, Future[Any]]:
        answer: Future[Any] = Future()
        if self.codes:
            answer.set_exception(kafka.KafkaException(kafka.KafkaError(self.codes.pop(0))))
        else:
            answer.set_result(kafka.TopicPartition("tokens", 0, 0))
        return dict.fromkeys(wanted, answer)


def test_the_leader_of_a_new_topic_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH")
    early = Broker([getattr(kafka.KafkaError, code) for code in codes])
    monkeypatch.setattr("trident_py.sinks.kafka.token_topic.AdminClient", lambda *_, **__: early)
    assert TokenTopic({}, "tokens").read() is None
    assert early.codes == []


def test_other_errors_of_the_cluster_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = Broker([kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED])
    monkeypatch.setattr("trident_py.sinks.kafka.token_topic.AdminClient", lambda *_, **__: refusing)
    with pytest.raises(kafka.KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        TokenTopic({}, "tokens").read()
