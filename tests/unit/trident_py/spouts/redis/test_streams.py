"""`RedisStreamsSpout` over a real server: ranges give the same entries, and entries that are lost stop it by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve
from redis import Redis

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import Reader, emitted
from trident_py.errors import SpoutError, TopologyError
from trident_py.spouts import RedisStreamsSpout
from trident_py.spouts.redis import streams
from trident_py.spouts.redis.streams import StreamLook, StreamPosition


@pytest.fixture
def client(redis: str) -> Iterator[Redis]:
    with closing(Redis.from_url(redis)) as client:
        yield client


class EntryReader(Reader):
    """Leaves out the times of entries."""

    def rows(self, txid: int) -> list[Any]:
        return [(stream, id, dict(entry)) for stream, id, _, entry in super().rows(txid)]


@pytest.fixture
def read(redis: str) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(names: Any = "orders", **options: Any) -> Reader:
        made.append(EntryReader(lambda: RedisStreamsSpout(redis, names, **options)))
        return made[-1]

    yield make
    for each in made:
        each.coordinator.close()


def add(client: Redis, *ids: int, stream: str = "orders") -> None:
    for id in ids:
        client.xadd(stream, {"n": id}, id=f"{id}-0")


def numbers(rows: list[Any]) -> list[int]:
    return [int(entry["n"]) for _, _, entry in rows]


def test_entries_come_once_in_order_and_a_range_gives_the_same_ones_again(
    client: Redis, read: Callable[..., Reader]
) -> None:
    reader = read(max_records_per_batch=2)
    assert reader.batch() == []
    add(client, 1, 2, 3)
    assert reader.batch() == [("orders", "1-0", {"n": "1"}), ("orders", "2-0", {"n": "2"})]
    reader.restart()
    add(client, 4)
    assert numbers(reader.batch()) == [3, 4]
    assert reader.batch() == []
    assert reader.coordinator.lag() == {"orders": 0}
    add(client, 5)
    assert [numbers(reader.rows(txid)) for txid in (1, 2)] == [[1, 2], [3, 4]]
    assert numbers(reader.batch()) == [5]


def test_several_streams_have_a_range_each_and_may_appear_later(client: Redis, read: Callable[..., Reader]) -> None:
    reader = read(["orders", "returns"])
    add(client, 1)
    assert numbers(reader.batch()) == [1]
    add(client, 7, stream="returns")
    add(client, 2)
    assert [(stream, entry["n"]) for stream, _, entry in reader.batch()] == [("orders", "2"), ("returns", "7")]
    assert len(reader.definitions[-1]) == 2


def test_it_may_begin_after_the_last_entry_which_is_stored_at_once(client: Redis, read: Callable[..., Reader]) -> None:
    add(client, 1, 2)
    reader = read(start="latest")
    assert reader.batch() == []
    assert len(reader.definitions) == 1
    add(client, 3)
    reader.restart()
    assert numbers(reader.batch()) == [3]


def test_all_entries_of_a_stream_that_appears_later_are_new(client: Redis, read: Callable[..., Reader]) -> None:
    reader = read(start="latest")
    assert not reader.coordinator.is_ready(1)
    add(client, 1, 2)
    assert numbers(reader.batch()) == [1, 2]


def test_a_limit_of_an_operator_holds_for_the_next_batch(client: Redis, read: Callable[..., Reader]) -> None:
    reader = read()
    add(client, 1, 2, 3)
    reader.coordinator.limit_batches(1)
    assert numbers(reader.batch()) == [1]
    reader.coordinator.limit_batches(None)
    assert numbers(reader.batch()) == [2, 3]


def test_entries_that_were_trimmed_after_they_were_read_are_not_missed(
    client: Redis, read: Callable[..., Reader]
) -> None:
    add(client, 1, 2, 3)
    client.xtrim("orders", maxlen=2, approximate=False)
    reader = read()
    assert numbers(reader.batch()) == [2, 3]
    client.xtrim("orders", maxlen=0, approximate=False)
    assert reader.batch() == []
    add(client, 4)
    client.xdel("orders", "3-0")
    assert numbers(reader.batch()) == [4]


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (lambda client: client.xtrim("orders", maxlen=1, approximate=False), "1 entries after 2-0 were trimmed"),
        (lambda client: client.xtrim("orders", maxlen=0, approximate=False), "2 entries after 2-0 were trimmed"),
        (lambda client: client.xdel("orders", "4-0"), "entry 4-0 was deleted before it was read"),
        (lambda client: client.delete("orders"), "can't be read: no such key"),
        (
            lambda client: [client.delete("orders"), client.xadd("orders", {"n": 9}, id="9-0")],
            "says 1 up to 9-0: it was deleted and made again",
        ),
    ],
)
def test_entries_that_are_lost_before_they_are_read_stop_it(
    lose: Callable[[Redis], object], why: str, client: Redis, read: Callable[..., Reader]
) -> None:
    reader = read(max_records_per_batch=2)
    add(client, 1, 2, 3, 4)
    assert numbers(reader.batch()) == [1, 2]
    reader.restart()  # what it has found before is not read from memory
    lose(client)
    with pytest.raises(SpoutError, match=rf"spout 'lines': stream 'orders'.*{why}"):
        reader.batch()


def test_entries_that_a_replay_needs_and_that_are_gone_are_named(client: Redis, read: Callable[..., Reader]) -> None:
    reader = read()
    add(client, 1, 2, 3)
    reader.batch()
    client.xdel("orders", "2-0")
    with pytest.raises(SpoutError, match=r"stream 'orders' has 2 of the 3 entries after 0-0 up to 3-0"):
        reader.rows(1)


def test_large_ranges_are_read_in_portions(
    client: Redis, read: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PORTION", 2)
    add(client, *range(1, 6))
    assert numbers(read().batch()) == [1, 2, 3, 4, 5]


def test_values_may_be_bytes_and_the_time_is_that_of_the_id(client: Redis, read: Callable[..., Reader]) -> None:
    client.xadd("orders", {"raw": b"\xff\x00"}, id="1764331200123-7")
    with pytest.raises(SpoutError, match=r"entry 1764331200123-7 .* no text in UTF-8.*value='binary'"):
        read().batch()
    reader = read(value="binary")
    assert reader.batch() == [("orders", "1764331200123-7", {"raw": b"\xff\x00"})]
    ((_, _, at, _),) = emitted(reader.emitter, TransactionAttempt(1, 0), reader.definitions[0])
    assert at == datetime(2025, 11, 28, 12, 0, 0, 123_000, tzinfo=UTC)


def test_a_stream_of_a_server_that_went_back_in_time_is_recognised() -> None:
    look = StreamLook(added=5, length=5, first="1-0", last="5-0", deleted="0-0")
    assert look.lost_after(StreamPosition("5-0", 5)) == ""
    assert "its server has lost entries" in look.lost_after(StreamPosition("6-0", 5))
    assert "its server has lost entries" in look.lost_after(StreamPosition("5-0", 6))
    assert evolve(look, first="", length=0).lost_after(StreamPosition("3-0", 3)).startswith("2 entries after 3-0")


@pytest.mark.parametrize(
    ("names", "options", "refusal"),
    [
        ([], {}, "streams are at least one name"),
        (["a", "a"], {}, "streams are at least one name, each once"),
        ("a", {"start": "now"}, "start is 'earliest' or 'latest', not 'now'"),
        ("a", {"value": "json"}, "value is 'string' or 'binary', not 'json'"),
        ("a", {"max_records_per_batch": 0}, "max_records_per_batch is at least 1, not 0"),
    ],
)
def test_arguments_that_cannot_work_are_refused_at_once(names: Any, options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(TopologyError, match=refusal):
        RedisStreamsSpout("redis://localhost:1", names, **options)
