"""A spout whose batches the benchmark hands out, which notes when each was emitted and when it had succeeded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from trident_py import TopologyContext, TransactionAttempt, TridentCollector, TridentConfig
from trident_py.spouts import BatchCoordinator, Emitter, ITridentSpout

Emit = Callable[[SparkSession, int, Any, TridentCollector], None]
"""Emits the batch of a txid, given what was handed out for it."""

UPDATES = "key bigint, amount bigint"
SCATTER = 15_485_863
"""A prime, so that as many rows as there are keys meet each key once."""

FILLING_ROWS = 1_000_000


@frozen
class Scattered:
    """Updates by 1, scattered over keys.

    Attributes:
        first: the number of the first update.
        rows: how many there are.
        keys: how many keys there are.
    """

    first: int
    rows: int
    keys: int

    def frame(self, spark: SparkSession) -> DataFrame:
        """The updates, made by Spark."""
        key = F.pmod(F.col("id") * SCATTER, F.lit(self.keys))
        rows = spark.range(self.first, self.first + self.rows)
        return rows.select(key.alias("key"), F.lit(1).cast("bigint").alias("amount"))

    @classmethod
    def batches(cls, count: int, rows: int, keys: int) -> list[Scattered]:
        """Batches that follow each other."""
        return [cls(number * rows, rows, keys) for number in range(count)]

    @classmethod
    def filling(cls, keys: int) -> list[Scattered]:
        """Batches that together meet each key once."""
        return [cls(first, min(FILLING_ROWS, keys - first), keys) for first in range(0, keys, FILLING_ROWS)]


@define(eq=False)
class Feed:
    """What was handed out so far; batch t of the topology is the t-th.

    Attributes:
        batches: what each consists of; the coordinator is ready as long as there are more of them than transactions.
        emitted: by txid, when the emitter was called.
        succeeded: by txid, when it was told of the success.
    """

    batches: list[Any] = field(factory=list)
    emitted: dict[int, float] = field(factory=dict)
    succeeded: dict[int, float] = field(factory=dict)

    def hand_out(self, batches: Iterable[Any]) -> None:
        """More of them."""
        self.batches += batches

    def latencies(self, first: int) -> list[float]:
        """Seconds from emission to success, of all transactions from ``first`` on."""
        return [at - self.emitted[txid] for txid, at in sorted(self.succeeded.items()) if txid >= first]

    def steps(self, first: int) -> list[float]:
        """Seconds from one success to the next, of all transactions from ``first`` on."""
        times = [at for txid, at in sorted(self.succeeded.items()) if txid >= first - 1]
        return [after - before for before, after in pairwise(times)]


@define(eq=False)
class FeedSpout(ITridentSpout[int]):
    """An exact spout; its metadata is the txid."""

    feed: Feed
    output_schema: str
    emit: Emit

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> BatchCoordinator[int]:
        """Ready as long as something was handed out."""
        return FeedCoordinator(self.feed)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[int]:
        """Emits what was handed out."""
        assert context.spark is not None
        return FeedEmitter(self.feed, self.emit, context.spark)


@define
class FeedCoordinator(BatchCoordinator[int]):
    """Batch t is the t-th."""

    feed: Feed

    def is_ready(self, txid: int) -> bool:
        """Whether it was handed out."""
        return txid <= len(self.feed.batches)

    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        """The txid says it all."""
        return txid


@define
class FeedEmitter(Emitter[int]):
    """Emits, and looks at the clock."""

    feed: Feed
    emit: Emit
    spark: SparkSession

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        """Emit the batch."""
        self.feed.emitted[metadata] = time.perf_counter()
        self.emit(self.spark, metadata, self.feed.batches[metadata - 1], collector)

    def success(self, attempt: TransactionAttempt) -> None:
        """Note the time."""
        self.feed.succeeded[attempt.txid] = time.perf_counter()


# --- what there is to emit --------------------------------------------------------------------------------------------


def emit_rows(spark: SparkSession, txid: int, batch: Sequence[Sequence[Any]], collector: TridentCollector) -> None:
    """Rows, one by one, as a spout of few rows does."""
    for row in batch:
        collector.emit(row)


def emit_table(spark: SparkSession, txid: int, batch: pa.Table, collector: TridentCollector) -> None:
    """Rows that the driver has as Arrow data."""
    collector.emit_arrow(batch)


def emit_updates(spark: SparkSession, txid: int, batch: Scattered, collector: TridentCollector) -> None:
    """Updates that Spark makes itself."""
    collector.emit_dataframe(batch.frame(spark))
