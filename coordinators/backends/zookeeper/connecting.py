"""What happens before there is a session: which servers are tried, what came of it, and what is kept out of logs.

kazoo tells nobody which timeout a server granted, nor why there is no connection, so its ``_connect`` is listened to.
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
    """What becomes of each try of a client to connect."""

    _servers: frozenset[tuple[str, int]]
    _outcomes: queue.SimpleQueue[tuple[tuple[str, int], float | Exception]] = field(factory=queue.SimpleQueue)

    @classmethod
    def of(cls, client: Any) -> Tries:
        """Listen to this kazoo client, which has not been started yet."""
        tries = cls(frozenset(client.hosts))
        connection = client._connection  # noqa: SLF001
        connect = connection._connect  # noqa: SLF001

        def connect_and_tell(host: str, ip: str, port: int) -> Any:
            try:
                read_milliseconds, connect_milliseconds = connect(host, ip, port)
            except Exception as error:
                cause = error.__context__  # kazoo's own says next to nothing
                tries._outcomes.put(((host, port), cause if isinstance(cause, Exception) else error))
                raise
            # kazoo has divided what was granted by the number of servers
            tries._outcomes.put(((host, port), connect_milliseconds * len(client.hosts) / 1000))
            return read_milliseconds, connect_milliseconds

        connection._connect = connect_and_tell  # noqa: SLF001
        return tries

    def granted(self, who: str, hosts: str, patience: float) -> float:
        """Return the session timeout, in seconds, that the first server to answer grants.

        Raises:
            ConfigError: none can be reached, and with at least one it is for its certificate or ours.
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
        f"{who}: no TLS with ZooKeeper at {hosts} ({_causes(failed)}); check that this is the servers' TLS port, that "
        f"the authorities given vouch for their certificates, that these carry the names by which we address them, "
        f"and that they take our certificate or ask for none"
    )


def _silence(who: str, hosts: str, patience: float, failed: dict[tuple[str, int], Exception]) -> CoordinationLost:
    return CoordinationLost(
        f"{who}: no ZooKeeper answered at {hosts} within {patience:g} s ({_causes(failed) or 'no answer'}); check "
        f"that it runs, that the address is right and whether the port wants TLS, or leave `zookeeper` out of the "
        f"configuration to use the embedded one"
    )


def _causes(failed: dict[tuple[str, int], Exception]) -> str:
    return "; ".join(f"{host}:{port}: {error or type(error).__name__}" for (host, port), error in failed.items())


def ensure_resolvable(client: Any, who: str, hosts: str) -> None:
    """Return if at least one host of a kazoo client has an address: of those that have none kazoo tells nobody.

    Raises:
        CoordinationLost: none has; says of each why.
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
        f"{who}: ZooKeeper at {hosts}: no such host ({causes}); correct the name, see to the name service, or leave "
        f"`zookeeper` out of the configuration to use the embedded one"
    )


def servers_of(hosts: str, session_timeout: float) -> str:
    """Return the servers of ``hosts``, as often as it takes to try each for a second or a sixth of the session at most.

    kazoo divides the session by the number of servers to know how long each may take to answer. One that is just
    starting may take a connection and never answer it (seen with 3.9.5); it would cost a leader its whole session.
    """
    servers = hosts.partition("/")[0]
    times = min(ROUNDS_PER_SESSION, int(session_timeout)) // len(servers.split(","))
    return ",".join([servers] * max(1, times))


def quiet_kazoo() -> None:
    """Keep out of logs what kazoo tells at DEBUG: every znode's content, and credentials.

    The level keeps it from making them at all; the filter holds where somebody sets another level afterwards.
    """
    kazoo_log = logging.getLogger("kazoo")
    kazoo_log.setLevel(max(logging.INFO, kazoo_log.getEffectiveLevel()))
    logging.getLogger("kazoo.client").addFilter(_is_no_detail)


def _is_no_detail(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.INFO
