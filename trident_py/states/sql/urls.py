"""Where a database is, in one text: ``mysql://user:password@host:3306/database``."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import field, frozen

from coordinators.secret import Secret, as_secret
from trident_py.errors import StateError


@frozen
class DatabaseUrl:
    """The parts of a database's URL, without escapes.

    Attributes:
        port: None: the server's usual one.
        options: what stands behind ``?``.
    """

    scheme: str
    host: str
    port: int | None
    database: str
    user: str
    password: Secret = field(converter=as_secret)
    options: dict[str, str]

    @classmethod
    def of(cls, text: Secret) -> DatabaseUrl:
        """Return the parts of ``text``.

        Raises:
            StateError: it is no such URL; doesn't say what it is, as it may hold a password.
        """
        try:
            url = urlsplit(text.reveal())
            host, port = url.hostname or "", url.port
        except ValueError:
            raise _unreadable() from None
        if not url.scheme or not url.path.strip("/"):
            raise _unreadable()
        user, password = unquote(url.username or ""), unquote(url.password or "")
        return cls(url.scheme, host, port, unquote(url.path[1:]), user, password, dict(parse_qsl(url.query)))

    @property
    def shown(self) -> str:
        """Host and database."""
        return f"{self.host or 'localhost'}/{self.database}"


def _unreadable() -> StateError:
    return StateError("the URL of the database is not like 'mysql://user:password@host:3306/database'")
