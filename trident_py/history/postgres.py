"""A history in a PostgreSQL database, which all machines can reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from coordinators.values.secret import Secret
from trident_py.errors import FailedException, HistoryError, StateError
from trident_py.history.database import TABLES, HistoryDatabase
from trident_py.states.sql.postgres_client import Connection, Target, explained


def _target(dsn: Secret) -> Target:
    try:
        return Target(dsn, "trident_py history")
    except StateError:
        raise HistoryError("the DSN of the history is not one that libpq reads") from None


@define(eq=False)
class PostgresHistory(HistoryDatabase):
    """The history in a PostgreSQL database. Its tables are in the role's own schema."""

    target: Target = field(converter=_target)

    @property
    def shown(self) -> str:
        return self.target.shown

    def sql(self, statement: str) -> str:
        return statement.replace("?", "%s")

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        try:
            where = f"the history in {self.shown}"
            with explained(where, self.target), self.connection.transaction(), self.connection.cursor() as cursor:
                yield cursor
        except (FailedException, StateError) as error:
            self.close()
            raise HistoryError(str(error)) from error

    def connect(self) -> Connection:
        session = self.target.connect()
        connection = session.connection
        try:
            if session.schema is not None:
                schema = '"' + session.schema.replace('"', '""') + '"'
                connection.execute("SELECT set_config('search_path', %s, false)", [schema])
            found = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('trident_leaderships') AND attnum > 0"
            )
            self.check_version({name for (name,) in found.fetchall()})
            if not self.reads:
                with connection.transaction():  # two processes may start at once; making a table twice is an error
                    connection.execute("SELECT pg_advisory_xact_lock(hashtext('trident_py history'))")
                    for statement in TABLES:
                        connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection
