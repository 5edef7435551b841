"""Staging tables that nobody needs any more."""

from __future__ import annotations

import logging

import psycopg
from attrs import define, field

from trident_py.states.sql.postgres_client import Link
from trident_py.states.sql.postgres_table import Table

log = logging.getLogger(__name__)

DROP_SECS = 0.2
"""A cancelled task may go on copying for a while; its table can be dropped later."""


@define
class Leftovers:
    """The names of one state's; what can't be dropped now is tried again, or dropped by the next leader."""

    names: set[str] = field(factory=set)

    def add_older(self, link: Link, table: Table, epoch: int) -> None:
        """Add what leaders before ``epoch`` have left."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, %s)"
        with link.transaction() as connection:
            found = connection.execute(query, [table.schema, f"_{table.name}_"]).fetchall()
        epochs = {name: table.epoch_of(name) for (name,) in found}
        self.names |= {name for name, its in epochs.items() if its is not None and its < epoch}

    def drop(self, link: Link, table: Table) -> None:
        """Drop what can be dropped."""
        for name in sorted(self.names):
            try:
                with link.transaction(DROP_SECS) as connection:
                    connection.execute("SET LOCAL synchronous_commit = off")
                    connection.execute(table.staged(name).drop)
            except psycopg.Error as error:
                said = link.target.redacted(error)
                log.info("table %r of %s: %s stays for now: %s", table.name, link.target.shown, name, said)
                if not isinstance(error, psycopg.errors.LockNotAvailable):
                    return
            else:
                self.names.discard(name)
