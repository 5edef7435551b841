"""An S3 server for tests: moto's, which keeps objects in memory and refuses a PUT of one that is there, if asked."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, ClassVar

from attrs import define, field
from obstore.store import S3Store

from tests.servers.postgresql import free_port, is_answering
from tests.servers.process import ServerProcess

_PATIENCE_SECONDS = 60
_KEY, _SECRET, _REGION = "a-key", "hush", "eu-central-1"


@define
class S3Server(ServerProcess):
    """One server on loopback.

    Attributes:
        directory: of its log.
    """

    scheme: ClassVar[str] = "s3"
    endpoint: ClassVar[str] = "AWS_ENDPOINT_URL"
    directory: Path
    port: int = field(factory=free_port)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """What deltalake and `FileSpout` have to know of it."""
        return {
            self.endpoint: self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": _REGION,
        }

    @property
    def catalog_properties(self) -> dict[str, str]:
        """What pyiceberg has to know of it."""
        return {
            "s3.endpoint": self.url,
            "s3.access-key-id": _KEY,
            "s3.secret-access-key": _SECRET,
            "s3.region": _REGION,
        }

    def objects(self, bucket: str) -> S3Store:
        """The objects of a bucket, to put and delete them."""
        config: Any = {name: value for name, value in self.storage_options.items() if name != "AWS_ALLOW_HTTP"}
        return S3Store(bucket, config=config, client_options={"allow_http": True})

    def make_bucket(self, name: str) -> None:
        """Make an empty one."""
        self.put(name)

    def put(self, bucket: str, key: str = "", data: bytes = b"") -> None:
        """Write an object without obstore, whose threads a forked process lacks."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_SECONDS)) as connection:
            connection.request("PUT", f"/{bucket}/{key}".rstrip("/"), data)
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise RuntimeError(f"moto's server answers {answer.status}: {answer.read()!r}")

    def start(self) -> None:
        """Start it; it answers when this returns."""
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(self.port)]
        with (self.directory / "s3.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        began = time.monotonic()
        while not is_answering("127.0.0.1", self.port):
            if time.monotonic() - began > _PATIENCE_SECONDS or self.process.poll() is not None:
                raise RuntimeError(f"moto's server does not answer: {(self.directory / 's3.log').read_text()}")
