"""Appends events to an Iceberg table, each exactly once; anybody reads it, and others may write to it, meanwhile.

::

    pip install 'trident-py[iceberg]' 'pyiceberg[sql-sqlite]'
    python examples/iceberg_events.py      kill it whenever you like, and start it again
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trident_py import IcebergSink, TridentTopology
from trident_py.spouts import FileSpout

CATALOG = {"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": f"file://{Path('warehouse').resolve()}"}


def event(line: Any) -> tuple[str, str, int]:
    """Split a line into its fields: ``2026-11-22 login 17``."""
    day, kind, user = line.value.split()
    return day, kind, int(user)


topology = TridentTopology("events-to-iceberg")
(
    topology.new_stream("lines", FileSpout("logs/*.txt", max_bytes_per_batch=64 << 20))
    .map(event, "day string, kind string, user bigint")
    .write_to(IcebergSink("web.events", catalog=CATALOG, partition_by=("day", "bucket(4, user)")))
)

if __name__ == "__main__":
    from pyiceberg.catalog import load_catalog

    print(topology.explain())
    with topology.start() as query:
        query.process_all_available()
    table = load_catalog(**CATALOG).load_table("web.events")
    print(f"{len(table.snapshots())} snapshots of {table.location()}; the last has {table.scan().count()} events")
