"""A real Kafka broker for tests, to be stopped, killed and started again."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from attrs import define
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coordinators.backends.zookeeper.java import find_java
from tests.servers.postgresql import NoServerError
from tests.servers.process import ServerProcess
from trident_py.cli.kafka_broker import broker_command, jars_of, prepare_broker
from trident_py.errors import ConfigError

_PATIENCE_SECONDS = 120
TOOLS = "4.1.0"
"""Of Kafka's own tools for tests; 4.4.0 of them could not be had."""


def tools_command(*arguments: str) -> list[str]:
    """What runs a class of Kafka's tools, whose jars are fetched where they aren't there yet."""
    return [find_java(), "-Xmx512m", "-cp", f"{jars_of('kafka-tools', TOOLS)}/*", *arguments]


@define
class KafkaBroker(ServerProcess):
    """One broker and controller on ports of its own; its data survive `kill`.

    Attributes:
        address: where clients find it.
    """

    directory: Path
    port: int = 0
    _admin: AdminClient | None = None
    address: str = "127.0.0.1"

    @property
    def servers(self) -> str:
        """What clients connect to."""
        return f"{self.address}:{self.port}"

    @property
    def admin(self) -> AdminClient:
        """A client, the same one each time: what it answers later would be lost with it."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return self._admin

    def start(self) -> None:
        """Start it; it answers when this returns.

        Raises:
            NoServerError: its jars can't be had.
        """
        if not self.port:
            try:
                self.port = prepare_broker(self.directory)
            except ConfigError as error:
                raise NoServerError(str(error)) from error
            config = self.directory / "server.properties"
            config.write_text(config.read_text().replace(f"127.0.0.1:{self.port}", self.servers))
        with (self.directory / "kafka.log").open("ab") as log:
            command = broker_command(self.directory)
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self.admin.list_topics(timeout=5)
                return
            except KafkaException:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
