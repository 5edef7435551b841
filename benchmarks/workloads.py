"""What is computed: a workload says how its input is read, reduced to totals by key, and declared as a topology."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import define, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from benchmarks.feed import UPDATES, Feed, FeedSpout, emit_table
from benchmarks.sizes import LINE_WORDS, WORDS
from coordinators.values.batch_coordinator import CursorCoordinator
from trident_py import (
    Count,
    FileSpout,
    SQLiteState,
    Sum,
    TopologyContext,
    TridentCollector,
    TridentConfig,
    TridentQuery,
    TridentTopology,
)

Reader = DataFrameReader | DataStreamReader


@frozen
class Inputs:
    """Files, each of which is one batch; all have the same number of rows, and of bytes where they are text.

    Attributes:
        files: in the order in which they are processed; their directory holds no others.
        warm_up: how many of them come before the clock starts.
        rows: of each.
        total: what all totals come to.
    """

    files: tuple[Path, ...]
    warm_up: int
    rows: int
    total: int

    @property
    def directory(self) -> Path:
        """Where they are."""
        return self.files[0].parent

    @property
    def timed(self) -> int:
        """How many come after the warm-up."""
        return len(self.files) - self.warm_up


def text(directory: Path, files: int, lines: int, warm_up: int) -> Inputs:
    """Lines of random words, all of the same length."""
    chance = np.random.default_rng(1)
    words = pa.array([f"word{number:04}" for number in range(WORDS)])
    paths = [directory / f"{number:05}.txt" for number in range(files + warm_up)]
    for path in paths:
        columns = [words.take(pa.array(chance.integers(0, WORDS, lines))) for _ in range(LINE_WORDS)]
        found = pc.binary_join_element_wise(*columns, " ").to_pylist()
        path.write_text("".join(f"{line}\n" for line in found))
    return Inputs(tuple(paths), warm_up, lines, (files + warm_up) * lines * LINE_WORDS)


def updates(directory: Path, files: int, rows: int, keys: int, warm_up: int) -> Inputs:
    """Parquet files of keys and amounts, both random."""
    chance = np.random.default_rng(1)
    paths = [directory / f"{number:05}.parquet" for number in range(files + warm_up)]
    total = 0
    for path in paths:
        amounts = chance.integers(1, 100, rows)
        pq.write_table(pa.table({"key": chance.integers(0, keys, rows), "amount": amounts}), path)
        total += int(amounts.sum())
    return Inputs(tuple(paths), warm_up, rows, total)


class Workload(ABC):
    """The same work for everybody.

    Attributes:
        inputs: the files.
        column: where the topology keeps its totals.
        streams: whether Structured Streaming can do it.
    """

    column = "count"
    streams = True

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def read(self, spark: SparkSession, path: Path) -> DataFrame:
        """One file, by hand."""
        return self.source(spark.read, path)

    def emit(self, spark: SparkSession, txid: int, path: Path, collector: TridentCollector) -> None:
        """One file, for the spouts of those topologies whose batches Spark reads."""
        collector.emit_dataframe(self.read(spark, path))

    @abstractmethod
    def source(self, reader: Reader, path: Path) -> DataFrame:
        """A file, or all of a directory for a stream."""

    @abstractmethod
    def reduced(self, rows: DataFrame) -> DataFrame:
        """Totals by key, by hand: two columns."""

    @abstractmethod
    def declare(self, topology: TridentTopology, state: SQLiteState) -> Hand:
        """The same as users of trident_py write it."""


class Hand(ABC):
    """Lets a topology have its input in two portions, so that the clock can start between them."""

    @abstractmethod
    def first(self) -> None:
        """The files of the warm-up."""

    @abstractmethod
    def rest(self) -> None:
        """All others."""

    def seconds(self, query: TridentQuery) -> float:
        """How long a running topology takes for all but the files of the warm-up."""
        self.first()
        query.process_all_available()
        started = time.perf_counter()
        self.rest()
        query.process_all_available()
        return time.perf_counter() - started


@frozen
class FeedHand(Hand):
    """For a spout of ours."""

    feed: Feed
    inputs: Inputs
    batches: Sequence[Any]

    @classmethod
    def of_files(cls, inputs: Inputs) -> FeedHand:
        """A batch is the path of a file."""
        return cls(Feed(), inputs, inputs.files)

    def first(self) -> None:
        """Hand out the first batches."""
        self.feed.hand_out(self.batches[: self.inputs.warm_up])

    def rest(self) -> None:
        """Hand out all others."""
        self.feed.hand_out(self.batches[self.inputs.warm_up :])


class NativeWords(Workload):
    """Word count by Spark's own expressions: ``explode(split(value, ' '))``, then a count by word.

    By hand it is ``spark.read.text``; the topology's spout emits the same DataFrame, and ``transform`` splits it.
    """

    def source(self, reader: Reader, path: Path) -> DataFrame:
        """Lines."""
        return reader.schema("value string").text(str(path))

    def reduced(self, rows: DataFrame) -> DataFrame:
        """Words and how often each occurs."""
        return split(rows).groupBy("word").agg(F.count("*").alias("count"))

    def declare(self, topology: TridentTopology, state: SQLiteState) -> Hand:
        """A file of lines is a batch."""
        hand = FeedHand.of_files(self.inputs)
        lines = topology.new_stream("lines", FeedSpout(hand.feed, "value string", self.emit))
        lines.transform(split, "word string").group_by("word").persistent_aggregate(state, Count(), "count")
        return hand


def split(lines: DataFrame) -> DataFrame:
    """The words of lines."""
    return lines.select(F.explode(F.split("value", " ")).alias("word"))


class FileWords(NativeWords):
    """The same word count behind `FileSpout`, whose Python tasks read the file and give path and position of each line.

    Each batch has as many bytes as a file.
    """

    def declare(self, topology: TridentTopology, state: SQLiteState) -> Hand:
        """A transform, as by hand."""
        spout = GatedFileSpout.of(self.inputs)
        lines = topology.new_stream("lines", spout)
        lines.transform(split, "word string").group_by("word").persistent_aggregate(state, Count(), "count")
        return spout.gate


class PythonWords(NativeWords):
    """Word count whose splitting is a Python function over Arrow data; the count is Spark's.

    By hand it is ``spark.read.text`` and one ``mapInArrow`` that splits a whole batch of lines in one comprehension: no
    row objects, no check. The topology is the first program of the documentation: `FileSpout`, whose Python tasks read
    the file themselves and offer path and position beside each line, and ``flat_map`` with a lambda of one row.
    """

    def reduced(self, rows: DataFrame) -> DataFrame:
        """Words and how often each occurs."""
        return rows.mapInArrow(split_by_hand, "word string").groupBy("word").agg(F.count("*").alias("count"))

    def declare(self, topology: TridentTopology, state: SQLiteState) -> Hand:
        """Each batch has as many bytes as a file."""
        spout = GatedFileSpout.of(self.inputs)
        (
            topology.new_stream("lines", spout)
            .flat_map(lambda line: [(word,) for word in line.value.split()], "word string")
            .group_by("word")
            .persistent_aggregate(state, Count(), "count")
        )
        return spout.gate


def split_by_hand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the words of the first column."""
    for batch in batches:
        words = [word for line in batch.column(0).to_pylist() for word in line.split()]
        yield pa.RecordBatch.from_arrays([pa.array(words, pa.string())], names=["word"])


