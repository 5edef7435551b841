"""A server that speaks Azure's Blob Storage, for tests: Azurite, from npm."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import ClassVar

from attrs import define
from azure.storage.blob import BlobServiceClient

from tests.servers.object_server import ObjectServer
from tests.servers.postgresql import NoServerError

_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The one account that Azurite has, as its documentation says."""


@define
class AzureServer(ObjectServer):
    """A bucket is a container."""

    scheme: ClassVar[str] = "az"
    endpoint: ClassVar[str] = "AZURE_STORAGE_ENDPOINT"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}/{_ACCOUNT}"

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            self.endpoint: self.url,
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        }

    def make_bucket(self, name: str) -> None:
        credential = {"account_name": _ACCOUNT, "account_key": _KEY}
        with closing(BlobServiceClient(self.url, credential=credential)) as client:
            client.create_container(name)

    def start(self) -> None:
        """Start it; it answers when this returns.

        Raises:
            NoServerError: it isn't installed.
        """
        program = shutil.which("azurite-blob")
        if program is None:
            raise NoServerError("Azurite is not installed (npm install --global azurite)")
        options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        self.begin([program, *options, "--blobHost", "127.0.0.1", "--blobPort", str(self.port)])
