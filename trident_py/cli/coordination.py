"""Where the commands find ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coordinators.zookeeper.access import ZooKeeperAccess
from coordinators.zookeeper.embedded import EmbeddedZooKeeper
from trident_py.errors import ConfigError
from trident_py.interfaces.config import TridentConfig


@contextmanager
def servers(config: TridentConfig) -> Iterator[tuple[str, ZooKeeperAccess]]:
    """The connection string, and how to be let in: of the servers that ``config`` names, or of the embedded one here.

    Raises:
        ConfigError: no servers are named, and no embedded one ever ran here.
    """
    if config.zookeeper is not None:
        yield config.zookeeper, config.zookeeper_access
        return
    directory = config.embedded_dir
    if not directory.is_dir():
        raise ConfigError(
            f"no topology has run here: there is no {directory}; name the place with --state-dir, or the servers with "
            f"--zookeeper"
        )
    with EmbeddedZooKeeper.running(directory) as server:
        yield server.hosts, server.access
