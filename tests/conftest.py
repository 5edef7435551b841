"""Fixtures for everybody: a real ZooKeeper, alone and as an ensemble of three, and how long Hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from hypothesis import settings

from coordinators.embedded import EmbeddedZooKeeper
from coordinators.errors import ConfigError
from coordinators.zookeeper import ZooKeeperSession
from tests.servers.zookeeper import Ensemble

IS_CI = os.environ.get("CI", "").lower() == "true"

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None, print_blob=True)
settings.load_profile("ci" if IS_CI else "dev")


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """One server for the whole run, in a directory with a name that needs care. Who kills one starts its own."""
    try:
        running = EmbeddedZooKeeper.running(tmp_path_factory.mktemp("zoo #keeper=! ü日本"))
        server = running.__enter__()
    except ConfigError as error:
        if IS_CI:
            raise
        pytest.skip(str(error))
    yield server
    running.__exit__(None, None, None)


@pytest.fixture
def zookeeper(zookeeper_server: EmbeddedZooKeeper) -> str:
    """A connection string whose chroot no other test has; the node exists."""
    hosts = f"{zookeeper_server.hosts}/{uuid4()}"
    session = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0)
    session.settle(lambda: session.ensure_path(session.chroot))
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
        if IS_CI:
            raise
        pytest.skip(str(error))
    finally:
        servers.stop()
