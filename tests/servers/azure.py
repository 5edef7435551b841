"""A server that speaks Azure's Blob Storage, for tests: Azurite, from npm."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from attrs import define, field
from azure.storage.blob import BlobServiceClient
from obstore.store import AzureStore

from tests.servers.postgresql import NoServerError, free_port, is_answering
from tests.servers.process import ServerProcess

_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The one account that Azurite has, as its documentation says."""


@define
class AzureServer(ServerProcess):
    """One server on loopback; a bucket is a container.

    Attributes:
        directory: of its log.
    """

    scheme: ClassVar[str] = "az"
    endpoint: ClassVar[str] = "AZURE_STORAGE_ENDPOINT"
    directory: Path
    port: int = field(factory=free_port)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}/{_ACCOUNT}"

    @property
    def storage_options(self) -> dict[str, str]:
        """What `FileSpout` has to know of it."""
        return {
            self.endpoint: self.url,
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        }

    def objects(self, bucket: str) -> AzureStore:
        """The objects of a bucket, to put and delete them."""
        config: Any = {name: value for name, value in self.storage_options.items() if name != "AZURE_ALLOW_HTTP"}
        return AzureStore(bucket, config=config, client_options={"allow_http": True})

    def make_bucket(self, name: str) -> None:
        """Make an empty one."""
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
        command = [program, *options, "--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        with (self.directory / "azurite.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        while not is_answering("127.0.0.1", self.port):
            if self.process.poll() is not None:
                raise RuntimeError((self.directory / "azurite.log").read_text())
