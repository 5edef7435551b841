"""A source of any number of partitions, each read by Spark tasks; it gives the same rows for each."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa

from trident_py import TopologyContext, TransactionAttempt, TridentCollector, TridentConfig
from trident_py.spouts import IPartitionedTridentSpout, PartitionedCoordinator, PartitionedEmitter

Split = list[int]
"""The first number of a batch, and the one after its last."""


class ManyPartitions(IPartitionedTridentSpout[list[str], str, Split]):
    """Batches of ``rows`` updates from each of ``partitions``, as many batches as are allowed.

    Args:
        partitions: how many.
        rows: of each, in a batch.
    """

    output_schema = "key bigint, amount bigint"

    def __init__(self, partitions: int, rows: int) -> None:
        self.partitions = [f"p{number:04}" for number in range(partitions)]
        self.rows = rows
        self.allowed = 0

    def allow(self, batches: int) -> None:
        """So many batches in all."""
        self.allowed = batches

    def get_coordinator(self, conf: TridentConfig, context: TopologyContext) -> PartitionedCoordinator[list[str]]:
        """Knows the partitions."""
        return Counting(self)

    def get_emitter(self, conf: TridentConfig, context: TopologyContext) -> PartitionedEmitter[list[str], str, Split]:
        """Emits."""
        return Numbers(self.rows)


class Counting(PartitionedCoordinator[list[str]]):
    """Ready as long as the spout allows it."""

    def __init__(self, spout: ManyPartitions) -> None:
        self.spout = spout

    def get_partitions_for_batch(self) -> list[str]:
        """Always the same."""
        return self.spout.partitions

    def is_ready(self, txid: int) -> bool:
        """Whether this one is allowed."""
        return txid <= self.spout.allowed


class Numbers(PartitionedEmitter[list[str], str, Split]):
    """Numbers that go on from batch to batch."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def emit_batch_new(
        self,
        tx: TransactionAttempt,
        collector: TridentCollector,
        partitions: AbstractSet[str],
        last_partition_meta_map: Mapping[str, Any],
    ) -> Mapping[str, Split]:
        """The next rows of each partition."""
        splits = {}
        for partition in partitions:
            first = last_partition_meta_map.get(partition, [0, 0])[1]
            splits[partition] = [first, first + self.rows]
            self.re_emit_partition_batch(tx, collector, partition, splits[partition])
        return splits

    def re_emit_partition_batch(
        self, tx: TransactionAttempt, collector: TridentCollector, partition: str, partition_meta: Split
    ) -> None:
        """The same rows again."""
        keys = list(range(*partition_meta))
        collector.emit_arrow(pa.table({"key": keys, "amount": [1] * len(keys)}))
