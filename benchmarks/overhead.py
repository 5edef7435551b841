"""What a transaction costs beyond its Spark job: the same word count four ways, side by side in one run.

    python -m benchmarks.overhead [--files 30] [--lines 20000] [--rounds 3] [--json FILE]

One text file is one batch. All four read it with Spark's own text reader and count its words with the same native
expressions, in one session with the same settings:

- ``bare``        the Spark job of a batch in a loop; its result is fetched and dropped
- ``trident 1``   a topology into `SQLiteState`, ``max_spout_pending=1``
- ``trident 4``   the same with 4
- ``streaming``   Structured Streaming, ``maxFilesPerTrigger=1``, ``foreachBatch`` into the same upsert into SQLite

Rounds alternate, so that whatever else the machine does hits all alike; medians are printed, and ratios to ``bare``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from attrs import define, field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from coordinators.attempt import TransactionAttempt
from coordinators.batch_coordinator import BatchCoordinator
from coordinators.embedded import EmbeddedZooKeeper
from trident_py.collector import TridentCollector
from trident_py.config import TridentConfig
from trident_py.context import TopologyContext
from trident_py.operations.builtin import Count
from trident_py.spouts.base import Emitter, ITridentSpout
from trident_py.states.sqlite import SQLiteState
from trident_py.topology import TridentTopology

WARM_UP = 5
"""Batches before the clock starts: Spark compiles its code, and Python workers and connections come up."""


@frozen
class Work:
    """What is counted: files of lines, some to warm up with."""

    directory: Path
    files: tuple[Path, ...]
    lines: int
    zookeeper: str

    @property
    def measured(self) -> int:
        """Files after the warm-up."""
        return len(self.files) - WARM_UP

    def scratch(self, name: str) -> Path:
        """An empty directory."""
        return Path(tempfile.mkdtemp(prefix=name, dir=self.directory))


def counted(lines: DataFrame) -> DataFrame:
    """The words of some lines and how often each occurs."""
    return lines.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").agg(F.count("*").alias("count"))


# --- the four ways: each gives the seconds that its measured files took -----------------------------------------------


def bare(spark: SparkSession, work: Work) -> tuple[float, dict[str, Any]]:
    """The Spark jobs alone."""
    started = 0.0
    for number, path in enumerate(work.files):
        if number == WARM_UP:
            started = time.perf_counter()
        counted(spark.read.text(str(path))).toArrow()
    return time.perf_counter() - started, {}


@define
class FileCoordinator(BatchCoordinator[Any]):
    """Batch t is file t; those after the warm-up wait for the gate."""

    files: int
    gate: threading.Event

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        """The file's number."""
        return txid - 1

    def is_ready(self, txid: int) -> bool:
        """Whether there is a file, and it may be counted."""
        return txid <= self.files and (txid <= WARM_UP or self.gate.is_set())


@define
class FileEmitter(Emitter[Any]):
    """Emits a file as Spark reads it."""

    spark: SparkSession
    files: tuple[Path, ...]

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: TridentCollector) -> None:
        """The lines of the file."""
        collector.emit_dataframe(self.spark.read.text(str(self.files[metadata])))


@define
class FilePerBatchSpout(ITridentSpout[Any]):
    """One file a batch."""

    files: tuple[Path, ...]
    gate: threading.Event = field(factory=threading.Event)
    output_schema = "value string"

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FileCoordinator:
        """Counts files."""
        return FileCoordinator(len(self.files), self.gate)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FileEmitter:
        """Reads files."""
        assert context.spark is not None
        return FileEmitter(context.spark, self.files)


def trident(pending: int) -> Callable[[SparkSession, Work], tuple[float, dict[str, Any]]]:
    """The topology, with so many transactions at once."""

    def run(spark: SparkSession, work: Work) -> tuple[float, dict[str, Any]]:
        scratch = work.scratch("trident")
        spout = FilePerBatchSpout(work.files)
        topology = TridentTopology("overhead")
        (
            topology.new_stream("files", spout)
            .transform(lambda lines: lines.select(F.explode(F.split("value", " ")).alias("word")), "word string")
            .group_by("word")
            .persistent_aggregate(SQLiteState(scratch / "counts.db", table="counts"), Count(), "count")
        )
        config = TridentConfig(max_spout_pending=pending, zookeeper=f"{work.zookeeper}/{scratch.name}")
        with topology.start(config, spark=spark) as query:
            query.process_all_available()
            writes = (query.last_progress or {})["zookeeper_writes"]
            started = time.perf_counter()
            spout.gate.set()
            query.process_all_available()
            seconds = time.perf_counter() - started
            progress = query.recent_progress
        written = progress[-1]["zookeeper_writes"] - writes
        return seconds, {"zookeeper_writes_per_transaction": round(written / work.measured, 2)}

    return run


