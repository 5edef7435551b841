"""Sums orders by item from a Kafka topic into another, in Avro of a schema registry (docs/how-to/kafka.md).

::

    pip install 'trident-py[kafka]'
    python examples/kafka_avro_totals.py localhost:9092 http://localhost:8081 orders totals totals.db

The values of both topics are those of Confluent's serializers.
"""

from __future__ import annotations

import json
import sys

from trident_py import KafkaSink, KafkaSpout, SQLiteState, Sum, TridentTopology

AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "item", "type": "string"}, {"name": "price", "type": AMOUNT}],
    }
)
TOTAL = json.dumps(
    {
        "type": "record",
        "name": "Total",
        "fields": [{"name": "item", "type": "string"}, {"name": "total", "type": AMOUNT}],
    }
)


def totals(servers: str, registry: str, source: str, target: str, path: str) -> TridentTopology:
    """Keep the totals in SQLite, and send each new one, with its item as the key."""
    topology = TridentTopology("totals")
    orders = KafkaSpout(servers, source, value="avro", schema=ORDER, registry=registry)
    (
        topology.new_stream("orders", orders)
        .map(lambda row: (row.value.item, row.value.price), "item string, price decimal(10,2)")
        .group_by("item")
        .persistent_aggregate(SQLiteState(path, table="totals"), Sum("price"), "total")
        .new_values_stream()
        .map(
            lambda row: (row.item, (row.item, row.total)),
            "key string, value struct<item string, total decimal(10,2)>",
        )
        .write_to(KafkaSink(servers, target, schema=TOTAL, registry=registry))
    )
    return topology


if __name__ == "__main__":
    with totals(*sys.argv[1:6]).start() as query:
        query.await_termination()
