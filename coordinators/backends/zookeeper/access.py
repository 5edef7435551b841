"""Access to ZooKeeper servers: the credentials of this process, and the protection of the connection."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

from attrs import Attribute, field, frozen
from attrs.converters import optional

from coordinators.values.errors import ConfigError
from coordinators.values.secret import Secret, as_secret

CERTIFICATE_ACL_BYTES = 512
"""The maximum size: the server stores the certificate's whole subject in the access control list of each node."""


def as_login(value: str | Secret | None) -> Secret | None:
    """Return ``user:password`` as a `Secret`.

    Raises:
        ConfigError: it is something else, which the error does not show.
    """
    if value is None:
        return None
    login = as_secret(value)
    user, _, password = login.reveal().partition(":")
    if not user or not password:
        raise ConfigError("the login for ZooKeeper must be 'user:password', and the given one is not (not shown here)")
    return login


@frozen(kw_only=True)
class ZooKeeperTLS:
    """A protected connection: the servers prove their identity, and so does this process if it has a certificate.

    Attributes:
        ca_file: PEM, the authorities that may vouch for the servers.
        cert_file: PEM, the certificate of this process; None: it presents none.
        key_file: PEM, its private key.
        key_password: decrypts the key.
    """

    ca_file: Path = field(converter=Path)
    cert_file: Path | None = field(default=None, converter=optional(Path))
    key_file: Path | None = field(default=None, converter=optional(Path))
    key_password: Secret | None = field(default=None, converter=optional(as_secret))

    @key_file.validator
    def _goes_with_certificate(self, _: Attribute[Path | None], value: Path | None) -> None:
        if (value is None) != (self.cert_file is None):
            raise ConfigError("a certificate for ZooKeeper and its private key go together; only one of them was given")

    def ensure_usable(self) -> None:
        """Load the files once, because a client would retry for ever without any message.

        Raises:
            ConfigError: one of them can't be read, or the password is not that of the key.
        """
        try:
            self._context()
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            ours = f" or certificate {self.cert_file} with key {self.key_file}" if self.cert_file else ""
            raise ConfigError(
                f"no TLS with ZooKeeper: authorities {self.ca_file}{ours} can't be used ({reason or error}); they must "
                f"be PEM files, a certificate must belong to its key, and an encrypted key needs its password"
            ) from error

    def connect(self, address: tuple[str, int], host: str, timeout: float) -> ssl.SSLSocket:
        """Connect to ``address``, which must prove to be ``host``.

        Reads the files again each time, because certificates expire.

        Raises:
            OSError: the connection failed; an `ssl.SSLError` if a certificate is the cause.
        """
        with ExitStack() as closing:
            plain = closing.enter_context(socket.create_connection(address, timeout))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protected = self._context().wrap_socket(plain, server_hostname=host)  # closes it if that fails
            closing.pop_all()
            return protected

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # asks for a certificate, and checks the name in it
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(self.ca_file)
        if self.cert_file is not None:
            # never None, at which OpenSSL would ask on the terminal
            password = self.key_password.reveal() if self.key_password else ""
            context.load_cert_chain(self.cert_file, self.key_file, password=password)
        return context


@frozen(kw_only=True)
class ZooKeeperAccess:
    """The credentials. With a login or a certificate, every node that this process creates belongs to it alone.

    Attributes:
        login: ``user:password``, for ZooKeeper's scheme "digest"; None: this process has no login.
        tls: None: the connection is not protected.
        is_own_server: it is the embedded server, where nodes that others may change are closed to them.
    """

    login: Secret | None = field(default=None, converter=as_login)
    tls: ZooKeeperTLS | None = None
    is_own_server: bool = False

    @property
    def has_identity(self) -> bool:
        """Whether the servers can distinguish this process from others."""
        return self.login is not None or (self.tls is not None and self.tls.cert_file is not None)

    @property
    def acl_bytes(self) -> int:
        """The maximum size of the access control list of one node."""
        login = 64 + len(self.login.reveal().partition(":")[0].encode()) if self.login else 0
        return login + (CERTIFICATE_ACL_BYTES if self.tls is not None and self.tls.cert_file is not None else 0)


ANONYMOUS = ZooKeeperAccess()
"""Neither a login nor TLS."""
