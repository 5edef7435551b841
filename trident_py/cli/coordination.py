"""The coordination of the commands that read stored topologies."""

from __future__ import annotations

from contextlib import AbstractContextManager

from coordinators.backends.coordination import Coordination
from trident_py.coordination import coordination_of
from trident_py.errors import ConfigError
from trident_py.interfaces.config import TridentConfig


def existing(config: TridentConfig) -> AbstractContextManager[Coordination]:
    """Return the coordination that ``config`` names; an embedded server is not created just to read.

    Raises:
        ConfigError: no servers are named, and no embedded one ever ran in the ``state_dir``.
    """
    directory = config.embedded_dir
    if config.zookeeper is None and not directory.is_dir():
        raise ConfigError(
            f"no topology has run here: there is no {directory}; name the place with --state-dir, or the servers with "
            f"--zookeeper"
        )
    return coordination_of(config)
