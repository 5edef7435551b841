"""The embedded ZooKeeper, for users without one: a server process, started from the jars that PySpark contains.

Several processes may use one data directory at once. They coordinate by locks of the kernel (``flock``). The kernel
releases the locks of a process however it ends, so nothing has to be cleaned up after a SIGKILL. Every process that can
read these files can lock them, so the directory is closed to other users:

- ``users``: each user holds a shared lock. If it is locked exclusively, the last user is gone and the server is being
  stopped.
- ``starting``: held by a user that looks for the server. One at a time may find or start one.
- ``data``: held by the server, which inherits it. No second server can start on these data: the two would diverge.
- ``supervisor``: held by the server's supervisor. It guarantees that the server is stopped after its last user.

Every process on the machine can connect to the server; the secret in ``login`` decides which ones may change data.

If the supervisor was killed, the next new user stops the server and starts another on the same port. So the sessions of
its current users continue.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from coordinators.backends.zookeeper import supervisor
from coordinators.backends.zookeeper.access import ZooKeeperAccess
from coordinators.backends.zookeeper.java import find_java
from coordinators.values.errors import ConfigError, CoordinationLost

START_SECONDS_MAX = 30.0
LOCK_SECONDS_MAX = 45.0
"""Longer than another user may take to start the server, or its supervisor to stop it."""

POLL_SECONDS = 0.05
PORT_TRIES = 5
PORTS = range(20_000, 32_000)
"""Below the ports that the kernel assigns to outgoing connections.

Such a connection could take the port of a restarting server. A client that looks for the server could even connect to
itself.
"""

SHOWN_LOG_LINES_MAX = 15
LOGIN_BYTES = 32

JARS = re.compile(
    r"(zookeeper(-jute)?-3|slf4j-api|log4j-(slf4j2-impl|api|core)-2|metrics-core|snappy-java|commons-io|"
    r"audience-annotations|netty-(handler|common|buffer|transport|transport-native-unix-common|transport-classes-epoll)-4)"
    r".*\.jar"
)
"""The jars that the server loads. They are fewer than all 280, so it starts faster and takes less memory."""

JVM_OPTIONS = (
    "-Xms16m",
    "-Xmx2g",  # it keeps the last 500 requests in memory, up to 1 MiB three times over, and those it finds in its log
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dlog4j2.level=WARN",
    "-Dzookeeper.preAllocSize=4096",  # KiB by which the log grows; the default of 64 MiB is more than most topologies
    "-Dzookeeper.snapCount=20000",
    "-Dzookeeper.snapSizeLimitInKb=65536",  # of the log that a start reads again
)

CONFIG = """\
# written by trident_py at every start
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=300000
maxClientCnxns=0
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=conf
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""


@frozen
class EmbeddedZooKeeper:
    """A running server on this machine, reachable from this machine only.

    Attributes:
        directory: contains its data, its log and its locks.
        port: on which it listens, at 127.0.0.1.
        pid: of the server itself.
    """

    directory: Path
    port: int
    pid: int

    @property
    def hosts(self) -> str:
        """The connection string."""
        return f"127.0.0.1:{self.port}"

    @property
    def access(self) -> ZooKeeperAccess:
        """The login, which every process that may read ``directory`` shares."""
        return ZooKeeperAccess(login=(self.directory / "login").read_text(), is_own_server=True)

    @classmethod
    @contextmanager
    def running(cls, directory: Path, *, stay: bool = False) -> Iterator[EmbeddedZooKeeper]:
        """Yield a server on the data in ``directory``: the one that runs there, or a new one.

        It runs as long as any process is inside such a context, however those processes end.

        Args:
            directory: created if it does not exist, and closed to other users.
            stay: let the server run afterwards, until the file ``stay`` in ``directory`` is removed.

        Raises:
            ConfigError: no Java, no PySpark with the server's jars, or ``directory`` can't be written.
            CoordinationLost: the server did not start, or did not answer; quotes the end of its log.
        """
        directory = _made(directory)
        with _opened(directory / "users") as users:
            _await_lock(users, fcntl.LOCK_SH, directory / "users")
            with _opened(directory / "starting") as starting:
                _await_lock(starting, fcntl.LOCK_EX, directory / "starting")
                if stay:
                    (directory / "stay").touch()
                _ensure_login(directory)
                server = _find(directory) or _start(directory)
            yield server


