"""Reads a source of our own in parallel: orders in several SQLite databases, one partition each, by their ids.

A batch has at most 1 000 orders of each. Its splits are stored, and it can be read again from those: so this is an
`IPartitionedTridentSpout`. Databases may be added while it runs; kill it whenever you like, and start it again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from trident_py import SQLiteState, Sum, TridentCollector, TridentTopology
from trident_py.spouts import IPartitionedTridentSpout, PartitionedCoordinator, PartitionedEmitter

Splits = Mapping[str, list[int]]  # by path: the first and the last id


def rows(path: str, select: str, *parameters: int) -> list[Any]:
    """What a database answers."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(select, parameters).fetchall()


class Shards(PartitionedCoordinator[list[str]]):
    """Knows which databases there are, and whether one has new orders."""

    def __init__(self) -> None:
        self.read: Splits = {}

    def get_partitions_for_batch(self) -> list[str]:
        return sorted(map(str, Path("shards").resolve().glob("*.db")))

    def emitted(self, positions: Splits) -> None:
        self.read = positions

    def is_ready(self, txid: int) -> bool:
        newest = {path: rows(path, "SELECT max(id) FROM orders")[0][0] for path in self.get_partitions_for_batch()}
        return any((last or 0) > self.read.get(path, [0, 0])[1] for path, last in newest.items())


class Orders(PartitionedEmitter[list[str], str, list[int]]):
    """Reads the databases of one task."""

    def emit_batch_new(self, tx: Any, collector: TridentCollector, partitions: Any, last: Splits) -> Splits:
        query = "SELECT min(id), max(id) FROM (SELECT id FROM orders WHERE id > ? ORDER BY id LIMIT 1000)"
        next_ids = {path: list(rows(path, query, last.get(path, [0, 0])[1])[0]) for path in partitions}
        found = {path: split for path, split in next_ids.items() if split[0] is not None}
        for path, split in found.items():
            self.re_emit_partition_batch(tx, collector, path, split)
        return found

    def re_emit_partition_batch(self, tx: Any, collector: TridentCollector, path: str, split: list[int]) -> None:
        for row in rows(path, "SELECT item, amount FROM orders WHERE id BETWEEN ? AND ?", *split):
            collector.emit(row)


class OrderSpout(IPartitionedTridentSpout[list[str], str, list[int]]):
    """The source: its halves, and the fields of its rows."""

    output_schema = "item string, amount bigint"

    def get_coordinator(self, conf: Any, context: Any) -> Shards:
        return Shards()

    def get_emitter(self, conf: Any, context: Any) -> Orders:
        return Orders()


topology = TridentTopology("partitioned")
orders = topology.new_stream("orders", OrderSpout())
orders.group_by("item").persistent_aggregate(SQLiteState("sold.db", table="sold"), Sum("amount"), "amount")

if __name__ == "__main__":
    with topology.start() as query:
        query.process_all_available()
    print(rows("sold.db", "SELECT item, amount FROM sold ORDER BY item"))
