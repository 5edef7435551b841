"""The token of a Kafka sink, and the names that it goes by."""

from __future__ import annotations

import re

import pytest

from trident_py import CommitToken, SinkError
from trident_py.sinks.kafka.token_topic import KafkaToken, token_topic, transactional_id


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
