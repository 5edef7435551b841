"""The page of a topology that starts: from its config to a server, where one is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attrs import frozen

from trident_py.engine.monitoring.listeners import Listeners
from trident_py.errors import ConfigError
from trident_py.history.recorder import MakeProgram
from trident_py.interfaces.config import TridentConfig
from trident_py.query import TridentQuery

if TYPE_CHECKING:
    from trident_py.web.live import LiveTopology
    from trident_py.web.server import PageServer

NEEDED = ("prometheus_client", "starlette", "uvicorn")


@frozen
class Serving:
    """The page of a topology that starts; without a server there is none."""

    _topology: LiveTopology | None = None
    _server: PageServer | None = None

    @property
    def address(self) -> str:
        """The URL by which other processes find it; empty: there is none."""
        return self._server.address if self._server else ""

    def listening(self, listeners: Listeners) -> Listeners:
        """Return ``listeners``, and those that the page needs."""
        return self._topology.listening(listeners) if self._topology else listeners

    def show(self, query: TridentQuery) -> None:
        """Show what has started, until it ends."""
        if self._topology and self._server:
            query.page = self._server.url
            self._topology.query = query


@contextmanager
def served(name: str, config: TridentConfig, program: MakeProgram) -> Iterator[Serving]:
    """Serve the page of a topology where ``config`` says; closed if the block raises, else when the topology has ended.

    Raises:
        ConfigError: what it needs isn't installed, the address is taken, or the certificate can't be used.
    """
    if config.serve is None:
        yield Serving()
        return
    ensure_installed()
    from trident_py.web.app import Page
    from trident_py.web.live import LiveTopology
    from trident_py.web.server import PageServer
    from trident_py.web.token import token_at

    topology = LiveTopology(name, config, program(), lambda: server.close())
    server = PageServer(Page(topology), config, token_at(config.state_dir))
    server.open()
    try:
        yield Serving(topology, server)
    except BaseException:
        server.close()
        raise


def ensure_installed() -> None:
    """Return if a page can be served.

    Raises:
        ConfigError: a library is missing; says how to install it.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ConfigError(f"a page needs {', '.join(missing)}, not installed: pip install 'trident-py[serve]'")
