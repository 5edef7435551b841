"""A real RabbitMQ server for tests: started, stopped and killed as a test wants it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pika
from attrs import define, field
from pika.exceptions import AMQPError

from tests.servers.ports import free_port
from tests.servers.postgresql import NoServerError
from tests.servers.process import ServerProcess

_PATIENCE_SECONDS = 120
_PAUSE_SECONDS = 0.1


@define
class RabbitMQServer(ServerProcess):
    """One node with its own ports; durable queues survive `kill`.

    Attributes:
        directory: of its data.
        port: of AMQP.
    """

    directory: Path
    port: int = field(factory=free_port, init=False)
    _others: tuple[int, int] = field(factory=lambda: (free_port(), free_port()), init=False)

    @property
    def url(self) -> str:
        """How to connect."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def start(self) -> None:
        """Start it; it answers when this returns."""
        programs = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
        program = programs[-1] if programs else shutil.which("rabbitmq-server")
        if program is None:
            raise NoServerError("RabbitMQ is not installed (Debian and Ubuntu: apt-get install rabbitmq-server)")
        distribution, mapper = self._others
        (self.directory / "enabled").write_text("[].\n")
        environment = {
            **os.environ,
            "HOME": str(self.directory),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "data"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled"),
            "RABBITMQ_CONF_ENV_FILE": str(self.directory / "none"),
        }
        with (self.directory / "rabbitmq.log").open("ab") as log:
            self.process = subprocess.Popen([program], env=environment, stdout=log, stderr=log, start_new_session=True)
        self._await()

    def close(self) -> None:
        """Kill it, and the mapper of ports that Erlang has started for it."""
        self.kill()
        command = ["epmd", "-port", str(self._others[1]), "-kill"]
        for _ in range(100):  # it refuses until it has noticed the end of the node
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(_PAUSE_SECONDS)

    def _end(self, number: int) -> None:
        """End the script that runs the node, and the node."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(_PATIENCE_SECONDS)
        self.process = None

    def _await(self) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until and self.process is not None and self.process.poll() is None:
            try:
                pika.BlockingConnection(pika.URLParameters(self.url)).close()
                return
            except (AMQPError, OSError):  # it may accept connections before it answers
                time.sleep(_PAUSE_SECONDS)
        raise AssertionError((self.directory / "rabbitmq.log").read_text()[-2000:])
