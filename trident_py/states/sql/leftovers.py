"""Staging tables that are no longer needed."""

from __future__ import annotations

import logging

from attrs import define, field

from trident_py.errors import FailedException, StateError
from trident_py.states.sql.dialect import Database, Link
from trident_py.states.sql.table import AnyTable

log = logging.getLogger(__name__)

DROP_SECONDS = 0.2
"""The limit for a drop; a cancelled task may write to its table for a while, which can then be dropped later."""


@define
class Leftovers:
    """The names of one state's unneeded tables; if a drop fails, it is tried again, now or by the next leader."""

    names: set[str] = field(factory=set)

    def add_older(self, link: Link, table: AnyTable, epoch: int) -> None:
        """Add the staging tables of leaders before ``epoch``."""
        with link.transaction() as connection:
            found = connection.execute(table.find_staged, [table.schema, table.prefix, table.prefix]).fetchall()
        epochs = {name: table.epoch_of(name) for (name,) in found}
        self.names |= {name for name, its in epochs.items() if its is not None and its < epoch}

    def drop(self, database: Database, link: Link, table: AnyTable) -> None:
        """Drop the tables; a table that is in use is kept for later, and a lost connection ends the drops."""
        where = f"table {table.name!r} of {database.shown}"
        for name in sorted(self.names):
            try:
                with database.explained(where), link.transaction(DROP_SECONDS, durable=False) as connection:
                    connection.execute(table.staged(name).drop)
            except (FailedException, StateError) as error:
                log.info("%s stays for now: %s", name, error)
                if link.session is None:
                    return
            else:
                self.names.discard(name)
