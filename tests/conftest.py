"""Fixtures for everybody: a real ZooKeeper, one or three of them, a real PostgreSQL; how long Hypothesis searches."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import psycopg
import pytest
from hypothesis import settings

from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.values.errors import ConfigError
from tests.servers.azure import AzureServer
from tests.servers.class_archive import quick
from tests.servers.kafka import KafkaBroker
from tests.servers.mariadb import MariaDBServer
from tests.servers.missing import IS_CI, count_missing, lacks
from tests.servers.nats_server import NATSServer
from tests.servers.postgresql import NoServerError, PostgresServer
from tests.servers.rabbitmq_server import RabbitMQServer
from tests.servers.redis_server import RedisServer
from tests.servers.running import Server, started
from tests.servers.s3 import S3Server
from tests.servers.zookeeper import Ensemble

os.environ.setdefault("SPARK_SUBMIT_OPTS", quick())  # of each JVM that a test has Spark start

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
settings.load_profile("ci" if IS_CI else "dev")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Count in the very last line the tests that were skipped because a server isn't installed."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # in the workers of xdist
        return
    skipped = [report.longrepr for report in reporter.stats.get("skipped", [])]
    if line := count_missing(why[2] for why in skipped if isinstance(why, tuple)):
        reporter.write_line(line, yellow=True)


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """One server for the whole run, in a directory with a name that needs care. Who kills one starts its own."""
    try:
        running = EmbeddedZooKeeper.running(tmp_path_factory.mktemp("zoo #keeper=! ü日本"))
        server = running.__enter__()
    except ConfigError as error:
        lacks("ZooKeeper", error)
    yield server
    running.__exit__(None, None, None)


@pytest.fixture
def zookeeper(zookeeper_server: EmbeddedZooKeeper) -> str:
    """A connection string whose chroot no other test has; the node exists."""
    hosts = f"{zookeeper_server.hosts}/{uuid4()}"
    session = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0)
    session.retry_within_lease(lambda: session.ensure_path(session.chroot))
    session.close()
    return hosts


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers for the whole run. Who harms one has it serve again: ``start()``, then ``await_quorum()``."""
    servers = Ensemble.of(tmp_path_factory.mktemp("ensemble"))
    try:
        servers.start()
        servers.await_quorum()
        yield servers
    except ConfigError as error:
        lacks("ZooKeeper", error)
    finally:
        servers.stop()


def installed(name: str) -> str:
    """Return the path of a program; where it isn't installed the test is left out, and fails in CI."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        lacks(name)
    return found


@pytest.fixture(scope="session")
def logrotate() -> str:
    """The path of logrotate."""
    return installed("logrotate")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of Prometheus's promtool."""
    return installed("promtool")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a browser."""
    return installed("chromium")


@pytest.fixture(scope="session")
def chromedriver() -> str:
    """The path of what drives it."""
    return installed("chromedriver")


S = TypeVar("S", bound=Server)


def running(name: str, make: Callable[[Path], S]) -> Iterator[S]:
    """A server in a directory of its own; where it isn't installed the test is left out, and fails in CI."""
    with tempfile.TemporaryDirectory(prefix=f"trident-{name.lower()}-") as directory:
        Path(directory).chmod(0o711)  # the server's user has to get through
        server = make(Path(directory))
        try:
            with started(server):
                yield server
        except NoServerError as error:
            lacks(name, error)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the whole run. Who stops one starts its own, by `fresh_postgres`."""
    yield from running("PostgreSQL", lambda directory: PostgresServer(directory / "data"))


@pytest.fixture
def fresh_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, to be stopped and killed."""
    yield from running("PostgreSQL", lambda directory: PostgresServer(directory / "data"))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for the whole run. Who stops one starts its own, by `fresh_redis`."""
    yield from running("Redis", RedisServer)


@pytest.fixture
def fresh_redis() -> Iterator[RedisServer]:
    """A server of the test's own, to be stopped and killed."""
    yield from running("Redis", RedisServer)


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NATSServer]:
    """One server for the whole run. Who stops one starts its own, by `fresh_nats`."""
    yield from running("NATS", NATSServer)


@pytest.fixture
def fresh_nats() -> Iterator[NATSServer]:
    """A server of the test's own, to be stopped and killed."""
    yield from running("NATS", NATSServer)


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[RabbitMQServer]:
    """One server for the whole run. Who stops one starts it again."""
    yield from running("RabbitMQ", RabbitMQServer)


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """One server for the whole run. Who stops one starts its own, by `fresh_kafka`."""
    yield from running("Kafka", KafkaBroker)


@pytest.fixture
def fresh_kafka() -> Iterator[KafkaBroker]:
    """A server of the test's own, to be stopped and killed."""
    yield from running("Kafka", KafkaBroker)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBServer]:
    """One server for the whole run. Who stops one starts its own, by `fresh_mariadb`."""
    yield from running("MariaDB", lambda directory: MariaDBServer(directory / "data"))


@pytest.fixture
def fresh_mariadb() -> Iterator[MariaDBServer]:
    """A server of the test's own, to be stopped and killed."""
    yield from running("MariaDB", lambda directory: MariaDBServer(directory / "data"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One server for the whole run."""
    yield from running("S3", S3Server)


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """One server for the whole run."""
    yield from running("Azure", AzureServer)


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """The name of one that no other test has."""
    name = f"test-{uuid4().hex}"
    s3_server.make_bucket(name)
    return name


@pytest.fixture
def redis(redis_server: RedisServer) -> str:
    """The URL of a server without any values."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def nats(nats_server: NATSServer) -> NATSServer:
    """A server without any streams."""
    for name in nats_server.ask("STREAM.NAMES")["streams"] or ():
        nats_server.ask(f"STREAM.DELETE.{name}")
    return nats_server


@pytest.fixture
def mysql(mariadb_server: MariaDBServer) -> str:
    """The URL of a database that no other test has, password and all."""
    name = f"test_{uuid4().hex}"
    mariadb_server.run(f"CREATE DATABASE {name}")
    return mariadb_server.url(name)


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> str:
    """The DSN of a database that no other test has, password and all."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres_server.dsn(name)
