"""Keeps a copy of a PostgreSQL table in another database, change by change (docs/how-to/postgres-changes.md).

::

    python examples/postgres_copy.py postgresql://user:password@host/shop sqlite:///copy.db
"""

from __future__ import annotations

import sys

from trident_py import PostgresChangesSpout, SQLSink, TridentTopology


def copying(source: str, copy: str) -> TridentTopology:
    """Copy the table of the publication ``shop``, whose primary key is ``id``, into the table ``items``."""
    topology = TridentTopology("copy")
    changes = topology.new_stream("items", PostgresChangesSpout(source, "shop"))
    changes.write_to(
        SQLSink(copy, "items", mode="merge", keys="id", sequence_by=("_lsn", "_n"), deletes="_op = 'delete'")
    )
    return topology


if __name__ == "__main__":
    with copying(*sys.argv[1:3]).start() as query:
        query.await_termination()
