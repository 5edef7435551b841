"""A real Spark cluster: a master, and workers each of which counts as a host, on addresses of the loopback network."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
import pytest
from attrs import define, field

from tests.servers.class_archive import quick
from tests.servers.ports import free_port, is_answering
from tests.servers.process import ServerProcess

_HOME = Path(pyspark.__file__).parent
_PATIENCE_SECONDS = 30
QUICK = quick()

NEEDS_REPORTS = pytest.mark.master("over Connect, PySpark drops what tasks report while their rows are kept")
"""Marks tests of what docs/how-to/clusters.md says that only a master can do."""


@define
class SparkCluster:
    """A master and as many workers as there are hosts, with ``cores`` each.

    Spark runs a task a second time, beside the first, on another host only: a ``local-cluster`` has just one.

    Attributes:
        recovers: whether a master that is started again knows its applications.
    """

    directory: Path
    hosts: int = 2
    cores: int = 1
    recovers: bool = False
    port: int = field(factory=free_port, init=False)
    _processes: dict[str, subprocess.Popen[bytes]] = field(factory=dict, init=False)

    @property
    def url(self) -> str:
        """What a session takes as its master."""
        return f"spark://127.0.0.1:{self.port}"

    @property
    def executors(self) -> list[psutil.Process]:
        """What runs tasks; workers have started them."""
        workers = [psutil.Process(self._processes[_worker(number)].pid) for number in range(self.hosts)]
        return [each for worker in workers for each in worker.children()]

    def start(self) -> None:
        """Start them; the master answers when this returns, and a session waits for the workers."""
        self.directory.mkdir()
        self.start_master()
        for number in range(self.hosts):
            self.start_worker(number)

    def start_master(self) -> None:
        """Start the master; it answers when this returns."""
        master = self._run("master", "master.Master", "--host", "127.0.0.1", "--port", str(self.port))
        while not is_answering("127.0.0.1", self.port):
            assert master.poll() is None, (self.directory / "cluster.log").read_text()

    def start_worker(self, number: int) -> None:
        """Start one of the workers."""
        place = ("--host", f"127.0.0.{number + 1}", "--work-dir", str(self.directory))
        room = ("--cores", str(self.cores), "--memory", f"{self.cores}g")
        self._run(_worker(number), "worker.Worker", *place, *room, self.url)

    def kill_master(self) -> None:
        """End the master with SIGKILL."""
        self._kill("master")

    def kill_worker(self, number: int) -> None:
        """End one of the workers with SIGKILL, and its executors with it, as a host goes away."""
        self._kill(_worker(number))

    def stop(self) -> None:
        """End them, and all that they have started."""
        for name in [*self._processes]:
            self._kill(name)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        server = psutil.Process(process.pid)
        family = [server, *server.children(recursive=True)]
        for each in family:
            with suppress(psutil.NoSuchProcess):  # it went with its parent
                each.kill()
        process.wait()
        psutil.wait_procs(family, timeout=_PATIENCE_SECONDS)

    def _run(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        recovery = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self.directory}/recovery"
        given = {
            "SPARK_HOME": str(_HOME),
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} {recovery}" if self.recovers else QUICK,
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [
            str(_HOME / "bin/spark-class"),
            f"org.apache.spark.deploy.{program}",
            *arguments,
            "--webui-port",
            "0",
        ]
        environment = {**os.environ, **given}
        with (self.directory / "cluster.log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        self._processes[name] = process
        return process


def _worker(number: int) -> str:
    return f"worker {number}"


@define
class SparkConnectServer(ServerProcess):
    """A Spark Connect server, which runs so many tasks at once."""

    directory: Path
    cores: int = 2
    port: int = field(factory=free_port, init=False)

    @property
    def url(self) -> str:
        """What a session takes as its remote."""
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; it answers when this returns."""
        self.directory.mkdir()
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.ui.enabled": "false",
        }
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        command = [str(_HOME / "bin/spark-submit"), "--class", server, "--master", f"local[{self.cores}]", *given]
        environment = {**os.environ, "SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable}
        with (self.directory / "connect.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, env=environment
            )
        while not is_answering("127.0.0.1", self.port):
            assert self.process.poll() is None, (self.directory / "connect.log").read_text()
