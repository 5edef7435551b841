"""The page of a starting topology: it starts a server if the config asks for one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attrs import frozen

from trident_py.engine.monitoring.listeners import Listeners
from trident_py.errors import ConfigError, TopologyError
from trident_py.history.recorder import MakeProgram
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.ingest import Ingesting
from trident_py.query import TridentQuery

if TYPE_CHECKING:
    from trident_py.web.live import LiveTopology
    from trident_py.web.server import PageServer

NEEDED = ("prometheus_client", "starlette", "uvicorn")


@frozen
class Serving:
    """The page of a starting topology; without a server, its methods do nothing."""

    _topology: LiveTopology | None = None
    _server: PageServer | None = None

    @property
    def address(self) -> str:
        """The URL for other processes; empty without a server."""
        return self._server.address if self._server else ""

    def listening(self, listeners: Listeners) -> Listeners:
        """Return ``listeners``, with those of the page."""
        return self._topology.listening(listeners) if self._topology else listeners

    def show(self, query: TridentQuery) -> None:
        """Show the running topology until it ends."""
        if self._topology and self._server:
            query.page = self._server.url
            self._topology.query = query


@contextmanager
def served(name: str, config: TridentConfig, program: MakeProgram, spouts: Sequence[object] = ()) -> Iterator[Serving]:
    """Serve the page of a topology as ``config`` says; it closes if the block raises, else when the topology has ended.

    Args:
        name: of the topology.
        config: names the address.
        program: the program that runs it.
        spouts: its spouts; some may receive requests.

    Raises:
        ConfigError: a library isn't installed, the address is in use, or the certificate can't be used.
        TopologyError: two spouts receive the same stream.
    """
    receiving = ingesting(spouts)
    if config.serve is None:
        yield Serving()
        return
    ensure_installed()
    from trident_py.web.app import Page
    from trident_py.web.left_out import RowsLeftOut
    from trident_py.web.live import LiveTopology
    from trident_py.web.server import PageServer
    from trident_py.web.token import token_at

    topology = LiveTopology(name, config, program(), lambda: server.close(), receiving)
    server = PageServer(Page(topology, RowsLeftOut(name, config)), config, token_at(config.state_dir))
    server.open()
    try:
        yield Serving(topology, server)
    except BaseException:
        server.close()
        raise


def ingesting(spouts: Sequence[object]) -> Mapping[str, Ingesting]:
    """Return the spouts that receive requests, by stream.

    Raises:
        TopologyError: two of them receive the same stream.
    """
    found: dict[str, Ingesting] = {}
    for spout in spouts:
        if isinstance(spout, Ingesting):
            if spout.stream in found:
                raise TopologyError(f"two spouts receive the stream {spout.stream!r}; give one of them another name")
            found[spout.stream] = spout
    return found


def ensure_installed() -> None:
    """Return if a page can be served.

    Raises:
        ConfigError: a library is missing; the message says how to install it.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ConfigError(f"a page needs {', '.join(missing)}, not installed: pip install 'trident-py[serve]'")
