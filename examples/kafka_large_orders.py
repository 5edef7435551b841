"""Copies large orders from one Kafka topic to another, each once, in the order of its shop (docs/how-to/kafka.md).

::

    pip install 'trident-py[kafka]'
    python examples/kafka_large_orders.py localhost:9092 orders large-orders

Kill it whenever you like, and start it again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from trident_py import KafkaSink, KafkaSpout, TridentTopology


def is_large(row: Any) -> bool:
    """Whether somebody has to look at an order."""
    return row.value is not None and row.value.price >= 1000


def record(row: Any) -> tuple[str, str]:
    """The key and the value of an order: those of one shop stay in one partition."""
    return row.value.shop, json.dumps({"shop": row.value.shop, "price": row.value.price})


def large_orders(servers: str, source: str, target: str, batch: int = 10_000) -> TridentTopology:
    """Read batches of so many records at most."""
    topology = TridentTopology("large-orders")
    spout = KafkaSpout(servers, source, value="json", schema="shop string, price double", max_records_per_batch=batch)
    orders = topology.new_stream("orders", spout)
    orders.filter(is_large).map(record, "key string, value string").write_to(KafkaSink(servers, target))
    return topology


if __name__ == "__main__":
    servers, source, target = sys.argv[1:]
    topology = large_orders(servers, source, target)
    print(topology.explain())
    topology.start().await_termination()