def streaming(spark: SparkSession, work: Work) -> tuple[float, dict[str, Any]]:
    """Structured Streaming with the deduplication that users write by hand."""
    scratch = work.scratch("streaming")
    times: list[float] = []
    with closing(sqlite3.connect(scratch / "counts.db", isolation_level=None, check_same_thread=False)) as database:
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, count INTEGER) WITHOUT ROWID")
        database.execute("CREATE TABLE done (batch_id INTEGER PRIMARY KEY)")

        def upsert(batch: DataFrame, batch_id: int) -> None:
            counts = counted(batch).toArrow()
            database.execute("BEGIN IMMEDIATE")
            if database.execute("INSERT OR IGNORE INTO done VALUES (?)", (batch_id,)).rowcount:
                database.executemany(
                    "INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                    zip(*(column.to_pylist() for column in counts.columns), strict=True),
                )
            database.execute("COMMIT")
            times.append(time.perf_counter())

        query = (
            spark.readStream.schema("value string")
            .option("maxFilesPerTrigger", 1)
            .text(str(work.files[0].parent))
            .writeStream.foreachBatch(upsert)
            .option("checkpointLocation", str(scratch / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return times[-1] - times[WARM_UP - 1], {}


WAYS: dict[str, Callable[[SparkSession, Work], tuple[float, dict[str, Any]]]] = {
    "bare": bare,
    "trident 1": trident(1),
    "trident 4": trident(4),
    "streaming": streaming,
}

# --- the run ----------------------------------------------------------------------------------------------------------


def write_files(directory: Path, files: int, lines: int) -> tuple[Path, ...]:
    """Files of random lines: 7 words of 5 000, as in the other benchmarks."""
    chance = random.Random(1)  # noqa: S311 - the same input each time
    words = [f"word{number}" for number in range(5000)]
    directory.mkdir()
    paths = []
    for number in range(files):
        path = directory / f"{number:04}.txt"
        path.write_text("".join(" ".join(chance.choices(words, k=7)) + "\n" for _ in range(lines)))
        paths.append(path)
    return tuple(paths)


@contextmanager
def session() -> Iterator[SparkSession]:
    """One session for all ways."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.Builder()
        .master("local[*]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count()))
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


def measure(work: Work, rounds: int) -> dict[str, Any]:
    """Every way in each round; the order turns."""
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    extras: dict[str, dict[str, Any]] = {}
    with session() as spark:
        for number in range(rounds):
            names = list(WAYS)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                took, extras[name] = WAYS[name](spark, work)
                seconds[name].append(took)
    return {name: summary(took, seconds["bare"], work) | extras[name] for name, took in seconds.items()}


def summary(took: list[float], bare_took: list[float], work: Work) -> dict[str, Any]:
    """Medians of the rounds; the ratio is one of medians."""
    return {
        "transactions_per_second": round(work.measured / median(took), 2),
        "rows_per_second": round(work.measured * work.lines / median(took)),
        "milliseconds_per_transaction": round(1000 * median(took) / work.measured, 1),
        "spread": round(max(took) / min(took), 2),
        "time_relative_to_bare": round(median(took) / median(bare_took), 3),
    }


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    lines = [f"{'':12}{'tx/s':>9}{'rows/s':>11}{'ms/tx':>9}{'vs bare':>9}{'spread':>8}{'zk writes/tx':>14}"]
    for name, row in results.items():
        lines.append(
            f"{name:12}{row['transactions_per_second']:9.2f}{row['rows_per_second']:11d}"
            f"{row['milliseconds_per_transaction']:9.1f}{row['time_relative_to_bare']:9.2f}{row['spread']:8.2f}"
            f"{row.get('zookeeper_writes_per_transaction', ''):>14}"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and as the last line everything as JSON."""
    parser = argparse.ArgumentParser(description="What a transaction costs beyond its Spark job.")
    parser.add_argument("--files", type=int, default=30, help="batches that are measured")
    parser.add_argument("--lines", type=int, default=20_000, help="lines of each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the JSON here")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING)
    directory = Path(tempfile.mkdtemp(prefix="trident-overhead-"))
    try:
        files = write_files(directory / "input", arguments.files + WARM_UP, arguments.lines)
        with EmbeddedZooKeeper.running(directory / "zookeeper") as server:
            results = measure(Work(directory, files, arguments.lines, server.hosts), arguments.rounds)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "batches": arguments.files,
        "lines_per_batch": arguments.lines,
        "rounds": arguments.rounds,
        "results": results,
    }
    print(table(results))
    print(json.dumps(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
