"""`NATSSpout` over a real server: ranges give the same messages, and messages that are lost stop it by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import define

from coordinators.values.attempt import TransactionAttempt
from tests.servers.nats_server import NATSServer
from tests.unit.trident_py.spouts.collecting import Reader, emitted, halves
from trident_py.errors import SpoutError, StoreBusyException, TopologyError
from trident_py.spouts import NATSSpout
from trident_py.spouts.nats import client, spout
from trident_py.spouts.nats.client import Client, Message

pytestmark = pytest.mark.nats


@pytest.fixture
def read(nats: NATSServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Reader]]:
    monkeypatch.setattr(client, "WAIT_SECONDS", 0.1)
    made: list[Reader] = []

    def make(stream: str = "orders", url: str = nats.url, **options: Any) -> Reader:
        made.append(Reader(lambda: NATSSpout(url, stream, **options)))
        return made[-1]

    yield make
    for each in made:
        each.coordinator.close()


@pytest.fixture
def orders(nats: NATSServer) -> NATSServer:
    """A server with a stream ``orders``."""
    nats.make_stream("orders")
    return nats


def add(server: NATSServer, *numbers: int, subject: str = "orders.a") -> None:
    server.publish(subject, *(str(number).encode() for number in numbers))


def make_again(server: NATSServer, *numbers: int) -> None:
    server.ask("STREAM.DELETE.orders")
    server.make_stream("orders")
    add(server, *numbers)


def numbers(rows: list[Any]) -> list[int]:
    return [int(row[-1]) for row in rows]


def test_messages_come_once_in_order_and_a_range_gives_the_same_ones_again(
    orders: NATSServer, read: Callable[..., Reader]
) -> None:
    reader = read(max_records_per_batch=2)
    assert reader.batch() == []
    add(orders, 1, 2, 3)
    assert numbers(reader.batch()) == [1, 2]
    assert reader.coordinator.lag() == {"orders": 1}
    reader.restart()
    add(orders, 4)
    assert numbers(reader.batch()) == [3, 4]
    assert reader.batch() == []
    add(orders, 5)
    assert [numbers(reader.rows(txid)) for txid in (1, 2)] == [[1, 2], [3, 4]]
    assert numbers(reader.batch()) == [5]
    assert orders.ask("CONSUMER.NAMES.orders")["consumers"] in (None, [])


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_stream_that_appears_later_is_read_from_its_first_message(
    start: str, nats: NATSServer, read: Callable[..., Reader]
) -> None:
    reader = read(start=start)
    assert reader.batch() == []
    nats.make_stream("orders")
    add(nats, 1)
    assert numbers(reader.batch()) == [1]


def test_a_topology_may_begin_after_the_last_message_which_is_stored_at_once(
    orders: NATSServer, read: Callable[..., Reader]
) -> None:
    add(orders, 1, 2)
    reader = read(start="latest")
    assert reader.batch() == []
    assert len(reader.definitions) == 1
    add(orders, 3)
    reader.restart()
    assert numbers(reader.batch()) == [3]


def test_a_limit_of_an_operator_is_that_of_the_next_batch(orders: NATSServer, read: Callable[..., Reader]) -> None:
    reader = read()
    add(orders, 1, 2, 3)
    reader.coordinator.limit_batches(1)
    assert numbers(reader.batch()) == [1]
    reader.coordinator.limit_batches(None)
    assert numbers(reader.batch()) == [2, 3]


def test_rows_have_subject_number_time_and_headers(orders: NATSServer, read: Callable[..., Reader]) -> None:
    orders.publish("orders.a", b"\xff\x00", headers={"city": "Köln"})
    ((subject, number, time, headers, value),) = read().batch()
    assert (subject, number, dict(headers), value) == ("orders.a", 1, {"city": "Köln"}, b"\xff\x00")
    stored = datetime.fromisoformat(orders.ask("STREAM.MSG.GET.orders", seq=1)["message"]["time"])
    assert time == stored.astimezone(UTC)


def test_values_may_be_json(orders: NATSServer, read: Callable[..., Reader]) -> None:
    orders.publish("orders.a", b'{"item": "pen", "n": 2}', b"pen")
    reader = read(value="json", schema="item string, n int", on_decode_error="skip")
    assert [row[-1] for row in reader.batch()] == [{"item": "pen", "n": 2}]
    quarantining = read(value="json", schema="item string, n int", on_decode_error="quarantine")
    assert [row[-2:] for row in quarantining.batch()] == [({"item": "pen", "n": 2}, None), (None, b"pen")]
    with pytest.raises(SpoutError, match=r"stream 'orders': message 2: its value is not json"):
        read(value="json", schema="item string, n int").batch()


def test_large_ranges_of_messages_are_read_in_portions(
    orders: NATSServer, read: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spout, "PORTION", 2)
    add(orders, *range(1, 6))
    assert numbers(read().batch()) == [1, 2, 3, 4, 5]


def test_what_was_deleted_before_the_beginning_or_after_it_was_read_is_not_missed(
    orders: NATSServer, read: Callable[..., Reader]
) -> None:
    add(orders, *range(1, 8))
    for number in (1, 3, 4, 7):
        orders.ask("STREAM.MSG.DELETE.orders", seq=number)
    reader = read(max_records_per_batch=2)
    assert numbers(reader.batch()) == [2, 5]
    orders.ask("STREAM.MSG.DELETE.orders", seq=5)
    reader.restart()
    assert numbers(reader.batch()) == [6]
    reader.batch()
    orders.ask("STREAM.PURGE.orders")
    add(orders, 8)
    assert numbers(reader.batch()) == [8]


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (lambda server: server.ask("STREAM.PURGE.orders", seq=4), "1 unread messages after message 2 were trimmed or"),
        (lambda server: server.ask("STREAM.PURGE.orders"), "2 unread messages after message 2 were trimmed or"),
        (
            lambda server: server.ask("STREAM.MSG.DELETE.orders", seq=4),
            "1 unread messages after message 2 were deleted",
        ),
        (lambda server: server.ask("STREAM.DELETE.orders"), " was deleted; to fix"),
        (
            lambda server: make_again(server, *range(9)),
            "up to message 2 at .*: it was deleted and made again",
        ),
    ],
)
@pytest.mark.parametrize("subjects", [None, "orders.*"])
def test_messages_that_are_lost_before_they_are_read_stop_it(
    subjects: str | None,
    lose: Callable[[NATSServer], object],
    why: str,
    orders: NATSServer,
    read: Callable[..., Reader],
) -> None:
    reader = read(max_records_per_batch=2, subjects=subjects)
    add(orders, 1, 2, 3, 4)
    assert numbers(reader.batch()) == [1, 2]
    lose(orders)
    with pytest.raises(SpoutError, match=rf"spout 'lines': stream 'orders'.*{why}"):
        reader.batch()


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (lambda server: server.ask("STREAM.MSG.DELETE.orders", seq=2), "1 of the 3 messages after 0 up to 3 were"),
        (lambda server: server.ask("STREAM.PURGE.orders"), "3 of the 3 messages after 0 up to 3 were trimmed, purged"),
        (
            lambda server: make_again(server, 1, 2, 3),
            "it was deleted, so the 3 messages after 0 up to 3 are gone",
        ),
    ],
)
def test_messages_that_a_replay_needs_and_that_are_gone_are_named(
    lose: Callable[[NATSServer], object], why: str, orders: NATSServer, read: Callable[..., Reader]
) -> None:
    reader = read()
    add(orders, 1, 2, 3)
    reader.batch()
    add(orders, 4)
    lose(orders)
    with pytest.raises(SpoutError, match=f"stream 'orders': {why}.*skip the transaction"):
        reader.rows(1)


def test_messages_that_a_replica_does_not_have_yet_are_waited_for(
    orders: NATSServer, read: Callable[..., Reader]
) -> None:
    reader = read()
    add(orders, 1, 2)
    reader.batch()
    (given,) = reader.definitions[0]
    later = given | {"count": 3}
    with pytest.raises(StoreBusyException, match=r"doesn't return 1 messages"):
        emitted(reader.emitter, TransactionAttempt(1, 0), [later])


def test_only_the_wanted_subject_is_read_and_others_are_passed(orders: NATSServer, read: Callable[..., Reader]) -> None:
    reader = read(subjects="orders.a", max_records_per_batch=2)
    add(orders, 1, 2, subject="orders.b")
    assert (reader.batch(), len(reader.definitions)) == ([], 1)  # where it begins is stored
    add(orders, 3, 4, 5)
    add(orders, 6, subject="orders.b")
    assert numbers(reader.batch()) == [3, 4]
    assert reader.coordinator.lag() == {"orders": 1}
    assert numbers(reader.batch()) == [5]
    assert (reader.batch(), len(reader.definitions)) == ([], 3)
    orders.ask("STREAM.MSG.DELETE.orders", seq=6)  # it was seen not to be wanted
    add(orders, 7)
    assert numbers(reader.batch()) == [7]
    assert numbers(reader.rows(2)) == [3, 4]


@define
class MeddledClient(Client):
    """Has something happen between the questions of a look, and perhaps a replica without any message."""

    happen: Callable[[], object] = print
    is_behind: bool = False

    def has_any(self, stream: str, subjects: Sequence[str], begin: int) -> bool:
        self.happen()
        return super().has_any(stream, subjects, begin)

    def numbers(self, stream: str, subjects: Sequence[str], begin: int, most: int) -> list[Message]:
        return [] if self.is_behind else super().numbers(stream, subjects, begin, most)


@pytest.fixture
def meddle() -> Iterator[Callable[..., None]]:
    with ExitStack() as opened:

        def make(reader: Reader, **options: Any) -> None:
            given = reader.coordinator.client
            reader.coordinator.client = MeddledClient(given.where, given.server, **options)
            opened.callback(given.close)

        yield make


def test_a_message_that_is_deleted_during_a_look_is_noticed(
    orders: NATSServer, read: Callable[..., Reader], meddle: Callable[..., None]
) -> None:
    reader = read(subjects="orders.a")
    add(orders, 1, 2)
    meddle(reader, happen=lambda: orders.ask("STREAM.MSG.DELETE.orders", seq=2))
    with pytest.raises(SpoutError, match=r"1 unread messages after message 0 were deleted"):
        reader.batch()


def test_a_position_does_not_pass_messages_that_a_replica_does_not_have_yet(
    orders: NATSServer, read: Callable[..., Reader], meddle: Callable[..., None]
) -> None:
    reader = read(subjects="orders.a")
    add(orders, 1, 2)
    meddle(reader, is_behind=True)
    assert reader.batch() == []
    reader.coordinator.client.is_behind = False
    assert numbers(reader.batch()) == [1, 2]


def test_a_position_moves_before_the_stream_is_trimmed_although_nothing_wanted_came(
    orders: NATSServer, read: Callable[..., Reader]
) -> None:
    reader = read(subjects="orders.a")
    add(orders, 1)
    assert numbers(reader.batch()) == [1]
    for _ in range(3):
        add(orders, 2, 3, subject="orders.b")
        assert reader.batch() == []
    orders.ask("STREAM.PURGE.orders", keep=2)
    reader.restart()
    add(orders, 8)
    assert numbers(reader.batch()) == [8]


def test_several_subjects_are_read_in_the_order_of_the_stream(orders: NATSServer, read: Callable[..., Reader]) -> None:
    reader = read(subjects=["orders.a", "orders.c.*"])
    for number, subject in enumerate(("a", "b", "c.x", "a", "c"), 1):
        add(orders, number, subject=f"orders.{subject}")
    if orders.version < (2, 10):
        with pytest.raises(SpoutError, match=r"use NATS 2\.10 or later, or one subject"):
            reader.batch()
    else:
        assert numbers(reader.batch()) == [1, 3, 4]


def test_a_mirror_with_the_gaps_of_its_origin_is_read(orders: NATSServer, read: Callable[..., Reader]) -> None:
    add(orders, 1, 2, 3, 4)
    orders.ask("STREAM.MSG.DELETE.orders", seq=2)
    orders.make_stream("copy", mirror={"name": "orders"})
    reader = read("copy")
    found: list[int] = []
    while len(found) < 3:
        found += numbers(reader.batch())
    assert found == [1, 3, 4]


def test_a_stream_that_removes_acknowledged_messages_is_refused(nats: NATSServer, read: Callable[..., Reader]) -> None:
    nats.ask("STREAM.CREATE.work", name="work", subjects=["work.>"], retention="workqueue", storage="memory")
    with pytest.raises(SpoutError, match=r"stream 'work' has the retention 'workqueue'"):
        read("work").batch()


def test_a_server_that_has_lost_messages_and_numbered_others_again_is_named(
    fresh_nats: NATSServer, read: Callable[..., Reader]
) -> None:
    server, copy = fresh_nats, fresh_nats.directory / "copy"
    server.make_stream("orders")
    add(server, 1, 2)
    server.stop()
    shutil.copytree(server.directory / "streams", copy)
    server.start()
    add(server, 3, 4)
    reader = read(url=server.url)
    assert numbers(reader.batch()) == [1, 2, 3, 4]
    server.kill()
    with pytest.raises(StoreBusyException, match=r"doesn't answer"):
        reader.batch()
    shutil.rmtree(server.directory / "streams")
    copy.rename(server.directory / "streams")
    server.start()
    with pytest.raises(SpoutError, match=r"was read up to message 4, and ends at 2: its server has lost messages"):
        reader.batch()
    add(server, 5, 6, 7)
    with pytest.raises(SpoutError, match=r"message 4 is not the one that was read: its server has lost messages"):
        reader.batch()
    with pytest.raises(SpoutError, match=r"lost messages, so the 4 messages after 0 up to 4 are others"):
        reader.rows(1)


@pytest.mark.parametrize(
    ("arguments", "options", "refusal"),
    [
        (("", "a"), {}, "servers are a text or a list of texts"),
        (("nats://localhost", "a.b"), {}, "stream is the name of a stream, not 'a.b'"),
        (("nats://localhost", "a"), {"subjects": []}, "subjects are a text or a list of texts"),
        (("nats://localhost", "a"), {"start": "now"}, "start is 'earliest' or 'latest', not 'now'"),
        (("nats://localhost", "a"), {"value": "text"}, "value is one of"),
        (("nats://localhost", "a"), {"value": "json"}, "value='json' needs schema="),
        (("nats://localhost", "a"), {"max_records_per_batch": 0}, "max_records_per_batch is at least 1, not 0"),
        (("nats://localhost", "a"), {"options": {"allow_reconnect": True}}, "options are some of .*, not allow_reco"),
        (("nats://localhost", "a"), {"options": {"tls": object()}}, "tls is a function that returns an SSL context"),
    ],
)
def test_arguments_of_a_stream_that_cannot_work_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(TopologyError, match=refusal):
        NATSSpout(*arguments, **options)


def test_the_servers_are_never_shown() -> None:
    made = NATSSpout("nats://ann:secret@localhost", "orders", options={"token": "secret"})
    shown = [made, made.details(), made.__dict__, *halves(made)]
    assert "secret" not in repr(shown)
