"""What all servers of tests have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Server(Protocol):
    """One that a test may need."""

    def start(self) -> None:
        """Have it run, and answer."""

    def close(self) -> None:
        """End it."""


@contextmanager
def started(server: Server) -> Iterator[None]:
    """Have a server run for a while."""
    try:
        server.start()
        yield
    finally:
        server.close()
