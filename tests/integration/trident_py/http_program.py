"""Sums what it receives by HTTP; it leads, or stands by, until it is killed.

Call it with ZooKeeper's address, a directory, and a port.
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.http_orders import sums
from trident_py import TridentConfig


def main(zookeeper: str, directory: Path, port: int) -> None:
    """Run it."""
    config = TridentConfig(
        zookeeper=zookeeper, session_timeout=2, state_dir=directory / "state", serve=f"127.0.0.1:{port}"
    )
    sums(str(directory / "sums.db")).start(config, standby=True).await_termination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
