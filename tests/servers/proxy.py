"""A TCP proxy in front of PostgreSQL that does something to a COMMIT on its way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

OnCommit: TypeAlias = Callable[[socket.socket, socket.socket, bytes], None]
"""Takes the client's socket, the server's, and the bytes with the COMMIT; nothing else is done with them."""


class CommitProxy:
    """Passes everything on, until `on_commit` is set; that is called once, for the next COMMIT."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._server = address, port
        self._listening = socket.create_server((address, 0))
        self.port: int = self._listening.getsockname()[1]
        self.on_commit: OnCommit | None = None
        self._sockets: list[socket.socket] = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            hang_up(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_back, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if b"COMMIT\x00" in data and self.on_commit is not None:
                    action, self.on_commit = self.on_commit, None
                    action(client, server, data)
                    return
                server.sendall(data)
        hang_up(server)

    def _pass_back(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
        hang_up(client)


def hang_up(end: socket.socket) -> None:
    """Close it, also under a thread that reads from it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def commit_proxy(port: int, address: str = "127.0.0.1") -> Iterator[CommitProxy]:
    """A proxy to a server on this machine, at the same address."""
    proxy = CommitProxy(port, address)
    try:
        yield proxy
    finally:
        proxy.close()
