"""What a run needs around it: a directory, one ZooKeeper for all of it, and Spark sessions. All are gone afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from attrs import frozen
from pyspark.sql import SparkSession

from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from trident_py import TridentConfig, cli
from trident_py.spark.session import QUICK

LARGE: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": str(os.cpu_count()),
    "spark.sql.files.openCostInBytes": "0",  # otherwise a file of a few MiB is cut into unequal halves
}
"""What one would set by hand for large batches."""

SMALL: Mapping[str, str] = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
"""And for small ones."""

MESSAGE_TIMEOUT = 120.0
"""Seconds; the machine may be busy, and a replay would be measured as slowness."""


@frozen
class Stage:
    """Where everything happens.

    Attributes:
        directory: for whatever is written.
        zookeeper: ``host:port``.
    """

    directory: Path
    zookeeper: str

    @classmethod
    @contextmanager
    def standing(cls) -> Iterator[Stage]:
        """A stage, until the end of the context, however that comes."""
        directory = Path(tempfile.mkdtemp(prefix="trident-benchmarks-"))
        try:
            with EmbeddedZooKeeper.running(directory / "zookeeper") as server:
                yield cls(directory, server.hosts)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def scratch(self, name: str) -> Path:
        """An empty directory."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))

    def config(self, pending: int | None = None) -> TridentConfig:
        """The settings of a topology that nobody has run before; None: with the default of pending transactions."""
        hosts = f"{self.zookeeper}/{uuid4()}"
        if pending is None:
            return TridentConfig(zookeeper=hosts, message_timeout=MESSAGE_TIMEOUT)
        return TridentConfig(zookeeper=hosts, message_timeout=MESSAGE_TIMEOUT, max_spout_pending=pending)

    @contextmanager
    def session(self, settings: Mapping[str, str]) -> Iterator[SparkSession]:
        """A local Spark with ``settings``, and those that we build sessions with, for everybody who competes."""
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        root = str(Path(__file__).parents[1])  # for the workers, which import functions of these modules
        if root not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        with _quiet():
            builder = (
                SparkSession.Builder()
                .master("local[*]")
                .appName("benchmarks")
                .config("spark.driver.memory", "1g")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.sql.warehouse.dir", str(self.directory / "warehouse"))
            )
            for name, value in {**QUICK, **settings}.items():
                builder = builder.config(name, value)
            before = signal.getsignal(signal.SIGINT)
            spark = builder.getOrCreate()
            signal.signal(signal.SIGINT, before)  # Spark's own asks the JVM in the middle of whatever is asked of it
        try:
            spark.sparkContext.setLogLevel("FATAL")
            yield spark
        finally:
            spark.stop()


@contextmanager
def _quiet() -> Iterator[None]:
    """A JVM that starts now says nothing of itself: it logs as it does under the ``trident`` command."""
    settings = Path(cli.__file__).with_name("log4j2.properties")
    quiet = shlex.quote(f"-Dlog4j2.configurationFile={settings}")
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options {quiet} pyspark-shell"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before
