"""Ports for the servers of tests."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import suppress

from coordinators.backends.zookeeper.embedded import PORTS

_GIVEN: set[int] = set()


def free_port(*addresses: str) -> int:
    """Return a free port that the system gives to no client, and each port once: its server may start later.

    Args:
        addresses: where it is free; none: at the loopback interface.
    """
    while True:
        port = secrets.choice(PORTS)
        if port in _GIVEN:
            continue
        with suppress(OSError):
            for address in addresses or ("127.0.0.1",):
                with socket.socket() as probe:
                    probe.bind((address, port))
            _GIVEN.add(port)
            return port


def is_answering(address: str, port: int) -> bool:
    """Whether somebody listens there; waits a moment where nobody does."""
    with socket.socket() as probe:
        if probe.connect_ex((address, port)) == 0:
            return True
    time.sleep(0.05)
    return False
