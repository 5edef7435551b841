"""Sinks: what exactly-once costs beside the bare write of each store's library.

    python -m benchmarks sinks [--sizes full] [--out DIR]

Both write the same rows, kept in memory by Spark, a batch at a time: by hand in a loop, as the library's manual says,
and as a topology with our sink. `benchmarks.stores` has the stores.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from functools import partial

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.competitors import OURS, Laps
from benchmarks.feed import Feed, FeedSpout
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import Measured, race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, SMALL, Stage
from benchmarks.stores import KINDS, Stores
from trident_py import TridentCollector, TridentTopology

BY_HAND = "by hand"
SCHEMA = "id bigint, word string, amount double"
KAFKA_SCHEMA = "key string, value string"
FEW = 10

log = logging.getLogger("benchmarks")


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Large batches, then small ones."""
    stores = Stores(stage)
    with stores.running():
        with stage.session(LARGE) as spark:
            large = raced(Course(stage, spark, stores, sizes.sink_rows, sizes.sink_batches), sizes)
        with stage.session(SMALL) as spark:
            small = raced(Course(stage, spark, stores, FEW, sizes.sink_few), sizes)
    return Part(
        tables=[large_table(large, sizes), small_table(small, sizes)],
        numbers={
            **{f"sink_{name.lower()}_vs_bare": found[OURS].ratio for name, found in large.items()},
            **{f"sink_{name.lower()}_few_ms": beyond(found, sizes) for name, found in small.items()},
        },
        spread={f"sink_{name.lower()}_vs_bare": found[OURS].ratio_spread for name, found in large.items()},
        notes=[*(f"{name} by hand: {KINDS[name].by_hand}" for name in large), *stores.missing],
    )


@frozen
class Course:
    """Where both meet.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session of both.
        stores: what they write to.
        rows: of a batch.
        batches: that are timed; one comes before the clock starts.
    """

    stage: Stage
    spark: SparkSession
    stores: Stores
    rows: int
    batches: int

    def frame(self) -> DataFrame:
        """A batch."""
        word = F.concat(F.lit("word"), F.pmod(F.col("id") * 15_485_863, F.lit(5_000)))
        return self.spark.range(self.rows).select("id", word.alias("word"), F.rand(1).alias("amount")).cache()

    def by_hand(self, name: str, frame: DataFrame) -> float:
        """One batch after the other."""
        clock = Laps(1)
        with closing(self.stores.new(name)) as store:
            for _ in range(self.batches + 1):
                store.write(frame)
                clock.lap()
            self._check(store.rows())
        return clock.seconds

    def ours(self, name: str, frame: DataFrame) -> float:
        """A topology."""
        feed, topology = Feed(), TridentTopology("benchmark")
        is_kafka = name == "Kafka"
        given = frame.selectExpr("word AS key", "CAST(amount AS string) AS value") if is_kafka else frame

        def emit(spark: SparkSession, txid: int, batch: DataFrame, collector: TridentCollector) -> None:
            collector.emit_dataframe(batch)

        with closing(self.stores.new(name)) as store:
            stream = topology.new_stream("rows", FeedSpout(feed, KAFKA_SCHEMA if is_kafka else SCHEMA, emit))
            stream.write_to(store.sink())
            with topology.start(self.stage.config(), spark=self.spark) as query:
                feed.hand_out([given])
                query.process_all_available()
                began = time.perf_counter()
                feed.hand_out([given] * self.batches)
                query.process_all_available()
                seconds = time.perf_counter() - began
            self._check(store.rows())
        return seconds

    def _check(self, found: int) -> None:
        wanted = self.rows * (self.batches + 1)
        assert found == wanted, f"{found} rows instead of {wanted}"


def raced(course: Course, sizes: Sizes) -> dict[str, dict[str, Measured]]:
    """Each store, both in turns."""
    frame, found = course.frame(), {}
    frame.count()
    for name in course.stores.names:
        log.info("sinks: %s, %s rows a batch …", name, f"{course.rows:,}")
        both = {BY_HAND: partial(course.by_hand, name, frame), OURS: partial(course.ours, name, frame)}
        found[name] = race(both, sizes.rounds, BY_HAND)
    return found


def large_table(results: dict[str, dict[str, Measured]], sizes: Sizes) -> Table:
    """Rows a second, and how they compare."""
    rows = sizes.sink_rows * sizes.sink_batches
    found: list[dict[str, Cell]] = [
        {
            "": name,
            "by hand, rows/s": rows / both[BY_HAND].median,
            "trident_py, rows/s": rows / both[OURS].median,
            "× by hand": both[OURS].ratio,
            "spread": both[OURS].ratio_spread,
        }
        for name, both in results.items()
    ]
    return Table(f"Sinks, {sizes.sink_rows:,} rows a batch", found)


def small_table(results: dict[str, dict[str, Measured]], sizes: Sizes) -> Table:
    """Milliseconds a batch."""
    found: list[dict[str, Cell]] = [
        {
            "": name,
            "by hand, ms": 1000 * both[BY_HAND].median / sizes.sink_few,
            "trident_py, ms": 1000 * both[OURS].median / sizes.sink_few,
            "difference, ms": beyond(both, sizes),
        }
        for name, both in results.items()
    ]
    return Table(f"Sinks, {FEW} rows a batch", found)


def beyond(both: dict[str, Measured], sizes: Sizes) -> float:
    """How many ms a transaction of ours takes longer than a batch by hand."""
    return 1000 * (both[OURS].median - both[BY_HAND].median) / sizes.sink_few
