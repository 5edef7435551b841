"""A real Kafka broker for tests: its jars come by the Ivy that PySpark ships, once a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pyspark
from attrs import define
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.servers.postgresql import NoServerError, free_port
from tests.servers.process import ServerProcess

VERSION = "4.4.0"
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_PATIENCE_SECONDS = 120


def jars() -> Path:
    """The directory of Kafka's jars, fetched where it is not there yet.

    Raises:
        NoServerError: it can't be fetched.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trident-tests"
    there = home / f"kafka-{VERSION}"
    if not there.exists():
        (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-2.*.jar")
        fresh = home / f"fresh-{os.getpid()}"
        done = subprocess.run(
            [
                "java",
                "-jar",
                str(ivy),
                "-cache",
                str(home / "ivy"),
                "-confs",
                "default",
                "-dependency",
                "org.apache.kafka",
                "kafka_2.13",
                VERSION,
                "-retrieve",
                f"{fresh}/[artifact]-[revision](-[classifier]).[ext]",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not list(fresh.glob("kafka_*.jar")):
            raise NoServerError(f"Kafka's jars could not be fetched: {done.stdout[-500:]}{done.stderr[-500:]}")
        try:
            fresh.rename(there)
        except OSError:  # another run was first
            shutil.rmtree(fresh)
    return there


@define
class KafkaBroker(ServerProcess):
    """One broker and controller on ports of its own; its data survive `kill`."""

    directory: Path
    port: int = 0
    _admin: AdminClient | None = None

    @property
    def servers(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def admin(self) -> AdminClient:
        """A client, the same one each time: what it answers later would be lost with it."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return self._admin

    def start(self) -> None:
        """Start it; it answers when this returns."""
        lib = jars()
        config = self.directory / "server.properties"
        if not config.exists():
            self.port = free_port()
            config.write_text(self._properties(free_port()))
            self._java(lib, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(config)).wait(
                _PATIENCE_SECONDS
            )
        self.process = self._java(lib, "kafka.Kafka", str(config))
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self.admin.list_topics(timeout=5)
                return
            except KafkaException:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise

    def _java(self, lib: Path, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["java", "-Xmx512m", "-cp", f"{lib}/*", *arguments]
        with (self.directory / "kafka.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)

    def _properties(self, controller: int) -> str:
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())
