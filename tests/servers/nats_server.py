"""A real NATS server with JetStream for tests: started, stopped and killed as a test wants it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import nats
from attrs import define
from nats.aio.client import Client

from tests.servers.ports import free_port, is_answering
from tests.servers.postgresql import NoServerError
from tests.servers.process import ServerProcess

ANSWER_SECONDS = 10.0

T = TypeVar("T")


@define
class NATSServer(ServerProcess):
    """One server on a port of its own; its streams survive `kill`.

    Attributes:
        directory: of its settings and its streams.
        settings: more lines of its configuration.
    """

    directory: Path
    port: int = 0
    settings: str = ""

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def version(self) -> tuple[int, int]:
        """The two first numbers of its version."""

        async def numbers(client: Client) -> tuple[int, int]:
            return client.connected_server_version.major, client.connected_server_version.minor

        return self.run(numbers)

    def start(self) -> None:
        """Start it; it answers when this returns.

        Raises:
            NoServerError: it isn't installed.
        """
        program = shutil.which("nats-server", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        if program is None:
            raise NoServerError("NATS is not installed (Debian and Ubuntu: apt-get install nats-server)")
        self.port = self.port or free_port()
        settings = self.directory / "nats.conf"
        settings.write_text(
            f'host: "127.0.0.1"\nport: {self.port}\njetstream {{ store_dir: "{self.directory}/streams" }}\n'
            f"{self.settings}\n"
        )
        with (self.directory / "nats.log").open("ab") as log:
            self.process = subprocess.Popen([program, "-c", settings], stdout=log, stderr=log)
        while not is_answering("127.0.0.1", self.port):
            if self.process.poll() is not None:
                raise RuntimeError((self.directory / "nats.log").read_text())

    def run(self, action: Callable[[Client], Awaitable[T]]) -> T:
        """Return the result of ``action`` with a client."""

        async def connected() -> T:
            async with await nats.connect(self.url) as client:
                return await action(client)

        return asyncio.run(connected())

    def ask(self, subject: str, **request: Any) -> dict[str, Any]:
        """Return JetStream's answer to a request, such as ``STREAM.INFO.orders``."""

        async def answer(client: Client) -> dict[str, Any]:
            found = await client.request(f"$JS.API.{subject}", json.dumps(request).encode(), timeout=ANSWER_SECONDS)
            return dict(json.loads(found.data))

        found = self.run(answer)
        if "error" in found:
            raise RuntimeError(f"{subject}: {found['error']}")
        return found

    def make_stream(self, name: str, **config: Any) -> None:
        """Make a stream of the subjects below its name."""
        subjects = {} if "mirror" in config else {"subjects": [f"{name}.>"]}
        standard = {"name": name, "storage": "file", "retention": "limits", **subjects}
        self.ask(f"STREAM.CREATE.{name}", **standard, **config)

    def publish(self, subject: str, *messages: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Publish messages; all are stored when this returns."""

        async def sent(client: Client) -> None:
            stream = client.jetstream(timeout=ANSWER_SECONDS)
            for each in messages:
                await stream.publish(subject, each, headers=dict(headers) if headers else None)

        self.run(sent)
