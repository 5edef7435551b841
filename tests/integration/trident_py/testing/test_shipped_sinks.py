"""Sinks that are shipped keep what they promise: the kit kills and pauses them everywhere.

Tables are in the tests of their sinks: `test_sql_sink.py`, `test_delta_sink.py`, `test_iceberg_sink.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from trident_py import FileSink, ForeachBatchSink, SinkTransaction
from trident_py.testing import check_sink

pytestmark = pytest.mark.spark

SCHEMA = "word string, n bigint"


@pytest.mark.hours
def test_files_pass(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "words"

    def read() -> Sequence[tuple[Any, ...]]:
        lines = [line for file in path.glob("txid=*/[!_.]*.json") for line in file.read_text().splitlines()]
        return [(row["word"], row["n"]) for row in map(json.loads, lines)]

    report = check_sink(lambda: FileSink(path, format="json"), read, schema=SCHEMA)
    assert report.ok, str(report)


@pytest.mark.slow
def test_a_function_that_is_called_with_each_batch_passes_as_far_as_it_promises(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "rows"
    path.touch()

    def append(frame: DataFrame, tx: SinkTransaction) -> None:
        text = "".join(f"{json.dumps(tuple(row))}\n" for row in frame.collect())
        with path.open("a") as file:
            file.write(text)

    def read() -> Sequence[tuple[Any, ...]]:
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()]

    report = check_sink(lambda: ForeachBatchSink(append), read, schema=SCHEMA)
    assert report.ok, str(report)
    assert report.promise == "at-least-once"
