"""The TCP connections of a page: the limit of open ones, and of the time until a request with the token arrives."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from attrs import define, field
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEADER_SECONDS = 5.0
"""Seconds for a TLS handshake and a request's header, from the start of the connection or the last answer."""

ANSWER_SECONDS = 15.0
"""Seconds to answer a request without the token, from the end of its header."""

CONNECTIONS_MAX = 256
DRIVER_FILES = 64
"""The number of descriptors that are left to the rest of the process."""

AGE_SECONDS_MIN = 0.3
"""The seconds for which a connection is not replaced by a newer one, so that a client has time to send a header."""

ACCEPT_AGAIN_SECONDS = 0.1
BACKLOG = 4096
"""Connections that wait in the kernel to be accepted; Linux drops further ones, and clients retry them."""

DEFER_SECONDS = 5
"""While connections are replaced, Linux passes on a new one once its client has sent data, or after these seconds."""

CALM_SECONDS = 10.0
"""Seconds without a replaced connection, until all connections are accepted immediately again."""

quiet = logging.getLogger(f"{__name__}.requests")
quiet.setLevel(logging.ERROR)  # malformed requests, which any client may send, would be warnings


def files_max() -> float:
    """Return how many descriptors this process may have open now (`ulimit -n`)."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if soft == resource.RLIM_INFINITY else soft


def leaves_too_few(descriptor: int) -> bool:
    """Return whether fewer descriptors are free than the driver needs; ``descriptor`` is the lowest that was free."""
    return descriptor >= files_max() - DRIVER_FILES


class Connection(H11Protocol):
    """One connection. It counts as waiting, except while a request with the token is answered.

    Attributes:
        opening: the task that accepts it, including the TLS handshake.
        waits_since: when it began to wait, on the loop's clock.
        has_header: whether the header of an unanswered request has arrived.
    """

    def __init__(self, config: uvicorn.Config, state: ServerState, connections: Connections) -> None:
        super().__init__(config, state, {"connection": self})  # requests receive it as their state
        self.logger = quiet
        self._all = connections
        self.opening: asyncio.Task[None] | None = None
        self.waits_since = self.loop.time()
        self.has_header = False

    def let_in(self) -> None:
        """Remove the time limit of the present request, because it has the token."""
        self._all.stop_timer(self)

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def handle_events(self) -> None:
        """Restart the timer when a header has arrived."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            self.has_header = True
            self._all.start_timer(self, ANSWER_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request, and close the connection."""
        try:
            super().send_400_response(msg)
        except LocalProtocolError:  # the request is a HEAD, whose answer has no body
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the header of the next request."""
        self.has_header = False
        self._all.start_timer(self, HEADER_SECONDS)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the closed connection."""
        super().connection_lost(exc)
        self._all.forget(self)


@define(eq=False)
class Connections:
    """Accepts connections, at most `CONNECTIONS_MAX`: a new one replaces the oldest that waits.

    Attributes:
        config: the config of the server.
        state: the state of the server.
    """

    config: uvicorn.Config
    state: ServerState
    _listener: socket.socket = field(init=False)
    _calm: asyncio.TimerHandle | None = field(default=None, init=False)
    _open: set[Connection] = field(factory=set, init=False)
    _waiting: dict[Connection, asyncio.TimerHandle] = field(factory=dict, init=False)  # the oldest first

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        self._listener = listener
        listener.setblocking(False)
        listener.listen(BACKLOG)
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # no descriptor is free, or the client is gone
                await self._make_room()
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            with suppress(OSError):  # the driver has just taken the last descriptor
                await self._admit(accepted)

    def close(self) -> None:
        """Close the connections with an incomplete TLS handshake; the server closes the others."""
        for each in [each for each in self._open if each.transport is None]:
            each.abort()

    def start_timer(self, connection: Connection, seconds: float) -> None:
        """Count ``connection`` as waiting from now on, and close it after these seconds."""
        self.stop_timer(connection)
        loop = asyncio.get_running_loop()
        connection.waits_since = loop.time()
        self._waiting[connection] = loop.call_later(seconds, connection.abort)

    def stop_timer(self, connection: Connection) -> None:
        """Stop counting ``connection`` as waiting."""
        if timer := self._waiting.pop(connection, None):
            timer.cancel()

    def forget(self, connection: Connection) -> None:
        """Record that ``connection`` is closed."""
        self.stop_timer(connection)
        self._open.discard(connection)

    async def _admit(self, accepted: socket.socket) -> None:
        while len(self._open) >= CONNECTIONS_MAX or leaves_too_few(accepted.fileno()):
            with accepted:
                if not await self._make_room():
                    return
                accepted = accepted.dup()  # the copy gets the descriptor that has just become free
        connection = Connection(self.config, self.state, self)
        self._open.add(connection)
        self.start_timer(connection, HEADER_SECONDS)
        connection.opening = asyncio.create_task(self._complete(connection, accepted))
        connection.opening.add_done_callback(partial(self._completed, connection, accepted))

    async def _complete(self, connection: Connection, accepted: socket.socket) -> None:
        """Pass ``accepted`` to the event loop, after the handshake if TLS is used."""
        tls: ssl.SSLContext | None = self.config.ssl
        limits: dict[str, Any] = {"ssl": tls, "ssl_handshake_timeout": HEADER_SECONDS} if tls else {}
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # of the handshake
            await loop.connect_accepted_socket(lambda: connection, accepted, **limits)

    def _completed(self, connection: Connection, accepted: socket.socket, _: object) -> None:
        """Close a socket that did not become a connection, even if its task was cancelled before it began."""
        if connection.transport is None:
            self.forget(connection)
            accepted.close()

    async def _make_room(self) -> bool:
        """Close the oldest connection that waits; return False if no connection waits."""
        while oldest := self._oldest():
            young_seconds = oldest.waits_since + AGE_SECONDS_MIN - asyncio.get_running_loop().time()
            if young_seconds <= 0:
                self.forget(oldest)
                oldest.abort()
                self._defer()
                await asyncio.sleep(0)  # its descriptor is closed in the next turn of the loop
                return True
            await asyncio.sleep(young_seconds)
        return False

    def _defer(self) -> None:
        """Leave silent connections to the kernel for a while, because replacing each takes time of the driver."""
        if self._calm is None:
            self._set_defer(DEFER_SECONDS)
        else:
            self._calm.cancel()
        self._calm = asyncio.get_running_loop().call_later(CALM_SECONDS, self._accept_all)

    def _accept_all(self) -> None:
        self._calm = None
        self._set_defer(0)

    def _set_defer(self, seconds: int) -> None:
        if hasattr(socket, "TCP_DEFER_ACCEPT"):  # of Linux
            with suppress(OSError):
                self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, seconds)

    def _oldest(self) -> Connection | None:
        """Return the connection that has waited longest for a header, or else for an answer."""
        return next((each for each in self._waiting if not each.has_header), next(iter(self._waiting), None))
