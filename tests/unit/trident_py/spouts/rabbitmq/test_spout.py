"""`RabbitMQSpout` over a real server, in a topology in memory. What a crash leaves is in spool/test_exploration."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pika
import pytest
from attrs import define

from coordinators.backends.local import LocalCoordination
from tests.servers.rabbitmq_server import RabbitMQServer
from tests.topologies import until
from tests.unit.trident_py.spouts.collecting import Reader
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.operations.builtin import Count
from trident_py.query import TridentQuery
from trident_py.spouts.rabbitmq.spout import RabbitMQSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology


@define
class Queue:
    """A durable queue, and its publisher."""

    server: RabbitMQServer
    name: str

    @contextmanager
    def channel(self) -> Iterator[Any]:
        with closing(pika.BlockingConnection(pika.URLParameters(self.server.url))) as connection:
            yield connection.channel()

    def declare(self) -> None:
        with self.channel() as channel:
            channel.queue_declare(self.name, durable=True)

    def publish(self, *bodies: str, ids: bool = True) -> None:
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                known = pika.BasicProperties(message_id=f"id of {body}" if ids else None, delivery_mode=2)
                channel.basic_publish("", self.name, body.encode(), known)

    def left(self) -> int:
        with self.channel() as channel:
            found: int = channel.queue_declare(self.name, passive=True).method.message_count
            return found


@pytest.fixture
def queue(rabbitmq_server: RabbitMQServer) -> Queue:
    made = Queue(rabbitmq_server, uuid4().hex)
    made.declare()
    return made


def declared(queue: Queue, directory: Path, **options: Any) -> TridentTopology:
    topology = TridentTopology("orders")
    orders = topology.new_stream("orders", RabbitMQSpout(queue.server.url, queue.name, **options)).project("body")
    orders.group_by("body").persistent_aggregate(SQLiteState(directory / "counts.db", table="counts"), Count(), "count")
    return topology


@contextmanager
def running(
    queue: Queue, directory: Path, where: LocalCoordination | None = None, **options: Any
) -> Iterator[TridentQuery]:
    config = TridentConfig(state_dir=directory)
    with declared(queue, directory, **options).start(config, coordination=where or LocalCoordination()) as query:
        yield query


def counts(query: TridentQuery, directory: Path) -> dict[str, int]:
    query.process_all_available(timeout=60)
    with closing(sqlite3.connect(directory / "counts.db")) as database:
        return dict(database.execute("SELECT body, count FROM counts"))


@pytest.mark.slow
def test_each_message_counts_once_over_restarts_of_topology_and_server(queue: Queue, tmp_path: Path) -> None:
    where = LocalCoordination()
    queue.publish("a", "b", "a")
    with running(queue, tmp_path, where) as query:
        assert counts(query, tmp_path) == {"a": 1, "b": 1}
        assert queue.left() == 0
    queue.publish("b", "c")
    with running(queue, tmp_path, where) as query:
        assert counts(query, tmp_path) == {"a": 1, "b": 1, "c": 1}
        queue.server.kill()
        queue.server.start()
        queue.declare()  # Debian's RabbitMQ 3.10 has lost a durable queue here once, when it was killed
        queue.publish("d", "c")
        until(lambda: counts(query, tmp_path) == {"a": 1, "b": 1, "c": 1, "d": 1})
        assert queue.left() == 0


@pytest.mark.slow
def test_the_lag_counts_the_messages_of_the_spool_and_of_the_queue(queue: Queue, tmp_path: Path) -> None:
    reader = Reader(lambda: RabbitMQSpout(queue.server.url, queue.name, directory=tmp_path, max_held_bytes=1))
    with closing(reader.coordinator) as coordinator:
        assert reader.batch() == []  # it names the spool
        queue.publish("a", "b", "c")
        until(lambda: coordinator.is_ready(2) and coordinator.lag() == {queue.name: 3})
        queue.publish("d")  # the spool is full
        until(lambda: coordinator.lag() == {queue.name: 4})
        assert 0 < coordinator.spool.unread_rows < 4

        def is_read() -> bool:
            reader.batch()
            coordinator.success(len(reader.definitions))
            return bool(coordinator.lag() == {queue.name: 0})

        until(is_read)


@pytest.mark.long
def test_messages_without_an_id_all_count_and_explain_says_what_may_happen(queue: Queue, tmp_path: Path) -> None:
    queue.publish("a", "a", ids=False)
    with running(queue, tmp_path) as query:
        assert counts(query, tmp_path) == {"a": 2}
    assert "a message without message_id may count again after a crash" in declared(queue, tmp_path).explain()


@pytest.mark.long
def test_messages_stay_in_the_queue_while_the_topology_is_behind(queue: Queue, tmp_path: Path) -> None:
    with running(queue, tmp_path, max_held_bytes=1) as query:
        counts(query, tmp_path)
        query.pause()
        for body in "abc":
            queue.publish(body)
            until(lambda body=body: body != "a" or queue.left() == 0)  # type: ignore[misc]
        assert queue.left() <= 2
        query.resume()
        until(lambda: counts(query, tmp_path) == {"a": 1, "b": 1, "c": 1})


@pytest.mark.long
def test_two_messages_with_one_id_stop_the_topology_by_name(queue: Queue, tmp_path: Path) -> None:
    with queue.channel() as channel:
        for body in (b"a", b"b"):
            channel.basic_publish("", queue.name, body, pika.BasicProperties(message_id="1"))
    with (
        pytest.raises(SpoutError, match="have the same message_id and different bodies"),
        running(queue, tmp_path) as query,
    ):
        query.await_termination(60)


@pytest.mark.parametrize(
    ("url", "name", "options", "refusal"),
    [
        ("http://x", "q", {}, "begins with amqp:// or amqps://"),
        ("amqp://x", "", {}, "needs the name of a queue"),
        ("amqp://x", "q", {"value": "json"}, "value is 'string' or 'binary', not 'json'"),
        ("amqp://x", "q", {"max_held_bytes": 0}, "max_held_bytes is at least 1, not 0"),
    ],
)
def test_arguments_of_a_queue_that_cannot_work_are_refused(
    url: str, name: str, options: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(TopologyError, match=refusal):
        RabbitMQSpout(url, name, **options)
    assert "secret" not in repr(RabbitMQSpout("amqp://user:secret@host", "q"))
