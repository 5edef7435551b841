"""How to be let in by ZooKeeper servers: who we are to them, and how the connection is protected."""

from __future__ import annotations

import ssl
from pathlib import Path

from attrs import Attribute, field, frozen
from attrs.converters import optional

from coordinators.errors import ConfigError
from coordinators.secret import Secret

ACL_BYTES_OF_CERTIFICATE = 512
"""At most: the server keeps the certificate's whole subject in the access control list of each node."""


def _secret(value: str | Secret) -> Secret:
    return value if isinstance(value, Secret) else Secret(str(value))


def as_login(value: str | Secret | None) -> Secret | None:
    """``user:password`` as a `Secret`.

    Raises:
        ConfigError: it is something else, which the error does not show.
    """
    if value is None:
        return None
    login = _secret(value)
    user, _, password = login.reveal().partition(":")
    if not user or not password:
        raise ConfigError("the login for ZooKeeper must be 'user:password', and what was given is not (not shown here)")
    return login


@frozen(kw_only=True)
class ZooKeeperTLS:
    """A protected connection: the servers prove who they are, and we do too if there is a certificate of ours.

    Attributes:
        ca_file: PEM, the authorities that may vouch for the servers.
        cert_file: PEM, our own certificate; None: we show none.
        key_file: PEM, its private key.
        key_password: what the key is encrypted with.
    """

    ca_file: Path = field(converter=Path)
    cert_file: Path | None = field(default=None, converter=optional(Path))
    key_file: Path | None = field(default=None, converter=optional(Path))
    key_password: Secret | None = field(default=None, converter=optional(_secret))

    @key_file.validator
    def _goes_with_certificate(self, _: Attribute[Path | None], value: Path | None) -> None:
        if (value is None) != (self.cert_file is None):
            raise ConfigError("a certificate for ZooKeeper and its private key go together; only one of them was given")

    @property
    def password_or_empty(self) -> str:
        """What the key is encrypted with; never None, at which OpenSSL would ask on the terminal."""
        return self.key_password.reveal() if self.key_password else ""

    def ensure_readable(self) -> None:
        """Load the files once: kazoo would go on trying for ever without a word.

        Raises:
            ConfigError: one of them can't be read, or the password is not that of the key.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.ca_file)
        except OSError as error:
            raise ConfigError(
                f"the authorities in {self.ca_file} can't be read ({_reason(error)}); they must be PEM"
            ) from error
        if self.cert_file is None:
            return
        try:
            context.load_cert_chain(self.cert_file, self.key_file, password=self.password_or_empty)
        except OSError as error:
            raise ConfigError(
                f"the certificate {self.cert_file} can't be used with the key {self.key_file} ({_reason(error)}); they "
                f"must be PEM and belong together, and an encrypted key needs its password"
            ) from error


def _reason(error: OSError) -> str:
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)


@frozen(kw_only=True)
class ZooKeeperAccess:
    """How we are let in. With a login or a certificate of ours, whatever we create is ours alone.

    Attributes:
        login: ``user:password``, for ZooKeeper's scheme "digest"; None: we don't say who we are.
        tls: None: the connection is not protected.
        is_own_server: it is the embedded server, which can only be reached from this machine.
    """

    login: Secret | None = field(default=None, converter=as_login)
    tls: ZooKeeperTLS | None = None
    is_own_server: bool = False

    @property
    def has_identity(self) -> bool:
        """Whether the servers can tell us from others."""
        return self.login is not None or (self.tls is not None and self.tls.cert_file is not None)

    @property
    def acl_bytes(self) -> int:
        """How much the access control list of one node takes, at most."""
        login = 64 + len(self.login.reveal().partition(":")[0].encode()) if self.login else 0
        return login + (ACL_BYTES_OF_CERTIFICATE if self.tls is not None and self.tls.cert_file is not None else 0)


ANONYMOUS = ZooKeeperAccess()
"""Neither a login nor TLS."""

OWN_SERVER = ZooKeeperAccess(is_own_server=True)
"""That of the embedded server."""
