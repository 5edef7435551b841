"""Copies a table of PostgreSQL into one of SQLite in small batches: until it is killed, or until it has all."""

from __future__ import annotations

import sys
from pathlib import Path

from trident_py import PostgresChangesSpout, SQLSink, TridentConfig, TridentTopology

if __name__ == "__main__":
    dsn, zookeeper, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    config = TridentConfig(zookeeper=zookeeper, session_timeout=5, state_dir=directory / "state", max_spout_pending=3)
    topology = TridentTopology("copy")
    changes = topology.new_stream("items", PostgresChangesSpout(dsn, "shop", max_records_per_batch=50))
    changes.write_to(
        SQLSink(
            f"sqlite:///{directory / 'copy.db'}",
            "items",
            mode="merge",
            keys="id",
            sequence_by=("_lsn", "_n"),
            deletes="_op = 'delete'",
        )
    )
    with topology.start(config) as query:
        if "end" in sys.argv:
            query.process_all_available(120)
        else:
            query.await_termination()
