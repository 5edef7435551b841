"""A real Redis server for tests: started, stopped and killed as a test wants it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import redis
from attrs import define, field
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as NotYet
from redis.retry import Retry

from tests.servers.postgresql import NoServerError
from tests.servers.process import ServerProcess

_PATIENCE_SECONDS = 30
_PAUSE_SECONDS = 0.05


@define
class RedisServer(ServerProcess):
    """One server on a socket of its own; what it has fsynced survives `kill`.

    Attributes:
        directory: of its socket and its data.
        options: settings, as ``{"maxmemory": "3mb"}``.
    """

    directory: Path
    options: dict[str, str] = field(factory=dict)

    @property
    def url(self) -> str:
        """How to connect."""
        return f"unix://{self.directory}/redis.sock"

    def client(self) -> redis.Redis:
        """A client that waits until the server is there."""
        retry = Retry(
            ConstantBackoff(_PAUSE_SECONDS), int(_PATIENCE_SECONDS / _PAUSE_SECONDS), supported_errors=(NotYet,)
        )
        return redis.Redis.from_url(self.url, decode_responses=True, retry=retry)

    def start(self) -> None:
        """Start it; it answers when this returns."""
        program = shutil.which("redis-server")
        if program is None:
            raise NoServerError("Redis is not installed (Debian and Ubuntu: apt-get install redis-server)")
        settings = {
            "port": "0",
            "unixsocket": f"{self.directory}/redis.sock",
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "daemonize": "no",
            **self.options,
        }
        given = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with (self.directory / "redis.log").open("ab") as log:
            self.process = subprocess.Popen([program, *given], stdout=log, stderr=log)
        with self.client() as client:
            client.ping()
