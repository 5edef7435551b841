"""Connecting to ZooKeeper: which servers are tried, with which outcome, and which of kazoo's log lines are suppressed.

kazoo reports neither the session timeout that a server has granted, nor why there is no connection. So this module
wraps kazoo's ``_connect``.
"""

from __future__ import annotations

import logging
import queue
import socket
import ssl
from time import monotonic
from typing import Any

from attrs import field, frozen

from coordinators.values.errors import ConfigError, CoordinationLost

ROUNDS_PER_SESSION = 6


@frozen
class Tries:
    """The outcomes of a client's tries to connect."""

    _servers: frozenset[tuple[str, int]]
    _outcomes: queue.SimpleQueue[tuple[tuple[str, int], float | Exception]] = field(factory=queue.SimpleQueue)

    @classmethod
    def of(cls, client: Any) -> Tries:
        """Observe this kazoo client, which has not been started yet."""
        tries = cls(frozenset(client.hosts))
        connection = client._connection  # noqa: SLF001
        connect = connection._connect  # noqa: SLF001

        def connect_and_tell(host: str, ip: str, port: int) -> Any:
            try:
                read_milliseconds, connect_milliseconds = connect(host, ip, port)
            except Exception as error:
                cause = error.__context__  # kazoo's own error says next to nothing
                tries._outcomes.put(((host, port), cause if isinstance(cause, Exception) else error))
                raise
            # kazoo has divided the granted timeout by the number of servers
            tries._outcomes.put(((host, port), connect_milliseconds * len(client.hosts) / 1000))
            return read_milliseconds, connect_milliseconds

        connection._connect = connect_and_tell  # noqa: SLF001
        return tries

    def granted(self, who: str, hosts: str, patience: float) -> float:
        """Return the session timeout, in seconds, that the first server to answer grants.

        Raises:
            ConfigError: no server can be reached, and for at least one of them a certificate is the cause.
            CoordinationLost: none has answered after ``patience`` seconds.
        """
        until = monotonic() + patience
        failed: dict[tuple[str, int], Exception] = {}
        while True:
            try:
                server, outcome = self._outcomes.get(timeout=max(0.0, until - monotonic()))
            except queue.Empty:
                raise _silence(who, hosts, patience, failed) from None
            if isinstance(outcome, float):
                return outcome
            failed[server] = outcome
            if failed.keys() == self._servers and any(isinstance(error, ssl.SSLError) for error in failed.values()):
                raise _distrust(who, hosts, failed) from outcome


def _distrust(who: str, hosts: str, failed: dict[tuple[str, int], Exception]) -> ConfigError:
    return ConfigError(
        f"{who}: no TLS with ZooKeeper at {hosts} ({_causes(failed)}). To fix this: check that this is the servers' "
        f"TLS port, that the given authorities vouch for their certificates, that these contain the configured host "
        f"names, and that the servers accept this process's certificate or require none"
    )


def _silence(who: str, hosts: str, patience: float, failed: dict[tuple[str, int], Exception]) -> CoordinationLost:
    return CoordinationLost(
        f"{who}: no ZooKeeper answered at {hosts} within {patience:g} s ({_causes(failed) or 'no answer'}). To fix "
        f"this: check that it runs, that the address is right and whether the port requires TLS, or leave `zookeeper` "
        f"out of the configuration to use the embedded one"
    )


def _causes(failed: dict[tuple[str, int], Exception]) -> str:
    return "; ".join(f"{host}:{port}: {error or type(error).__name__}" for (host, port), error in failed.items())


def ensure_resolvable(client: Any, who: str, hosts: str) -> None:
    """Return if at least one host of a kazoo client has an address: kazoo doesn't report hosts without one.

    Raises:
        CoordinationLost: none has; gives the reason for each.
    """
    failed: dict[str, OSError] = {}
    for host, port in client.hosts:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            failed[host] = error
        else:
            return
    causes = "; ".join(f"{host}: {error.strerror}" for host, error in failed.items())
    raise CoordinationLost(
        f"{who}: ZooKeeper at {hosts}: no such host ({causes}). To fix this: correct the name or the name service, or "
        f"leave `zookeeper` out of the configuration to use the embedded one"
    )


def servers_of(hosts: str, session_timeout: float) -> str:
    """Return the servers of ``hosts``, repeated so that each try takes at most a second or a sixth of the session.

    kazoo divides the session timeout by the number of servers to limit the time for each. A server that is just
    starting may accept a connection and never answer (seen with 3.9.5). It would cost a leader its whole session.
    """
    servers = hosts.partition("/")[0]
    times = min(ROUNDS_PER_SESSION, int(session_timeout)) // len(servers.split(","))
    return ",".join([servers] * max(1, times))


def quiet_kazoo() -> None:
    """Suppress kazoo's DEBUG lines, which contain every znode's content, and credentials.

    The level prevents their creation; the filter still works if the user sets another level afterwards.
    """
    kazoo_log = logging.getLogger("kazoo")
    kazoo_log.setLevel(max(logging.INFO, kazoo_log.getEffectiveLevel()))
    logging.getLogger("kazoo.client").addFilter(_is_no_detail)


def _is_no_detail(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.INFO
