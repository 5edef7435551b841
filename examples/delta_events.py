"""Appends events to a Delta table, each exactly once; anybody reads it, and others may write to it, meanwhile.

::

    pip install 'trident-py[delta]'
    python examples/delta_events.py      kill it whenever you like, and start it again
"""

from __future__ import annotations

from typing import Any

from trident_py import DeltaSink, TridentTopology
from trident_py.spouts import FileSpout


def event(line: Any) -> tuple[str, str, int]:
    """The fields of a line: ``2026-11-22 login 17``."""
    day, kind, user = line.value.split()
    return day, kind, int(user)


topology = TridentTopology("events-to-delta")
(
    topology.new_stream("lines", FileSpout("logs/*.txt", max_bytes_per_batch=64 << 20))
    .map(event, "day string, kind string, user bigint")
    .write_to(DeltaSink("events", partition_by="day"))
)

if __name__ == "__main__":
    from deltalake import DeltaTable

    print(topology.explain())
    with topology.start() as query:
        query.process_all_available()
    table = DeltaTable("events")
    print(f"version {table.version()} of {table.table_uri} has {table.count()} events")
