"""Sums orders from a queue of RabbitMQ by item, in SQLite (docs/how-to/rabbitmq.md).

::

    python examples/rabbitmq_orders.py amqp://user:password@localhost:5672/%2F sums.db
"""

from __future__ import annotations

import json
import sys

from trident_py import RabbitMQSpout, SQLiteState, Sum, TridentTopology


def sums(url: str, path: str) -> TridentTopology:
    """Sum the amounts of the messages of the queue ``orders``, which are JSON objects."""
    topology = TridentTopology("orders")
    (
        topology.new_stream("orders", RabbitMQSpout(url, "orders"))  # message_id, routing_key, timestamp, headers, body
        .map(lambda row: _order(row.body), "item string, amount bigint")
        .group_by("item")
        .persistent_aggregate(SQLiteState(path, table="sums"), Sum("amount"), "amount")
    )
    return topology


def _order(body: str) -> tuple[str, int]:
    order = json.loads(body)
    return order["item"], order["amount"]


if __name__ == "__main__":
    with sums(*sys.argv[1:3]).start() as query:
        query.await_termination()
