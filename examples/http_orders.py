"""Sums orders that are received by HTTP by customer, in SQLite (docs/how-to/http.md).

::

    python examples/http_orders.py 127.0.0.1:8080 sums.db
"""

from __future__ import annotations

import sys

from trident_py import HttpSpout, SQLiteState, Sum, TridentConfig, TridentTopology


def sums(path: str) -> TridentTopology:
    """Sum the amounts of the rows that are sent to ``/ingest/orders``."""
    topology = TridentTopology("orders")
    orders = HttpSpout("orders", "customer string not null, amount bigint not null")
    (
        topology.new_stream("orders", orders)
        .group_by("customer")
        .persistent_aggregate(SQLiteState(path, table="sums"), Sum("amount"), "amount")
    )
    return topology


if __name__ == "__main__":
    with sums(sys.argv[2]).start(TridentConfig(serve=sys.argv[1])) as query:
        print(query.page)
        query.await_termination()
