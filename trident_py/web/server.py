"""An HTTP server on a separate thread, for the page of one topology."""

from __future__ import annotations

import socket
import threading
import time
from asyncio import Task, create_task
from pathlib import Path

import uvicorn
from attrs import define, field

from coordinators.values.secret import Secret
from trident_py.errors import ConfigError
from trident_py.interfaces.config import ServeAddress, TridentConfig
from trident_py.web.access import Access
from trident_py.web.app import OPEN_PATHS, Page
from trident_py.web.connections import DRIVER_FILES, Connections, files_max, leaves_too_few
from trident_py.web.signatures import SignedRequests, Signer

LAST_MESSAGE_SECONDS = 2.0
"""Seconds to send the last message to watching pages."""

CLOSE_SECONDS = 5.0
HEADERS_BYTES_MAX = 32 * 1024


@define(eq=False)
class PageServer:
    """Serves a page from `open` until `close`.

    Attributes:
        page: the page to serve.
        config: names the address.
        token: the token that requests must have.
    """

    page: Page
    config: TridentConfig
    token: Secret
    _socket: socket.socket | None = field(default=None, init=False)
    _server: uvicorn.Server | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    @property
    def address(self) -> str:
        """The URL for other processes, once it is open."""
        at = self._where
        host = at.shown_host
        if at.host in ("0.0.0.0", "::"):  # noqa: S104 - all addresses of this machine; others use its name
            host = socket.gethostname()
        return f"{self._scheme}://{host}:{self._port}"

    @property
    def url(self) -> str:
        """The URL of the page with the token, for the user who started it."""
        return f"{self.address}/?token={self.token.reveal()}"

    def open(self) -> None:
        """Start the server.

        Raises:
            ConfigError: the address is in use or not this machine's, or the certificate can't be used.
        """
        at = self._where
        try:
            family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
            self._socket = socket.create_server((at.host, at.port), family=family)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"the page can't be served at {at}: {error}") from error
        if leaves_too_few(self._socket.fileno()):
            self._socket.close()
            raise ConfigError(
                f"the page can't be served at {at}: this process may have {files_max():g} files open, and needs "
                f"{DRIVER_FILES} for other purposes; to fix this: raise the limit, as by `ulimit -n 1024`"
            )
        app = self.page.app()
        signed = SignedRequests(app, Signer(self.token), lambda: self.page.shown.epoch)
        access = Access(app, self.token, self._port, self._scheme == "https", signed, OPEN_PATHS)
        app.state.access = access
        settings = self._settings(access)
        try:
            settings.load()
        except OSError as error:  # ssl.SSLError is one
            self._socket.close()
            raise ConfigError(f"the page can't be served by HTTPS with {self.config.serve_cert}: {error}") from error
        self._server = _Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name=f"trident-{self.page.shown.name}-serve", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Send the last message to watching pages, and stop; return when nothing is served any more."""
        if self._server is None or self._thread is None:
            return
        self.page.is_closing = True
        until = time.monotonic() + LAST_MESSAGE_SECONDS
        while self.page.is_watched and time.monotonic() < until:
            time.sleep(0.05)
        self._server.should_exit = True
        self._thread.join(CLOSE_SECONDS)
        self.page.close()

    def _settings(self, access: Access) -> uvicorn.Config:
        cert, key = self.config.serve_cert, self.config.serve_key
        return uvicorn.Config(
            access,
            log_config=None,
            access_log=False,  # URLs may contain tokens
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            ssl_certfile=_text(cert),
            ssl_keyfile=_text(key),
            h11_max_incomplete_event_size=HEADERS_BYTES_MAX,
            http="h11",
            loop="asyncio",
            timeout_graceful_shutdown=1,
        )

    @property
    def _where(self) -> ServeAddress:
        if self.config.serve is None:
            raise AssertionError("there is a server only if the config names its address")
        return self.config.serve

    @property
    def _scheme(self) -> str:
        return "https" if self.config.serve_cert else "http"

    @property
    def _port(self) -> int:
        if self._socket is None:
            raise AssertionError("it is open by now")
        port: int = self._socket.getsockname()[1]
        return port


class _Server(uvicorn.Server):
    """Accepts connections by `Connections`, which limits them, instead of by the event loop."""

    _connections: Connections
    _accepting: Task[None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets=[])
        self._connections = Connections(self.config, self.server_state)
        [listener] = sockets or []
        self._accepting = create_task(self._connections.accept(listener))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, and close all connections."""
        self._accepting.cancel()
        self._connections.close()
        await super().shutdown(sockets=sockets)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
