"""The place of Spark: a given master or Connect server, else the environment's setting, else this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve, frozen

from trident_py.errors import ConfigError

LOCAL = "local[*]"
ANSWER_SECONDS_MAX = 5.0
"""Seconds for one host to accept a connection."""

EXTRA_SLOTS = "spark.trident.slots.extra"
"""The setting of a session that tells `SparkCluster.extra_slots`."""

CONNECT_PORT = 15002
"""The port of a Connect server if its URL has none."""


@frozen(kw_only=True)
class SparkCluster:
    """The place where the jobs of a topology run.

    Attributes:
        master: as ``spark://host:7077``, ``k8s://https://host:443``, ``yarn`` or ``local[4]``.
        remote: a Spark Connect server, as ``sc://host:15002``; then there is no master.
        driver_host: an address of this machine that executors can reach; None: Spark chooses.
        extra_slots: how many slots it has in addition to those of the processors, for tasks that stay.
    """

    master: str = LOCAL
    remote: str | None = None
    driver_host: str | None = None
    extra_slots: int = 0

    @classmethod
    def found(
        cls, master: str | None = None, remote: str | None = None, driver_host: str | None = None
    ) -> SparkCluster:
        """Return the given cluster, or else Spark's own setting: the environment, then ``spark-defaults.conf``.

        Raises:
            ConfigError: both master and remote were given.
        """
        if master and remote:
            raise ConfigError(f"a topology runs on a master or a Connect server, not on {master} and {remote}")
        if remote or (not master and (remote := os.environ.get("SPARK_REMOTE"))):
            return cls(remote=remote)
        chosen = master or _defaults().get("spark.master") or os.environ.get("MASTER") or LOCAL
        return cls(master=chosen, driver_host=driver_host)

    @property
    def url(self) -> str:
        """The master or server, as the user wrote it."""
        return self.remote or self.master

    @property
    def is_local(self) -> bool:
        """Whether executors are in this process's own JVM."""
        return self.remote is None and self.master.partition("[")[0] == "local"

    def with_slots(self, residents: int | None) -> SparkCluster:
        """Return this machine with a slot for each processor, and more slots for ``residents``.

        None means one for each two processors. Another cluster, or chosen slots, stay the same.
        """
        processors = len(os.sched_getaffinity(0))
        more = max(1, processors // 2) if residents is None else residents
        if not more or self.remote is not None or self.master != LOCAL:
            return self
        return evolve(self, master=f"local[{processors + more}]", extra_slots=more)

    def ensure_there(self) -> None:
        """Return if the cluster answers, or if only Spark can tell: YARN is configured in Hadoop's files.

        Raises:
            ConfigError: no host answers; Spark itself would try for minutes.
        """
        causes = []
        for host, port in self._places():
            try:
                with closing(socket.create_connection((host, port), ANSWER_SECONDS_MAX)):
                    return
            except OSError as error:
                causes.append(f"{host}:{port}: {error}")
        if causes:
            what = "Spark Connect server" if self.remote else "Spark master"
            raise ConfigError(
                f"no {what} answers at {self.url} ({'; '.join(causes)}); start it, or correct --master or --remote, "
                f"the environment variables SPARK_REMOTE and MASTER, or spark.master in spark-defaults.conf"
            )

    def settings(self) -> Mapping[str, Any]:
        """Return the Spark settings that the cluster requires, unlike those that the user chooses."""
        if self.is_local:
            return {
                "spark.driver.memory": "1g",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.ui.enabled": "false",
                EXTRA_SLOTS: str(self.extra_slots),
            }
        if self.driver_host:
            return {
                "spark.driver.host": self.driver_host,
                "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 - executors are elsewhere
                "spark.kubernetes.executor.useDriverPodIP": "false",  # Spark 4.3 takes the address above for the pod's
            }
        return {}

    def _places(self) -> Iterator[tuple[str, int]]:
        """Yield the hosts that may answer: a standalone cluster can have several masters."""
        try:
            if self.remote is not None:
                yield _place(self.remote, CONNECT_PORT)
            elif self.master.startswith("k8s://"):
                yield _place(self.master.removeprefix("k8s://"), 443)
            elif self.master.startswith("spark://"):
                for place in self.master.removeprefix("spark://").split(","):
                    yield _place(f"//{place}", 7077)
        except ValueError as error:
            raise ConfigError(f"{self.url!r} names no host and port: {error}") from error


def _place(url: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(url if "//" in url else f"//{url}")
    if not parts.hostname:
        raise ValueError("there is no host")
    return parts.hostname, parts.port or default_port


def _defaults() -> dict[str, str]:
    """Return the settings of ``spark-defaults.conf``, at Spark's own place: a name and a value on each line."""
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    file = Path(directory) / "spark-defaults.conf"
    if not directory or not file.is_file():
        return {}
    pairs = (line.replace("=", " ", 1).split(None, 1) for line in file.read_text().splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and not pair[0].startswith("#")}
