"""Certificates for tests, made by the openssl that is installed: an authority, and whom it vouches for."""

from __future__ import annotations

import subprocess
from pathlib import Path

from attrs import frozen

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2")


@frozen
class Certificate:
    """A certificate and its private key, both PEM; the key is in PKCS #8."""

    cert: Path
    key: Path

    @property
    def key_store(self) -> Path:
        """Both in one file, as ZooKeeper wants them."""
        store = self.cert.with_suffix(".store.pem")
        store.write_text(self.key.read_text() + self.cert.read_text())
        return store


@frozen
class Authority:
    """Vouches for servers and clients."""

    directory: Path
    own: Certificate

    @classmethod
    def named(cls, name: str, directory: Path) -> Authority:
        """A new one."""
        own = Certificate(directory / f"{name}.crt.pem", directory / f"{name}.key.pem")
        _openssl("req", "-x509", *CURVE, "-nodes", "-subj", f"/CN={name}", "-keyout", own.key, "-out", own.cert)
        return cls(directory, own)

    def vouch(self, name: str, *, alternative: str | None = None, password: str | None = None) -> Certificate:
        """A certificate of ``name``.

        Args:
            name: its common name.
            alternative: where a server with it is, such as ``IP:127.0.0.1``.
            password: encrypts the key.
        """
        made = Certificate(self.directory / f"{name}.crt.pem", self.directory / f"{name}.key.pem")
        secret = ("-passout", f"pass:{password}") if password else ("-nodes",)
        extension = ("-addext", f"subjectAltName={alternative}") if alternative else ()
        signer = ("-CA", self.own.cert, "-CAkey", self.own.key)
        subject = ("-subj", f"/CN={name}", "-keyout", made.key, "-out", made.cert)
        _openssl("req", "-x509", *CURVE, *secret, *extension, *signer, *subject)
        return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
