"""A database by its URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from coordinators.values.secret import Secret
from trident_py.errors import ConfigError, TopologyError

if TYPE_CHECKING:
    from trident_py.states.sql.dialect import Database


def database_of(url: Secret) -> Database:
    """Return the database that ``url`` names; libpq's ``host=… dbname=…`` names a PostgreSQL database.

    Raises:
        TopologyError: the URL is not one of a supported database.
        ConfigError: the database's library is not installed.
        StateError: the URL can't be read.
    """
    scheme, _, rest = url.reveal().partition("://")
    if re.match(r"\s*[a-z_]+\s*=", scheme):
        return _postgres(url)
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
