"""A publisher of orders, and the topology that sums them, while the topology and the server are killed."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random

import pika
import pytest
from attrs import define, field
from pika.exceptions import AMQPError

from tests.integration.trident_py import rabbitmq_program
from tests.servers.process import ServerProcess
from tests.servers.rabbitmq_server import RabbitMQServer
from tests.topologies import until

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

KILLS, ITEMS = 4, 7
PATIENCE_SECONDS = 180


@define
class Publisher:
    """Publishes one order after the other; one without a confirmation again, with the same id.

    Attributes:
        confirmed: the orders that RabbitMQ has.
        sent: how often one was sent.
        is_sending: whether the last one may be there, and isn't confirmed.
    """

    url: str
    ended: threading.Event = field(factory=threading.Event)
    confirmed: int = 0
    sent: int = 0
    is_sending: bool = False

    def run(self) -> None:
        while self.is_sending or not self.ended.is_set():
            with suppress(AMQPError, OSError):
                self._publish()
            self.ended.wait(0.1)

    def _publish(self) -> None:
        with closing(pika.BlockingConnection(pika.URLParameters(self.url))) as connection:
            channel = connection.channel()
            channel.queue_declare("orders", durable=True)
            channel.confirm_delivery()
            while self.is_sending or not self.ended.is_set():
                self.is_sending, self.sent = True, self.sent + 1
                channel.basic_publish("", "orders", *_message(self.confirmed + 1))
                self.is_sending, self.confirmed = False, self.confirmed + 1


def _message(order: int) -> tuple[bytes, pika.BasicProperties]:
    body = json.dumps({"item": f"item {order % ITEMS}", "amount": order}).encode()
    return body, pika.BasicProperties(message_id=f"order-{order}", delivery_mode=2)


@contextmanager
def publishing(server: RabbitMQServer) -> Iterator[Publisher]:
    publisher = Publisher(server.url)
    thread = threading.Thread(target=publisher.run)
    thread.start()
    try:
        yield publisher
    finally:
        publisher.ended.set()
        thread.join()


@define
class Program(ServerProcess):
    """The topology; it is killed and started."""

    command: list[str]
    log: Path

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)


def summed(path: Path) -> dict[str, int]:
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, timeout=60)) as database:
        return dict(database.execute("SELECT item, amount FROM sums"))
    return {}


def test_each_order_of_a_queue_counts_once_over_kills_of_topology_and_server(
    rabbitmq_server: RabbitMQServer, zookeeper: str, tmp_path: Path
) -> None:
    command = [sys.executable, rabbitmq_program.__file__, rabbitmq_server.url, zookeeper, str(tmp_path)]
    program, chance, sums = Program(command, tmp_path / "log"), Random(5), tmp_path / "sums.db"
    with closing(program):
        with publishing(rabbitmq_server) as publisher:
            for turn in range(KILLS):
                program.start()
                before = sum(summed(sums).values())
                until(lambda: sum(summed(sums).values()) > before, PATIENCE_SECONDS)  # noqa: B023
                publisher.ended.wait(chance.uniform(0, 1))  # somewhere in a batch
                if turn % 2:
                    rabbitmq_server.kill()
                    rabbitmq_server.start()
                program.kill()
        expected: Counter[str] = Counter()
        for order in range(1, publisher.confirmed + 1):
            expected[f"item {order % ITEMS}"] += order
        program.start()
        until(lambda: sum(summed(sums).values()) >= expected.total(), PATIENCE_SECONDS)
    assert summed(sums) == expected
    assert publisher.sent > publisher.confirmed
