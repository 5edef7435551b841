"""A state in a table of a PostgreSQL database: its factory, which can be imported without psycopg."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import Factory, field, frozen

from coordinators.values.secret import Secret, as_secret
from trident_py.errors import ConfigError
from trident_py.interfaces.states import DRIVER
from trident_py.states.fenced import checked_ttl
from trident_py.states.sql.factory import SQLState, checked_placement

if TYPE_CHECKING:
    from trident_py.states.sql.postgres_database import PostgresDatabase
    from trident_py.states.sql.table import Table


@frozen
class PostgresState(SQLState):
    """Keeps values in ``table`` of the database that ``dsn`` names, in the first schema of its ``search_path``.

    The table is an ordinary one: ``SELECT word, count FROM counts`` returns the committed values at any time, from any
    client; reading blocks no commit. Columns and tables that begin with an underscore are bookkeeping. Each state needs
    its own table; several may share a database. Values are durable when committed (``synchronous_commit``).

    Spark's tasks copy the change of a batch into a table of the attempt, on their own connections. The driver merges it
    in one transaction, with the commit token. So the workers must reach the database as the driver does, and the role
    needs CREATE on the schema. The DSN is sent to the workers: if a password must not be, name a ``service`` or a
    ``passfile`` in it. A pooler must keep a session on one connection: PgBouncer with ``pool_mode=transaction`` is
    refused. All leaders of a topology must have the same role. A new leader ends the connections of earlier ones, even
    of one that was paused in a transaction.

    Args:
        dsn: ``"host=… dbname=… user=…"`` or ``"postgresql://user@host/dbname"``; never printed.
        table: up to 40 lower-case letters, digits and underscores.
        ttl: how long a key stays without a write, by the times of transactions, as ``timedelta(days=30)``; None:
            forever. See `docs/how-to/removing-keys.md`.
        placement: where reducers and updaters change values of large batches: in the ``"driver"``, or in Spark's
            ``"tasks"``. See `docs/how-to/state-in-tasks.md`.

    Raises:
        ConfigError: psycopg is not installed.
        StateError: ``table`` cannot be a table's name, or ``dsn`` is not a DSN.
    """

    dsn: Secret = field(converter=as_secret)
    table: str = field(kw_only=True)
    ttl: timedelta | None = field(default=None, converter=checked_ttl, kw_only=True, repr=False, eq=False)
    placement: str = field(default=DRIVER, converter=checked_placement, kw_only=True, repr=False, eq=False)
    _schema: Table | None = field(default=None, kw_only=True, repr=False)
    name: str = field(init=False, repr=False, default=Factory(lambda self: self.table, takes_self=True))

    def __attrs_post_init__(self) -> None:
        try:
            from trident_py.states.sql.postgres_database import check_table
        except ImportError as error:
            raise ConfigError(f"PostgresState needs psycopg ({error}): pip install 'trident-py[postgres]'") from error
        check_table(self.table)
        _ = self.database

    @property
    def database(self) -> PostgresDatabase:
        """The database of the DSN."""
        from trident_py.states.sql.postgres_client import Target
        from trident_py.states.sql.postgres_database import PostgresDatabase

        return PostgresDatabase(Target(self.dsn))
