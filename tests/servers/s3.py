"""An S3 server for tests: moto's, which keeps objects in memory and refuses a PUT of one that is there, if asked."""

from __future__ import annotations

import sys
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from typing import ClassVar

from attrs import define

from tests.servers.object_server import ObjectServer

_PATIENCE_SECONDS = 60
_KEY, _SECRET, _REGION = "a-key", "hush", "eu-central-1"


@define
class S3Server(ObjectServer):
    """It has no bucket at first."""

    scheme: ClassVar[str] = "s3"
    endpoint: ClassVar[str] = "AWS_ENDPOINT_URL"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage_options(self) -> dict[str, str]:
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

    def make_bucket(self, name: str) -> None:
        self._put(name)

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object without obstore, whose threads a forked process lacks."""
        self._put(f"{bucket}/{key}", data)

    def _put(self, path: str, data: bytes = b"") -> None:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_SECONDS)) as connection:
            connection.request("PUT", f"/{path}", data)
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise RuntimeError(f"moto's server answers {answer.status}: {answer.read()!r}")

    def start(self) -> None:
        """Start it; it answers when this returns."""
        self.begin([sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(self.port)])
