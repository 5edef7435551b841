"""An ensemble of three real ZooKeeper servers, from PySpark's own jars, whose members can be killed and paused."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path
from time import monotonic

from attrs import define, field, frozen

from coordinators.backends.zookeeper.embedded import find_jars
from coordinators.backends.zookeeper.java import find_java
from tests.servers.ports import free_port

SIZE = 3
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 60.0

JVM_OPTIONS = (
    "-Xms16m",
    "-Xmx96m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dlog4j2.level=WARN",
    "-Dzookeeper.preAllocSize=4096",
)

CONFIG = """\
tickTime=500
initLimit=20
syncLimit=8
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
dataDir={directory}
clientPort={port}
clientPortAddress={address}
quorumListenOnAllIPs=false
admin.enableServer=false
4lw.commands.whitelist=*
"""

TLS_CONFIG = """\
secureClientPort={port}
secureClientPortAddress={address}
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={key_store}
ssl.keyStore.type=PEM
ssl.trustStore.location={trust_store}
ssl.trustStore.type=PEM
ssl.clientAuth={client_auth}
"""


@frozen(kw_only=True)
class ServerTLS:
    """What the servers need to be addressed by TLS as well, on ports of their own.

    Attributes:
        key_store: PEM, their certificate and its private key.
        trust_store: PEM, the authorities that vouch for clients.
        client_auth: ``none``, ``want`` or ``need`` a certificate of the client.
    """

    key_store: Path
    trust_store: Path
    client_auth: str = "none"


@frozen
class Member:
    """One server: where clients and the others find it, and where it keeps its data."""

    directory: Path
    address: str
    client_port: int
    secure_port: int
    quorum_port: int
    election_port: int


@define(eq=False)
class Ensemble:
    """Three servers that are one ZooKeeper; a member is addressed by its index, 0 to 2.

    Attributes:
        members: where they are.
        bind: the address at which they talk to each other.
        tls: what they need for TLS; None: there is none.
    """

    members: tuple[Member, ...]
    bind: str
    tls: ServerTLS | None = None
    _running: dict[int, subprocess.Popen[bytes]] = field(factory=dict, init=False)
    _paused: set[int] = field(factory=set, init=False)

    @classmethod
    def of(
        cls,
        directory: Path,
        *,
        bind: str = "127.0.0.1",
        client_addresses: tuple[str, ...] | None = None,
        tls: ServerTLS | None = None,
    ) -> Ensemble:
        """An ensemble that keeps its data below ``directory``, on free ports; not started.

        Args:
            directory: of the data and the logs; those of an earlier ensemble are gone on with, on other ports.
            bind: the address at which the servers talk to each other.
            client_addresses: where each of them listens to clients; None: all at ``bind``.
            tls: what they need to be addressed by TLS as well.
        """
        addresses = client_addresses or (bind,) * SIZE
        return cls(
            tuple(
                Member(directory / str(index), address, *(free_port(bind, *addresses) for _ in range(4)))
                for index, address in enumerate(addresses)
            ),
            bind,
            tls,
        )

    @property
    def hosts(self) -> str:
        """The connection string of all of them, without TLS."""
        return ",".join(self.host(index) for index in range(SIZE))

    @property
    def secure_hosts(self) -> str:
        """The connection string of all of them, with TLS."""
        return ",".join(f"{member.address}:{member.secure_port}" for member in self.members)

    def host(self, index: int) -> str:
        """The connection string of one of them, without TLS."""
        return f"{self.members[index].address}:{self.members[index].client_port}"

    def start(self) -> None:
        """Start those that don't run, and have those that are paused go on; returns at once."""
        for index in range(SIZE):
            self.start_one(index)
            self.resume(index)

    def start_one(self, index: int) -> None:
        """Start this one, on the data that it has; nothing if it runs."""
        if index in self._running:
            return
        member = self.members[index]
        member.directory.mkdir(parents=True, exist_ok=True)
        (member.directory / "myid").write_text(str(index + 1))
        config = member.directory / "zoo.cfg"
        config.write_text(self._config(member))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with (member.directory / "server.log").open("ab") as log:
            self._running[index] = subprocess.Popen(
                [find_java(), *JVM_OPTIONS, "-cp", self._class_path(), main, str(config)],
                cwd=member.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Kill all of them; what they have acknowledged is on disk."""
        for index in range(SIZE):
            self.kill(index)

    def kill(self, index: int) -> None:
        """End this one with SIGKILL; nothing if it doesn't run."""
        server = self._running.pop(index, None)
        self._paused.discard(index)
        if server is not None:
            server.kill()
            server.wait(PATIENCE_SECONDS)

    def pause(self, index: int) -> None:
        """Have this one stand still (SIGSTOP), its connections open; the others drop it after 4 s."""
        os.kill(self._running[index].pid, signal.SIGSTOP)
        self._paused.add(index)

    def resume(self, index: int) -> None:
        """Have this one go on after a pause; nothing if it is not paused."""
        if index in self._paused:
            self._paused.discard(index)
            os.kill(self._running[index].pid, signal.SIGCONT)

    def await_quorum(self) -> None:
        """Return when every server that runs and is not paused serves, one of them as the leader.

        Raises:
            TimeoutError: they don't; shows what they say, and the end of their logs.
        """
        until = monotonic() + PATIENCE_SECONDS
        never = threading.Event()
        while monotonic() < until:
            modes = [self._mode(index) for index in self._awake()]
            if None not in modes and modes.count("leader") == 1:
                return
            never.wait(POLL_SECONDS)
        logs = "\n".join((member.directory / "server.log").read_text()[-2_000:] for member in self.members)
        raise TimeoutError(f"no quorum within {PATIENCE_SECONDS:g} s, servers {self._awake()} are {modes}\n{logs}")

    def leader(self) -> int:
        """The index of the server that leads the others.

        Raises:
            LookupError: none does at this moment.
        """
        for index in self._awake():
            if self._mode(index) == "leader":
                return index
        raise LookupError("no server says that it is the leader")

    def followers(self) -> list[int]:
        """The indexes of those that run and follow."""
        return [index for index in self._awake() if self._mode(index) == "follower"]

    @property
    def running(self) -> list[int]:
        """The indexes of those whose process was started and not stopped."""
        return sorted(self._running)

    def _awake(self) -> list[int]:
        return sorted(self._running.keys() - self._paused)

    def _mode(self, index: int) -> str | None:
        """``leader`` or ``follower``, as the server itself says; None if it doesn't serve."""
        member = self.members[index]
        reply = b""
        try:
            with socket.create_connection((member.address, member.client_port), timeout=1.0) as connection:
                connection.sendall(b"srvr")
                while received := connection.recv(4096):
                    reply += received
        except OSError:
            return None
        found = re.search(rb"Mode: (leader|follower)", reply)
        return found[1].decode() if found else None

    def _config(self, member: Member) -> str:
        text = CONFIG.format(directory=member.directory, port=member.client_port, address=member.address)
        for number, other in enumerate(self.members, start=1):
            text += f"server.{number}={self.bind}:{other.quorum_port}:{other.election_port}\n"
        if self.tls is not None:
            text += TLS_CONFIG.format(
                port=member.secure_port,
                address=member.address,
                key_store=self.tls.key_store,
                trust_store=self.tls.trust_store,
                client_auth=self.tls.client_auth,
            )
        return text

    def _class_path(self) -> str:
        jars = find_jars()
        if self.tls is not None:  # the embedded server does without what takes TLS
            jars += map(str, Path(jars[0]).parent.glob("netty-*[0-9].Final.jar"))
        return ":".join(jars)
