"""Servers for one check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.kafka import KafkaBroker
from tests.servers.mariadb import MariaDBServer
from tests.servers.nats_server import NATSServer
from tests.servers.postgresql import PostgresServer
from tests.servers.rabbitmq_server import RabbitMQServer
from tests.servers.redis_server import RedisServer
from tests.servers.running import started
from tests.servers.s3 import S3Server


@contextmanager
def postgres_in(directory: Path) -> Iterator[str]:
    """The DSN of a server."""
    server = PostgresServer(directory / "data")
    with started(server):
        yield server.dsn()


@contextmanager
def mariadb_in(directory: Path) -> Iterator[MariaDBServer]:
    """A server, with a database ``test``."""
    server = MariaDBServer(directory / "data")
    with started(server):
        server.run("CREATE DATABASE IF NOT EXISTS test")
        yield server


@contextmanager
def redis_in(directory: Path) -> Iterator[str]:
    """The URL of a server."""
    server = RedisServer(directory)
    with started(server):
        yield server.url


@contextmanager
def nats_in(directory: Path) -> Iterator[NATSServer]:
    """A server."""
    server = NATSServer(directory)
    with started(server):
        yield server


@contextmanager
def rabbitmq_in(directory: Path) -> Iterator[RabbitMQServer]:
    """A server."""
    server = RabbitMQServer(directory)
    with started(server):
        yield server


@contextmanager
def s3_in(directory: Path) -> Iterator[S3Server]:
    """A server, with a bucket ``lines``."""
    server = S3Server(directory)
    with started(server):
        server.make_bucket("lines")
        yield server


@contextmanager
def broker_in(directory: Path) -> Iterator[KafkaBroker]:
    """A broker."""
    broker = KafkaBroker(directory)
    with started(broker):
        yield broker
