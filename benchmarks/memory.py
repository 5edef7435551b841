"""Memory of the driver: is it flat in the size of the batch, and in the size of the state?

    python -m benchmarks.memory [--sizes full] [--out DIR]

The driver's Python process is looked at, by the kernel's own high-water mark of its resident memory (``VmHWM``), which
is set back before each point. Its JVM is bounded by ``spark.driver.memory``, 1 GiB here, and no point needs more.
Updates are made by Spark (`benchmarks.feed.emit_updates`), so that nothing of the input is the benchmark's own memory.
SQLite's page cache is in it, and what filling the state has left behind in the same process.
"""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.command import run_part
from benchmarks.feed import UPDATES, Feed, FeedSpout, Scattered, emit_updates
from benchmarks.parts import Cell, Part, Table
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from trident_py import SQLiteState, Sum, TridentQuery, TridentTopology

KEYS = 1_000
"""In the state, while batches grow."""

ROWS = 1_000
"""In a batch, while the state grows."""

BATCHES = 5
MIB = 1 << 20


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Both."""
    with stage.session(LARGE) as spark:
        by_rows = {rows: peak_of(stage, spark, fill=KEYS, rows=rows) for rows in sizes.memory_rows}
        by_keys = {keys: peak_of(stage, spark, fill=keys, rows=ROWS) for keys in sizes.memory_keys}
    rows_of = [_row(f"{rows:,} rows a batch, {KEYS:,} keys", *peak) for rows, peak in by_rows.items()]
    keys_of = [_row(f"{keys:,} keys in the state, {ROWS:,} rows a batch", *peak) for keys, peak in by_keys.items()]
    numbers = {}
    if by_rows and by_keys:
        numbers = {
            "memory_mib_over_rows": growth([peak for _, peak in by_rows.values()]),
            "memory_mib_over_keys": growth([peak for _, peak in by_keys.values()]),
        }
    title = f"The driver's memory at its peak, over {BATCHES} batches"
    return Part(
        tables=[Table(title, [*rows_of, *keys_of])],
        numbers=numbers,
        notes=["filling means batches that meet every key of the state once: a change is up to a million keys"],
    )


def _row(what: str, filling: float, peak: float) -> dict[str, Cell]:
    return {"": what, "while filling the state, MiB": filling, "afterwards, MiB": peak}


def growth(peaks: list[float]) -> float:
    """How much more the last point needs than the first."""
    return peaks[-1] - peaks[0]


def peak_of(stage: Stage, spark: SparkSession, fill: int, rows: int) -> tuple[float, float]:
    """The peaks in MiB: while the state is filled with so many keys, and during batches of so many rows afterwards."""
    feed = Feed()
    with summing(stage, feed).start(stage.config(), spark=spark) as query:
        filling = _peak(feed, query, Scattered.filling(fill))
        return filling, _peak(feed, query, Scattered.batches(BATCHES, rows, fill))


def summing(stage: Stage, feed: Feed, name: str = "summing") -> TridentTopology:
    """A topology that sums updates by key into a new SQLite database."""
    topology = TridentTopology(name)
    rows = topology.new_stream("updates", FeedSpout(feed, UPDATES, emit_updates))
    state = SQLiteState(stage.scratch(name) / "sums.db", table="sums")
    rows.group_by("key").persistent_aggregate(state, Sum("amount"), "amount")
    return topology


def _peak(feed: Feed, query: TridentQuery, batches: list[Scattered]) -> float:
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")  # sets the mark back to what is resident now
    feed.hand_out(batches)
    query.process_all_available()
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024 / MIB


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("memory", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
