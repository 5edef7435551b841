"""A topology that counts the rows that it receives by HTTP; it leads, or stands by, until it is killed.

Call it with ZooKeeper's address, a directory, and a port.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trident_py import Count, HttpSpout, SQLiteState, TridentConfig, TridentTopology


def main(zookeeper: str, directory: Path, port: int) -> None:
    """Run it."""
    topology = TridentTopology("received")
    rows = topology.new_stream("rows", HttpSpout("rows", "id string not null")).group_by("id")
    rows.persistent_aggregate(SQLiteState(directory / "counts.db", table="counts"), Count(), "count")
    config = TridentConfig(
        zookeeper=zookeeper, session_timeout=2, state_dir=directory / "state", serve=f"127.0.0.1:{port}"
    )
    topology.start(config, standby=True).await_termination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
