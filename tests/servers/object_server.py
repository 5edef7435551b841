"""A server of objects for tests, whichever protocol it speaks."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from attrs import define, field
from obstore.store import from_url

from tests.servers.ports import free_port, is_answering
from tests.servers.process import ServerProcess

_PATIENCE_SECONDS = 60


@define
class ObjectServer(ServerProcess, ABC):
    """One server on loopback.

    Attributes:
        scheme: of the URL of a bucket.
        endpoint: the option that names the server.
        directory: of its log.
    """

    scheme: ClassVar[str]
    endpoint: ClassVar[str]
    directory: Path
    port: int = field(factory=free_port)

    @property
    @abstractmethod
    def storage_options(self) -> dict[str, str]:
        """What deltalake and `FileSpout` have to know of it."""

    @abstractmethod
    def make_bucket(self, name: str) -> None:
        """Make an empty one."""

    def objects(self, bucket: str) -> Any:
        """The objects of a bucket, to put and delete them."""
        config: Any = {name: value for name, value in self.storage_options.items() if not name.endswith("ALLOW_HTTP")}
        return from_url(f"{self.scheme}://{bucket}", config=config, client_options={"allow_http": True})

    def begin(self, command: Sequence[str]) -> None:
        """Start it; it answers when this returns."""
        path = self.directory / f"{self.scheme}.log"
        with path.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        began = time.monotonic()
        while not is_answering("127.0.0.1", self.port):
            if time.monotonic() - began > _PATIENCE_SECONDS or self.process.poll() is not None:
                raise RuntimeError(f"the server does not answer: {path.read_text()}")
