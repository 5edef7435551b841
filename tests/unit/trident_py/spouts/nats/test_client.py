"""A client of JetStream: what it asks a real server, and what it says if the server refuses or is away."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from coordinators.values.secret import Secret
from tests.servers.nats_server import NATSServer
from trident_py.errors import SpoutError, StoreBusyException
from trident_py.spouts.nats import client as module
from trident_py.spouts.nats.client import Client, Message, Server, filter_of

pytestmark = pytest.mark.nats

RIGHTS = """
authorization { users: [
  { user: all, password: all }
  { user: some, password: secret, permissions: { publish: ["$JS.API.STREAM.INFO.>"] } }
] }
"""


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(url: str, **options: Any) -> Client:
        made.append(Client("spout 'lines'", Server((Secret(url),), options)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_messages_are_found_by_number_and_subject(nats: NATSServer, connect: Callable[..., Client]) -> None:
    client = connect(nats.url)
    assert client.look("orders") is None
    assert client.read("orders", (), 1, 1) == []
    nats.make_stream("orders")
    nats.publish("orders.a", b"1", b"2")
    nats.publish("orders.b", b"3")
    assert [each.data for each in client.read("orders", (), 2, 2)] == [b"2", b"3"]
    first, second = client.numbers("orders", ["orders.a"], 1, 10)
    assert [(each.sequence, each.data, each.pending) for each in (first, second)] == [(1, b"", 1), (2, b"", 0)]
    assert client.time_of("orders", 1) == first.micros
    assert client.time_of("orders", 4) == 0
    assert client.has_any("orders", ["orders.c", "orders.*"], 3)
    assert not client.has_any("orders", ["orders.a"], 3)


def test_large_messages_come_in_parts(
    nats: NATSServer, connect: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    nats.make_stream("orders")
    nats.publish("orders.a", *(b"x" * 1_000_000 for _ in range(4)))
    monkeypatch.setattr(module, "READ_BYTES", 1)  # so that two of the largest messages are the limit
    assert [each.sequence for each in connect(nats.url).read("orders", (), 1, 4)] == [1, 2]


def test_an_idle_connection_is_made_anew(
    nats: NATSServer, connect: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect(nats.url)
    client.look("orders")
    first = client._connection
    client.look("orders")
    assert client._connection is first
    monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)
    client.look("orders")
    assert client._connection is not first


def test_a_server_that_is_away_is_waited_for(fresh_nats: NATSServer, connect: Callable[..., Client]) -> None:
    client = connect(fresh_nats.url)
    assert client.look("orders") is None
    fresh_nats.kill()
    for _ in range(2):
        with pytest.raises(StoreBusyException, match=r"spout 'lines': the server doesn't answer: nats: .*"):
            client.look("orders")
    fresh_nats.start()
    assert client.look("orders") is None


def test_what_a_server_forbids_is_named(
    fresh_nats: NATSServer, connect: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.3)
    fresh_nats.stop()
    fresh_nats.settings = RIGHTS
    fresh_nats.start()
    with pytest.raises(StoreBusyException, match=r"Authorization Violation"):
        connect(fresh_nats.url.replace("//", "//some:wrong@")).look("orders")
    client = connect(fresh_nats.url.replace("//", "//some:secret@"))
    assert client.look("orders") is None
    with pytest.raises(StoreBusyException, match=r"timeout \(nats: permissions violation for publish") as caught:
        client.time_of("orders", 1)
    assert "secret" not in str(caught.value)


def test_what_a_server_refuses_is_named(nats: NATSServer, connect: Callable[..., Client]) -> None:
    nats.make_stream("orders", max_consumers=1)
    nats.ask("CONSUMER.DURABLE.CREATE.orders.other", stream_name="orders", config={"durable_name": "other"})
    with pytest.raises(SpoutError, match=r"the server refuses: maximum consumers limit reached \(10026\)"):
        connect(nats.url).read("orders", (), 1, 1)


def test_newer_servers_put_a_domain_before_the_numbers() -> None:
    for place in ("orders.c", "domain.account.orders.c"):
        given = Msg(Connection(), "orders.a", f"$JS.ACK.{place}.1.17.3.1795898155507337999.4", b"1")
        assert Message.of(given) == Message("orders.a", 17, 1795898155507337, {}, b"1", 4)


def test_one_subject_is_named_as_old_servers_know_it() -> None:
    assert filter_of(()) == {}
    assert filter_of(("a.*",)) == {"filter_subject": "a.*"}
    assert filter_of(("a", "b")) == {"filter_subjects": ["a", "b"]}


def test_an_ssl_context_is_made_where_it_is_used() -> None:
    server = Server((Secret("tls://localhost"),), {"tls": ssl.create_default_context})
    assert isinstance(server.arguments["tls"], ssl.SSLContext)
    assert server.arguments["servers"] == ["tls://localhost"]
