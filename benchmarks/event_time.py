"""Windows by event time: rows a second beside Structured Streaming with RocksDB, the checkpoint on the same disk.

    python -m benchmarks windows [--sizes full] [--out DIR]

Sums by key in windows of ten seconds, added to totals in SQLite when a window fires. A file is one batch. It has the
rows of as many milliseconds, and the watermark is five seconds behind.

- ``streaming``               ``withWatermark`` and ``groupBy(window(…), key)`` in append mode, whose results
                              ``foreachBatch`` adds in one SQLite transaction. It drops late rows and tells nobody
- ``trident_py``              a topology in which nothing reads late rows
- ``trident_py, late rows``   one that writes late rows to a table: all rows come to the driver
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.command import run_part
from benchmarks.competitors import OURS, STREAMING, Laps
from benchmarks.feed import FeedSpout
from benchmarks.parts import Part
from benchmarks.rates import rates
from benchmarks.rounds import race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from benchmarks.totals import Totals, total
from benchmarks.workloads import FeedHand, Inputs
from trident_py import SQLiteState, SQLSink, Sum, TridentCollector, TridentTopology
from trident_py.windows import TumblingDuration

FIELDS = "key bigint, amount bigint, at timestamp"
WINDOW_SECONDS, DELAY_SECONDS = 10, 5
START_MICROS = 1_714_500_000_000_000
MICROS_A_ROW = 1_000

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # so that a lap is a file
}
LATE_ROWS = f"{OURS}, late rows"


def measure(stage: Stage, sizes: Sizes) -> Part:
    """All three in turn."""
    if not sizes.window_rows:
        return Part()
    inputs = events(stage.scratch("events"), sizes)
    with stage.session({**LARGE, **ROCKSDB}) as spark:
        course = Windows(stage, spark, inputs)
        results = race(course.competitors(), sizes.rounds, STREAMING)
    title = f"sums of {sizes.window_keys:,} keys in windows by event time, {inputs.rows:,} rows a batch"
    ours = {"windows_vs_streaming": results[OURS], "windows_with_late_rows_vs_streaming": results[LATE_ROWS]}
    return Part(
        tables=[rates(title, inputs, results, STREAMING)],
        numbers={name: result.ratio for name, result in ours.items()},
        spread={name: result.ratio_spread for name, result in ours.items()},
    )


def events(directory: Path, sizes: Sizes) -> Inputs:
    """Parquet files of rows in the order of their times, with random keys and amounts."""
    chance, rows = np.random.default_rng(1), sizes.window_rows
    paths = [directory / f"{number:05}.parquet" for number in range(sizes.files + sizes.warm_up)]
    for number, path in enumerate(paths):
        micros = START_MICROS + MICROS_A_ROW * np.arange(number * rows, (number + 1) * rows)
        columns = {
            "key": chance.integers(0, sizes.window_keys, rows),
            "amount": np.ones(rows, dtype=np.int64),
            "at": pa.array(micros, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(columns), path)
    return Inputs(tuple(paths), sizes.warm_up, rows, len(paths) * rows)


@frozen
class Windows:
    """The competitors.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session of all of them.
        inputs: files of events.
    """

    stage: Stage
    spark: SparkSession
    inputs: Inputs

    def competitors(self) -> dict[str, Callable[[], float]]:
        """By name."""
        return {STREAMING: self.streaming, OURS: self.trident, LATE_ROWS: lambda: self.trident(reads_late=True)}

    def trident(self, *, reads_late: bool = False) -> float:
        """A topology."""
        scratch = self.stage.scratch("trident")
        hand, topology = FeedHand.of_files(self.inputs), TridentTopology("benchmark")
        rows = topology.new_stream("events", FeedSpout(hand.feed, FIELDS, self._emit)).group_by("key")
        fired = rows.window(
            TumblingDuration(WINDOW_SECONDS),
            ["amount"],
            Sum("amount"),
            "amount",
            timestamp="at",
            watermark=timedelta(seconds=DELAY_SECONDS),
            store=SQLiteState(scratch / "windows.db", table="windows"),
        )
        totals = SQLiteState(scratch / "totals.db", table="totals")
        fired.group_by("key").persistent_aggregate(totals, Sum("amount"), "amount")
        if reads_late:
            fired.late_rows().name("late").write_to(SQLSink(f"sqlite:///{scratch / 'late.db'}", "late"))
        with topology.start(self.stage.config(None), spark=self.spark) as query:
            seconds = hand.seconds(query)
        self._check(total(scratch / "totals.db", "totals", "amount"), behind=0)
        return seconds

    def streaming(self) -> float:
        """The streaming query."""
        clock, scratch = Laps(self.inputs.warm_up), self.stage.scratch("streaming")
        with Totals.opened(scratch / "totals.db") as totals:

            def upsert(batch: DataFrame, number: int) -> None:
                totals.add(number, batch.groupBy("key").agg(F.sum("amount")).toArrow())
                clock.lap()

            files = self.spark.readStream.option("maxFilesPerTrigger", 1).schema(FIELDS)
            rows = files.parquet(str(self.inputs.directory)).withWatermark("at", f"{DELAY_SECONDS} seconds")
            spans = rows.groupBy(F.window("at", f"{WINDOW_SECONDS} seconds"), "key").agg(
                F.sum("amount").alias("amount")
            )
            writer = spans.writeStream.outputMode("append").foreachBatch(upsert)
            writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
            writer.trigger(availableNow=True).start().awaitTermination()
        self._check(total(scratch / "totals.db", "totals", "total"), behind=1)
        return clock.seconds

    def _emit(self, spark: SparkSession, txid: int, path: Path, collector: TridentCollector) -> None:
        collector.emit_dataframe(spark.read.schema(FIELDS).parquet(str(path)))

    def _check(self, found: int, *, behind: int) -> None:
        """Check that all windows have fired that end before the watermark of the last batch, or of one ``behind``."""
        rows = (len(self.inputs.files) - behind) * self.inputs.rows
        newest = START_MICROS + MICROS_A_ROW * (rows - 1)
        window = WINDOW_SECONDS * 1_000_000
        end = (newest - DELAY_SECONDS * 1_000_000) // window * window
        expected = max(0, (end - START_MICROS) // MICROS_A_ROW)
        assert found in (expected, expected or None), f"{found} instead of {expected}"


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("windows", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
