"""A TCP proxy in front of ZooKeeper that understands its frames, and loses some of them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

from attrs import Factory, define, field

MULTI = 14
"""The type of an atomic write in ZooKeeper's protocol."""


@define(eq=False)
class CuttingProxy:
    """Stands between clients and a server, and can lose requests, lose replies, or swallow everything.

    Attributes:
        upstream: the server's port.
        address: where the server is, and where this listens.
        lose_request: the next atomic write is not forwarded; its connection is cut.
        lose_reply: so many replies pass; the next is not forwarded although its request was carried out, and its
            connection is cut. None: all pass.
        swallow_connections: so many of the next connections are taken, and nothing on them is ever answered.
        muted: nothing passes in either direction, and connections stay open.
        on_lost: called when one is lost, before its client can notice.
        lost: how many requests and replies were lost.
        replies: how many replies passed.
    """

    upstream: int
    address: str = "127.0.0.1"
    lose_request: bool = False
    lose_reply: int | None = None
    swallow_connections: int = 0
    muted: threading.Event = field(factory=threading.Event)
    on_lost: Callable[[], None] = lambda: None
    lost: int = 0
    replies: int = 0
    _listener: socket.socket = field(
        default=Factory(lambda self: socket.create_server((self.address, 0)), takes_self=True)
    )
    _connections: list[socket.socket] = field(factory=list)

    @property
    def port(self) -> int:
        """Where to connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Take connections until it is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((self.address, self.upstream))
            except OSError:  # closed at the end of the test
                return
            self._connections += [client, server]
            if self.swallow_connections:
                self.swallow_connections -= 1
                continue
            for source, target, is_request in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._forward, args=(source, target, is_request), daemon=True).start()

    def cut(self) -> None:
        """Drop every connection; new ones are taken."""
        for connection in self._connections:
            _shut(connection)

    def close(self) -> None:
        """Drop every connection, and take no more."""
        _shut(self._listener)
        self._listener.close()
        self.cut()
        for connection in self._connections:
            connection.close()

    def _forward(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with source, target:
            while frame := _frame(source):
                if self.muted.is_set():
                    continue
                if self._is_lost_request(frame) if is_request else self._is_lost_reply(frame):
                    self.on_lost()
                    self.lost += 1
                    break
                try:
                    target.sendall(frame)
                except OSError:
                    break
            _shut(source)
            _shut(target)

    def _is_lost_request(self, frame: bytes) -> bool:
        is_lost = self.lose_request and _number(frame, at=8) == MULTI
        self.lose_request = self.lose_request and not is_lost
        return is_lost

    def _is_lost_reply(self, frame: bytes) -> bool:
        if _number(frame, at=4) <= 0:  # the connection's own, a watch or a ping
            return False
        if self.lose_reply == 0:
            self.lose_reply = None
            return True
        self.replies += 1
        self.lose_reply = None if self.lose_reply is None else self.lose_reply - 1
        return False


def _frame(source: socket.socket) -> bytes:
    """One message with its length; nothing at the end, and nothing of a message that is cut short."""
    try:
        head = source.recv(4, socket.MSG_WAITALL)
        length = struct.unpack(">i", head)[0] if len(head) == 4 else 0
        body = source.recv(length, socket.MSG_WAITALL) if length else b""
    except OSError:
        return b""
    return head + body if body and len(body) == length else b""


def _number(frame: bytes, *, at: int) -> int:
    number: int = struct.unpack_from(">i", frame, at)[0]
    return number


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        connection.close()
