"""A database by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import field, frozen

from coordinators.values.secret import Secret, as_secret
from trident_py.errors import ConfigError, StateError, TopologyError

if TYPE_CHECKING:
    from trident_py.states.sql.dialect import Database


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
        """Return the parts of ``text``, a URL with one of these schemes.

        Raises:
            StateError: it is not such a URL; the error doesn't contain it, because it may hold a password.
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


def database_of(url: Secret) -> Database:
    """Return the database that ``url`` names.

    Raises:
        TopologyError: the URL is not one of a supported database.
        ConfigError: the database's library is not installed.
        StateError: the URL can't be read.
    """
    scheme, _, rest = url.reveal().partition("://")
    match scheme:
        case "sqlite":
            return _sqlite(rest)
        case "postgresql" | "postgres":
            return _postgres(url)
        case "mysql" | "mariadb":
            return _mysql(url)
    raise TopologyError(
        "the URL of a database begins with sqlite:///, postgresql:// or mysql://, and is followed by its name"
    )


def _sqlite(rest: str) -> Database:
    from trident_py.states.sql.sqlite_database import SQLiteDatabase

    if not rest.startswith("/") or rest.strip("/") in ("", ":memory:"):
        raise TopologyError("a SQLite database is a file: 'sqlite:///relative.db' or 'sqlite:////absolute.db'")
    return SQLiteDatabase(Path(rest[1:]).absolute())


def _postgres(url: Secret) -> Database:
    try:
        from trident_py.states.sql.postgres_client import Target
        from trident_py.states.sql.postgres_database import PostgresDatabase
    except ImportError as error:
        raise ConfigError(f"PostgreSQL needs psycopg ({error}): pip install 'trident-py[postgres]'") from error
    return PostgresDatabase(Target(url))


def _mysql(url: Secret) -> Database:
    from trident_py.states.sql.mysql import MySQLDatabase

    found = MySQLDatabase(url)
    found.check()
    return found
