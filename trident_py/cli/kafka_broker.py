"""A local Kafka broker, for a demo or tests; the Ivy that PySpark ships fetches its jars, once for each user."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

import pyspark

from coordinators.backends.zookeeper import supervisor
from coordinators.backends.zookeeper.embedded import PORTS
from coordinators.backends.zookeeper.java import find_java
from trident_py.errors import ConfigError

VERSION = "4.4.0"
START_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.1
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_ALONE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}
"""Settings of a broker without other brokers."""


def kafka_jars() -> Path:
    """Return the directory of Kafka's jars; if it is missing, fetch them: 43 MB, a minute.

    Raises:
        ConfigError: they can't be fetched.
    """
    return jars_of("kafka_2.13", VERSION)


def jars_of(module: str, version: str) -> Path:
    """Return the directory of a Kafka module with all its dependencies; if it is missing, fetch them.

    Raises:
        ConfigError: it can't be fetched.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trident"
    there = home / f"{module.removesuffix('_2.13')}-{version}"
    if there.exists():
        return there
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-2.*.jar")
    fresh = home / f"fresh-{os.getpid()}"
    wanted = ["-dependency", "org.apache.kafka", module, version]
    into = ["-cache", str(home / "ivy"), "-retrieve", f"{fresh}/[artifact]-[revision](-[classifier]).[ext]"]
    command = [find_java(), "-jar", str(ivy), "-confs", "default", *wanted, *into]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - all of it is ours
    if done.returncode or not list(fresh.glob(f"{module}-*.jar")):
        raise ConfigError(
            f"Kafka's jars could not be fetched from Maven Central: {done.stdout[-500:]}{done.stderr[-500:]}"
        )
    try:
        fresh.rename(there)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
    return there


def kafka_command(*arguments: str) -> list[str]:
    """Return the command that runs a class of Kafka."""
    return [find_java(), "-Xmx512m", "-cp", f"{kafka_jars()}/*", *arguments]


def prepare_broker(directory: Path) -> int:
    """Prepare a broker, which controls itself, with its data in ``directory``; return the port it will have."""
    port, controller = _free_ports(2)
    lines = {
        **_ALONE,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(directory / "data"),
    }
    config = directory / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    _run(directory, kafka_command("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(config)))
    return port


def broker_command(directory: Path) -> list[str]:
    """Return the command that runs the broker of ``directory``."""
    return kafka_command("kafka.Kafka", str(directory / "server.properties"))


@contextmanager
def running_broker(directory: Path) -> Iterator[str]:
    """Run a broker in an empty directory, and yield its address; it ends with this process, even after SIGKILL.

    Raises:
        ConfigError: its jars can't be fetched, or it doesn't start.
    """
    port = prepare_broker(directory)
    with ExitStack() as held:
        users, data = (held.enter_context((directory / name).open("w")) for name in ("users", "lock"))
        fcntl.flock(users, fcntl.LOCK_SH)  # the supervisor stops the broker when no process holds this lock any more
        command = [sys.executable, "-I", "-S", supervisor.__file__, str(data.fileno()), str(directory)]
        log = held.enter_context((directory / "kafka.log").open("ab"))
        server = subprocess.Popen(  # noqa: S603 - all of it is ours
            [*command, *broker_command(directory)],
            stdout=log,
            stderr=log,
            pass_fds=[data.fileno()],
            cwd=directory,
            start_new_session=True,
        )
        _await(port, server, directory)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def _await(port: int, server: subprocess.Popen[bytes], directory: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(_POLL_SECONDS)
    raise ConfigError(f"the Kafka broker doesn't start: {_tail(directory / 'kafka.log')}")


def _run(directory: Path, command: Sequence[str]) -> None:
    with (directory / "kafka.log").open("ab") as log:
        done = subprocess.run(command, stdout=log, stderr=log, cwd=directory, check=False)  # noqa: S603 - all of it is ours
    if done.returncode:
        raise ConfigError(f"the Kafka broker can't be prepared: {_tail(directory / 'kafka.log')}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-500:]


def _free_ports(count: int) -> list[int]:
    """Return different free ports that the system gives to no client before the broker starts."""
    ports = secrets.SystemRandom().sample(PORTS, len(PORTS))
    return list(islice(filter(_is_free, ports), count))


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return True
    return False
