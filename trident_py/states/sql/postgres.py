"""A state in a table of a PostgreSQL database: its factory, which needs no psycopg to be imported."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrs import Factory, evolve, field, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.secret import Secret, as_secret
from trident_py.errors import ConfigError, StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import StateFactory, StateKind
from trident_py.states.sql.reading import ReadTable

if TYPE_CHECKING:
    from trident_py.states.sql.postgres_state import PostgresMapState
    from trident_py.states.sql.postgres_table import Table


@frozen
class PostgresState(StateFactory):
    """Keeps values in ``table`` of the database that ``dsn`` names, in the first schema of its ``search_path``.

    The table is an ordinary one: ``SELECT word, count FROM counts`` gives the committed values at any time, from any
    client; reading blocks no commit. Columns and tables that begin with an underscore are bookkeeping. Each state needs
    a table of its own; several may share a database. Values are durable when committed (``synchronous_commit``).

    Spark's tasks copy the change of a batch into a table of the attempt, on connections of their own; the driver merges
    it in one transaction, with the commit token. So the workers have to reach the database as the driver does, and the
    role needs CREATE on the schema. The DSN travels to them: where no password may, name a ``service`` or a
    ``passfile`` in it. A pooler that doesn't keep a session on one connection, as PgBouncer with
    ``pool_mode=transaction``, is refused. All leaders of a topology have the same role: a new one ends the connections
    of those before it, also of one that was paused in mid-transaction.

    Args:
        dsn: ``"host=… dbname=… user=…"`` or ``"postgresql://user@host/dbname"``; never printed.
        table: up to 40 lower-case letters, digits and underscores.

    Raises:
        ConfigError: psycopg is not installed.
        StateError: ``table`` cannot be a table's name, or ``dsn`` is none.
    """

    guarantee = "exactly-once"
    kind = StateKind.FENCED

    dsn: Secret = field(converter=as_secret)
    table: str = field(kw_only=True)
    _schema: Table | None = field(default=None, kw_only=True, repr=False)
    name: str = field(init=False, repr=False, default=Factory(lambda self: self.table, takes_self=True))

    def __attrs_post_init__(self) -> None:
        try:
            from trident_py.states.sql.postgres_client import Target
            from trident_py.states.sql.postgres_table import check_table
        except ImportError as error:
            raise ConfigError(f"PostgresState needs psycopg ({error}): pip install 'trident-py[postgres]'") from error
        check_table(self.table)
        Target(self.dsn)

    @property
    def lacks_fields(self) -> bool:
        """Whether nothing has told it the types of its columns yet."""
        return self._schema is None

    def for_fields(self, keys: StructType, value: StructField) -> PostgresState:
        """This factory for values of these types.

        Raises:
            StateError: a column can't hold such a type, or can't have such a name.
        """
        from trident_py.states.sql.postgres_table import Table

        return evolve(self, schema=Table.of(self.table, keys, value))

    def for_reading(self) -> ReadTable:
        """The table as it is, whichever topology fills it."""
        from trident_py.states.sql.postgres_client import Target
        from trident_py.states.sql.postgres_reading import PostgresTableReader

        return ReadTable(self, self.table, partial(PostgresTableReader, Target(self.dsn), self.table))

    def ensure_usable(self) -> None:
        """Look whether the server answers, lets us in, and leaves each session its connection."""
        from trident_py.states.sql.postgres_client import Target, starting

        target = Target(self.dsn)
        with starting(f"table {self.table!r} of {target.shown}", target):
            target.check()

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> PostgresMapState:
        """The state; it connects when it recovers."""
        from trident_py.states.sql.postgres_client import Target
        from trident_py.states.sql.postgres_state import PostgresMapState

        target = Target(self.dsn)
        if self._schema is None:
            raise StateError(
                f"table {self.table!r} of {target.shown}: PostgresState keeps typed columns, and only "
                f"persistent_aggregate tells it their types; use it there, or call for_fields"
            )
        return PostgresMapState(target, self._schema)
