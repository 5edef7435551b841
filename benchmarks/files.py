"""A grouped count over a folder of files: rows a second, compared with the file source of Structured Streaming.

    python -m benchmarks files [--sizes full] [--out DIR]

The rows are in Parquet and in CSV, three fields each, and are counted by one of them. A file is one batch for both.
Both keep the counts in SQLite, in one transaction for each batch, and their own records on the same disk.

- ``streaming``   ``readStream``, ``maxFilesPerTrigger=1``, a checkpoint, and the transaction in ``foreachBatch``
- ``trident_py``  a `FileSpout` and a `SQLiteState`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.command import run_part
from benchmarks.competitors import OURS, STREAMING, Course
from benchmarks.parts import Part, Table
from benchmarks.rates import rates
from benchmarks.rounds import race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from benchmarks.workloads import GatedFileSpout, Hand, Inputs, Reader, Workload
from trident_py import Count, SQLiteState, TridentTopology

FIELDS = "key bigint, amount bigint, note string"
KEYS = range(1_000, 2_000)
"""They and the other values have the same number of digits in each row, so files of CSV have the same size."""

SUFFIXES: Mapping[str, str] = {"parquet": "Parquet", "csv": "CSV"}


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Each format, both in turn."""
    if not sizes.file_rows:
        return Part()
    tables, numbers, spread = list[Table](), {}, {}
    with stage.session(LARGE) as spark:
        for kind, title in SUFFIXES.items():
            inputs = written(stage.scratch(kind), kind, sizes)
            course = Course(stage, spark, Counts(inputs, kind))
            results = race({STREAMING: course.streaming, OURS: course.trident}, sizes.rounds, STREAMING)
            tables.append(rates(f"{title} files, {inputs.rows:,} rows in each", inputs, results, STREAMING))
            name = f"files_{kind}_vs_streaming"
            numbers[name], spread[name] = results[OURS].ratio, results[OURS].ratio_spread
    return Part(tables=tables, numbers=numbers, spread=spread)


def written(directory: Path, kind: str, sizes: Sizes) -> Inputs:
    """Files of rows with random keys and amounts."""
    chance, rows = np.random.default_rng(1), sizes.file_rows
    paths = [directory / f"{number:05}.{kind}" for number in range(sizes.files + sizes.warm_up)]
    for path in paths:
        amounts = pa.array(chance.integers(100_000, 1_000_000, rows))
        keys = pa.array(chance.integers(KEYS.start, KEYS.stop, rows))
        table = pa.table({"key": keys, "amount": amounts, "note": pa.array(["note of a row"] * rows)})
        if kind == "csv":
            csv.write_csv(table, path, csv.WriteOptions(include_header=False))
        else:
            pq.write_table(table, path)
    return Inputs(tuple(paths), sizes.warm_up, rows, len(paths) * rows)


class Counts(Workload):
    """The number of rows of each key."""

    def __init__(self, inputs: Inputs, kind: str) -> None:
        super().__init__(inputs)
        self.kind = kind

    def source(self, reader: Reader, path: Path) -> DataFrame:
        """Rows of files."""
        return reader.schema(FIELDS).format(self.kind).load(str(path))

    def reduced(self, rows: DataFrame) -> DataFrame:
        """The count of each key."""
        return rows.groupBy("key").agg(F.count("*").alias("count"))

    def declare(self, topology: TridentTopology, state: SQLiteState) -> Hand:
        """A file is a batch."""
        spout = GatedFileSpout.of(self.inputs, format=self.kind, schema=FIELDS)
        topology.new_stream("rows", spout).group_by("key").persistent_aggregate(state, Count(), "count")
        return spout.gate


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("files", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
