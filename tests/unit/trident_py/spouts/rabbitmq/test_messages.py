from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trident_py.errors import SpoutError
from trident_py.rows.schema import schema_of
from trident_py.spouts.rabbitmq.messages import FIELDS, Message, MessageRows
from trident_py.spouts.spool.records import Received, Record


def rows(value: str, *received: Received) -> list[Any]:
    records = [Record(begin=0, end=0, at=0.0, received=each, hash=b"") for each in received]
    read = MessageRows("here", schema_of(FIELDS.format(value)), value == "string")
    return [row for table in read(records) for row in table.to_pylist()]


def test_a_message_comes_back_as_a_row() -> None:
    whole = Message(message_id="1", routing_key="a.b", timestamp=1_764_331_200, headers={"x": "y"}).received(b"text")
    bare = Message(message_id=None, routing_key="q", timestamp=None, headers={}).received(b"")
    assert (whole.key, bare.key, whole.rows) == ("1", None, 1)
    first, second = rows("string", whole, bare)
    assert list(first.values()) == ["1", "a.b", datetime(2025, 11, 28, 12, tzinfo=UTC), [("x", "y")], "text"]
    assert list(second.values()) == [None, "q", None, [], ""]
    assert rows("binary", whole)[0]["body"] == b"text"


def test_bodies_distinguish_messages_with_one_id() -> None:
    message = Message(message_id="1", routing_key="q", timestamp=None, headers={})
    assert message.received(b"a").digest != message.received(b"b").digest


def test_a_body_that_is_no_text_is_named() -> None:
    message = Message(message_id="7", routing_key="q", timestamp=None, headers={}).received(b"\xff")
    with pytest.raises(SpoutError, match=r"here: the message '7' .* no text in UTF-8.*value='binary'"):
        rows("string", message)
