"""Sums orders from a NATS stream by item, in SQLite (docs/how-to/nats.md).

::

    python examples/nats_orders.py nats://localhost:4222 sums.db
"""

from __future__ import annotations

import sys

from trident_py import NATSSpout, SQLiteState, Sum, TridentTopology


def sums(url: str, path: str) -> TridentTopology:
    """Sum the amounts of the messages of the stream ``orders``, which are JSON objects."""
    topology = TridentTopology("orders")
    orders = NATSSpout(url, "orders", value="json", schema="item string, amount int")
    (
        topology.new_stream("orders", orders)  # subject, sequence, time, headers, value
        .map(lambda row: (row.value.item, row.value.amount), "item string, amount int")
        .group_by("item")
        .persistent_aggregate(SQLiteState(path, table="sums"), Sum("amount"), "amount")
    )
    return topology


if __name__ == "__main__":
    with sums(*sys.argv[1:3]).start() as query:
        query.await_termination()
