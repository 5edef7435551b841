"""The TCP connections of a page: how many are open, and how long each may take until its request has the token."""

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
"""For a TLS handshake and a request's header to arrive, from the start of the connection or the last answer."""

ANSWER_SECONDS = 15.0
"""For a request without the token to be answered, from the end of its header."""

CONNECTIONS_MAX = 256
DRIVER_FILES = 64
"""So many descriptors are left to the rest of the process."""

AGE_SECONDS_MIN = 0.3
"""A connection is not closed for a newer one before this age, so that a client has time to send a header."""

ACCEPT_AGAIN_SECONDS = 0.1
BACKLOG = 4096
"""Connections that wait in the kernel until they are accepted; Linux drops further ones, which clients repeat."""

DEFER_SECONDS = 5
"""While connections are replaced, Linux hands over a new one once its client has sent something, or after so long."""

CALM_SECONDS = 10.0
"""Without a replaced connection, until all are accepted at once again."""

quiet = logging.getLogger(f"{__name__}.requests")
quiet.setLevel(logging.ERROR)  # anyone may send requests that are malformed, and each would be a warning


def files_max() -> float:
    """Return how many descriptors this process may have open now (`ulimit -n`)."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if soft == resource.RLIM_INFINITY else soft


def leaves_too_few(descriptor: int) -> bool:
    """Tell whether fewer descriptors are free than the driver needs; ``descriptor`` was the lowest that was free."""
    return descriptor >= files_max() - DRIVER_FILES


class Connection(H11Protocol):
    """One connection. It counts as waiting, except while a request that has the token is answered.

    Attributes:
        opening: the task that accepts it, the TLS handshake included.
        waits_since: when it began to wait, on the loop's clock.
        has_header: whether the header of a request has arrived that is not answered yet.
    """

    def __init__(self, config: uvicorn.Config, state: ServerState, connections: Connections) -> None:
        super().__init__(config, state, {"connection": self})  # which requests have as their state
        self.logger = quiet
        self._all = connections
        self.opening: asyncio.Task[None] | None = None
        self.waits_since = self.loop.time()
        self.has_header = False

    def let_in(self) -> None:
        """Give the request that has arrived all the time that it takes: it has the token."""
        self._all.stop_timer(self)

    def abort(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def handle_events(self) -> None:
        """Start the timer anew when a header has arrived."""
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
        """Forget it."""
        super().connection_lost(exc)
        self._all.forget(self)


@define(eq=False)
class Connections:
    """Accepts connections, at most `CONNECTIONS_MAX`: a new one takes the place of the oldest that waits.

    Attributes:
        config: of the server.
        state: of the server.
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
        """Close those whose TLS handshake is not complete; the server closes the others."""
        for each in [each for each in self._open if each.transport is None]:
            each.abort()

    def start_timer(self, connection: Connection, seconds: float) -> None:
        """Count ``connection`` as waiting from now on, and close it after so many seconds."""
        self.stop_timer(connection)
        loop = asyncio.get_running_loop()
        connection.waits_since = loop.time()
        self._waiting[connection] = loop.call_later(seconds, connection.abort)

    def stop_timer(self, connection: Connection) -> None:
        """Count ``connection`` as waiting no longer."""
        if timer := self._waiting.pop(connection, None):
            timer.cancel()

    def forget(self, connection: Connection) -> None:
        """Note that ``connection`` is closed."""
        self.stop_timer(connection)
        self._open.discard(connection)

    async def _admit(self, accepted: socket.socket) -> None:
        while len(self._open) >= CONNECTIONS_MAX or leaves_too_few(accepted.fileno()):
            with accepted:
                if not await self._make_room():
                    return
                accepted = accepted.dup()  # which has the descriptor that has just become free
        connection = Connection(self.config, self.state, self)
        self._open.add(connection)
        self.start_timer(connection, HEADER_SECONDS)
        connection.opening = asyncio.create_task(self._complete(connection, accepted))
        connection.opening.add_done_callback(partial(self._completed, connection, accepted))

    async def _complete(self, connection: Connection, accepted: socket.socket) -> None:
        """Hand ``accepted`` to the event loop, and with TLS make the handshake."""
        tls: ssl.SSLContext | None = self.config.ssl
        limits: dict[str, Any] = {"ssl": tls, "ssl_handshake_timeout": HEADER_SECONDS} if tls else {}
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # of the handshake
            await loop.connect_accepted_socket(lambda: connection, accepted, **limits)

    def _completed(self, connection: Connection, accepted: socket.socket, _: object) -> None:
        """Close what did not become a connection, also where it was cancelled before it began."""
        if connection.transport is None:
            self.forget(connection)
            accepted.close()

    async def _make_room(self) -> bool:
        """Close the oldest connection that waits; return False if there is none."""
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
        """Leave silent connections to the kernel for a while: to accept and replace each takes time of the driver."""
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
        """Return the one that waits longest for a header, or else for an answer."""
        return next((each for each in self._waiting if not each.has_header), next(iter(self._waiting), None))
