"""The coordination of topologies that have only a config: the servers that it names, or the embedded one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coordinators.backends.coordination import Coordination
from coordinators.backends.zookeeper.coordination import ZooKeeperCoordination
from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from trident_py.interfaces.config import TridentConfig


@contextmanager
def coordination_of(config: TridentConfig) -> Iterator[Coordination]:
    """Yield the coordination that ``config`` names; an embedded server runs at least as long as the block.

    Raises:
        ConfigError: the embedded server can't be started here.
        CoordinationLost: it did not start, or doesn't answer.
    """
    root, session_timeout = config.root, config.session_timeout
    if config.zookeeper is not None:
        access = config.zookeeper_access
        yield ZooKeeperCoordination(hosts=config.zookeeper, root=root, session_timeout=session_timeout, access=access)
        return
    with EmbeddedZooKeeper.running(config.embedded_dir) as server:
        yield ZooKeeperCoordination(
            hosts=server.hosts, root=root, session_timeout=session_timeout, access=server.access
        )


def place_of(config: TridentConfig) -> str:
    """Return the place of the coordination, running or not: the embedded server gets its port when it starts."""
    return f"{config.zookeeper or config.embedded_dir.absolute()}{config.root}"