def _find(directory: Path) -> EmbeddedZooKeeper | None:
    """Return the server that holds the data, once it answers; None if no server does, or it had to be stopped."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        with _opened(directory / "data") as data, _opened(directory / "supervisor") as alive:
            if _try_lock(data, fcntl.LOCK_EX):
                return None
            pid = _number_in(directory / "server.pid")
            if pid is not None and _try_lock(alive, fcntl.LOCK_EX):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # it has the lock, so the pid is its own; its data survive this
        port = _number_in(directory / "port")
        if pid is not None and port is not None and _answers(directory, port):
            return EmbeddedZooKeeper(directory, port, pid)
        time.sleep(POLL_SECONDS)
    raise _failure(
        directory,
        f"has its data locked but doesn't answer within {START_SECONDS_MAX:g} s; `fuser -v {directory / 'data'}` shows "
        "its pid",
    )


def _start(directory: Path) -> EmbeddedZooKeeper:
    java, jars = find_java(), find_jars()
    port = _number_in(directory / "port")  # users with open sessions look for the server at this port
    for _ in range(PORT_TRIES):
        port = port or secrets.choice(PORTS)
        _launch(directory, port, java, jars)
        server = _find(directory)
        if server is not None:
            return server
        if "BindException" not in _log_end(directory):
            raise _failure(directory, "ended while it started")
        port = None
    raise _failure(directory, f"found every one of {PORT_TRIES} ports taken")


def _launch(directory: Path, port: int, java: str, jars: list[str]) -> None:
    """Start a supervisor and its server in a new session, neither of them a child of this process."""
    config = directory / "zoo.cfg"
    config.write_text(CONFIG.format(data=_java_escaped(directory / "server"), port=port), encoding="ascii")
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"  # the standalone main never purges old logs
    server = [java, *JVM_OPTIONS, "-cp", ":".join(jars), main, str(config)]
    with _opened(directory / "data") as data, (directory / "server.log").open("wb") as log:
        _await_lock(data, fcntl.LOCK_EX, directory / "data")
        (directory / "server.pid").unlink(missing_ok=True)
        (directory / "port").write_text(str(port))
        watched = [sys.executable, "-I", "-S", supervisor.__file__, str(data), str(directory), *server]
        # the shell puts it into the background, where it ignores SIGINT and init is its parent
        subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", '"$@" &', "sh", *watched],
            check=True,
            cwd=directory,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            pass_fds=[data],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _answers(directory: Path, port: int) -> bool:
    """Return true if the server at ``port`` serves the data in ``directory``: it might be another server."""
    reply = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(b"conf")
            while received := connection.recv(4096):
                reply += received
    except OSError:
        return False
    return f"dataDir={directory / 'server'}{os.sep}" in reply.decode(errors="replace")


def find_jars() -> list[str]:
    """Return the jars that the server needs, from PySpark or SPARK_HOME.

    PySpark itself is not imported. Under ``spark-submit``, PySpark is in a zip, which contains no jars.

    Raises:
        ConfigError: they are not there.
    """
    spec = find_spec("pyspark")
    homes = [
        *((spec.submodule_search_locations if spec else None) or ()),
        *filter(None, [os.environ.get("SPARK_HOME")]),
    ]
    folders = [Path(home) / "jars" for home in homes]
    folders = [folder for folder in folders if folder.is_dir()][:1] or folders  # never jars of two versions
    jars = sorted(str(jar) for folder in folders for jar in folder.glob("*.jar") if JARS.fullmatch(jar.name))
    if not any("zookeeper-3" in jar for jar in jars):
        raise ConfigError(
            f"there is no ZooKeeper among the jars of PySpark ({', '.join(map(str, folders)) or 'not installed'}); "
            "install the package pyspark (not pyspark-client) or name a ZooKeeper in the configuration (`zookeeper=`); "
            "`trident doctor` checks everything that is needed"
        )
    return jars


def _made(directory: Path) -> Path:
    directory = directory.absolute()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)  # earlier releases made it with the rights of the umask
        (directory / "server").mkdir(exist_ok=True)
        (directory / "users").touch()
    except OSError as error:
        raise ConfigError(
            f"the embedded ZooKeeper can't keep its data in {directory} ({error.strerror}: {error.filename}). To "
            f"fix this: make it writable for this user, or choose another directory (`state_dir=`)"
        ) from error
    return directory.resolve()


def _ensure_login(directory: Path) -> None:
    """Create the secret, once; called by one process at a time."""
    if (directory / "login").exists():
        return
    temporary = directory / "login.new"
    with _opened(temporary) as login:
        os.truncate(login, 0)
        os.write(login, f"trident:{secrets.token_hex(LOGIN_BYTES)}".encode())
        os.fsync(login)  # if the login were lost, nodes that were created under it couldn't be changed any more
    temporary.replace(directory / "login")


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _await_lock(descriptor: int, kind: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while not _try_lock(descriptor, kind):
        if time.monotonic() >= deadline:
            raise CoordinationLost(
                f"waited {LOCK_SECONDS_MAX:g} s in vain for a lock on {path}, which coordinates the processes that use "
                f"one embedded ZooKeeper; `fuser -v {path}` shows the process that holds it"
            )
        time.sleep(POLL_SECONDS)


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _java_escaped(path: Path) -> str:
    """Return ``path`` as the value of a Java properties file, which is read as Latin-1."""
    units = str(path).encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if 32 <= code < 127 and code != ord("\\") else f"\\u{code:04x}" for code in codes)


def _log_end(directory: Path) -> str:
    lines = (directory / "server.log").read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if not line.startswith("\tat ")][-SHOWN_LOG_LINES_MAX:])


def _failure(directory: Path, what: str) -> CoordinationLost:
    return CoordinationLost(
        f"the embedded ZooKeeper in {directory} {what}; the end of {directory / 'server.log'} is\n{_log_end(directory)}"
    )
