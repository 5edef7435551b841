"""Where a database is, in one text: ``mysql://user:password@host:3306/database``."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import field, frozen

from coordinators.values.secret import Secret, as_secret
from trident_py.errors import StateError


@frozen
class DatabaseUrl:
    """The parts of a database's URL, without escapes.

    Attributes:
        port: None: the server's usual port.
        options: the parameters after ``?``.
    """

    scheme: str
    host: str
    port: int | None
    database: str
    user: str
    password: Secret = field(converter=as_secret)
    options: dict[str, str]

    @classmethod
    def of(cls, text: Secret, schemes: tuple[str, ...]) -> DatabaseUrl:
        """Return the parts of ``text``, which has one of these schemes.

        Raises:
            StateError: it is no such URL; doesn't say what it is, as it may hold a password.
        """
        try:
            url = urlsplit(text.reveal())
            host, port = url.hostname or "", url.port
        except ValueError:
            raise _unreadable(schemes) from None
        if url.scheme not in schemes or not url.path.strip("/"):
            raise _unreadable(schemes)
        user, password = unquote(url.username or ""), unquote(url.password or "")
        return cls(url.scheme, host, port, unquote(url.path[1:]), user, password, dict(parse_qsl(url.query)))

    @property
    def shown(self) -> str:
        """Host and database."""
        return f"{self.host or 'localhost'}/{self.database}"


def _unreadable(schemes: tuple[str, ...]) -> StateError:
    return StateError(f"the URL of the database is not like '{schemes[0]}://user:password@host:port/database'")
