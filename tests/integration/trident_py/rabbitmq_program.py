"""Sums orders from a queue until it is killed: RabbitMQ's URL, ZooKeeper's address, a directory."""

from __future__ import annotations

import sys
from pathlib import Path

from examples.rabbitmq_orders import sums
from trident_py import TridentConfig

if __name__ == "__main__":
    directory = Path(sys.argv[3])
    config = TridentConfig(zookeeper=sys.argv[2], session_timeout=5, state_dir=directory / "state", max_spout_pending=3)
    sums(sys.argv[1], str(directory / "sums.db")).start(config).await_termination()