class Updates(Workload):
    """Keys and amounts from Parquet files, summed by key; all of it is Spark's own."""

    column = "amount"

    def source(self, reader: Reader, path: Path) -> DataFrame:
        """Updates."""
        return reader.schema(UPDATES).parquet(str(path))

    def reduced(self, rows: DataFrame) -> DataFrame:
        """The sum of each key."""
        return rows.groupBy("key").agg(F.sum("amount").alias("amount"))

    def declare(self, topology: TridentTopology, state: SQLiteState) -> Hand:
        """A file of updates is a batch."""
        hand = FeedHand.of_files(self.inputs)
        rows = topology.new_stream("updates", FeedSpout(hand.feed, UPDATES, self.emit))
        rows.group_by("key").persistent_aggregate(state, Sum("amount"), "amount")
        return hand


class DriverUpdates(Updates):
    """The same updates, which the driver has as Arrow tables: ``createDataFrame`` by hand, ``emit_arrow`` here.

    That call of Spark's is slow itself (100 000 rows a second), so a ratio of 1 is not yet what Arrow can carry.
    """

    streams = False

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.tables = {path: pq.read_table(path) for path in inputs.files}

    def read(self, spark: SparkSession, path: Path) -> DataFrame:
        """A table."""
        return spark.createDataFrame(self.tables[path], UPDATES)

    def declare(self, topology: TridentTopology, state: SQLiteState) -> Hand:
        """A table is a batch."""
        hand = FeedHand(Feed(), self.inputs, list(self.tables.values()))
        rows = topology.new_stream("updates", FeedSpout(hand.feed, UPDATES, emit_table))
        rows.group_by("key").persistent_aggregate(state, Sum("amount"), "amount")
        return hand


# --- the shipped spout, with a gate -----------------------------------------------------------------------------------


@define(eq=False)
class Gate(Hand):
    """The first transactions pass; all others wait until it is opened."""

    free: int
    opened: Event

    def first(self) -> None:
        """They pass in any case."""

    def rest(self) -> None:
        """Open it."""
        self.opened.set()

    def lets(self, txid: int) -> bool:
        """Whether this one passes."""
        return txid <= self.free or self.opened.is_set()


class GatedFileSpout(FileSpout):
    """`FileSpout`, except that what comes after the warm-up waits."""

    def __init__(self, glob: Path, max_bytes_per_batch: int, free: int, **options: Any) -> None:
        super().__init__(glob, max_bytes_per_batch, settled=timedelta(0), **options)
        self.gate = Gate(free, Event())

    @classmethod
    def of(cls, inputs: Inputs, **options: Any) -> GatedFileSpout:
        """A batch for each file; ``options`` are those of `FileSpout`."""
        size = min(path.stat().st_size for path in inputs.files)
        return cls(inputs.directory / "*", size, inputs.warm_up, **options)

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Any:
        """The spout's own, behind the gate."""
        return GatedCoordinator(super().get_coordinator(tx_state_id, conf, context), self.gate)


@define
class GatedCoordinator(CursorCoordinator[Any]):
    """Passes everything on, but is ready only where the gate lets it."""

    inner: CursorCoordinator[Any]
    gate: Gate

    def restore(self, cursors: Mapping[str, Any]) -> None:
        """Pass it on."""
        self.inner.restore(cursors)

    def moved(self, metadata: Any) -> Mapping[str, Any]:
        """Pass it on."""
        return self.inner.moved(metadata)

    def is_ready(self, txid: int) -> bool:
        """Whether the gate and the spout are."""
        return self.gate.lets(txid) and self.inner.is_ready(txid)

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        """Pass it on."""
        return self.inner.initialize_transaction(txid, prev_metadata, curr_metadata)
