"""Windows by event time on real Spark and ZooKeeper: what fires is Spark's answer over all rows that are not late."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from tests.integration.trident_py import event_time_program
from tests.integration.trident_py.dying import run_over_kills
from tests.integration.trident_py.event_time_program import LAST, SCHEMA, UNREAD, WINDOWS, declare, rows
from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, Failing, config, select
from trident_py import FixedBatchSpout, SQLSink, TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]

__all__ = ["config"]

SPANS = {
    "tumbling": lambda: F.window("at", "10 seconds"),
    "sliding": lambda: F.window("at", "20 seconds", "5 seconds"),
    "sessions": lambda: F.session_window("at", "4 seconds"),
}


def answer(frame: DataFrame, span: Column) -> set[tuple[Any, ...]]:
    """Spark's answer; without the windows of the last row, which are open."""
    found = frame.groupBy("device", span.alias("span")).agg(F.sum("n").alias("total"))
    texts = [F.date_format(F.col(f"span.{end}"), "yyyy-MM-dd HH:mm:ss.SSSSSS") for end in ("start", "end")]
    return {tuple(row) for row in found.where("device <> 'z'").select("device", "total", *texts).collect()}


def fired(directory: Path, name: str) -> list[tuple[Any, ...]]:
    found = select(directory / "fired.db", f"SELECT device, total, start, end, count FROM {name}_fired")  # noqa: S608 - ours
    assert {count for *_, count in found} == {1}
    return [row[:-1] for row in found]


def check(spark: SparkSession, directory: Path, given: Sequence[tuple[Any, ...]], name: str) -> None:
    late = select(directory / "late.db", f"SELECT n, count FROM {name}_late")  # noqa: S608 - ours
    assert {count for _, count in late} == {1}
    numbers = {n for n, _ in late}
    assert {n for _, n, at in given if at is None} < numbers, "some are late too"
    assert len(numbers) < len(given) / 3
    kept = spark.createDataFrame([row for row in given if row[1] not in numbers], SCHEMA)
    assert {
        (device, total, *(text_of(at) for at in span)) for device, total, *span in fired(directory, name)
    } == answer(kept, SPANS[name]())


def text_of(at: str) -> str:
    return f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M:%S.%f}"


def test_windows_are_those_of_spark_over_the_rows_that_are_not_late_over_failures_and_a_restart(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    given, failing = rows(300), Failing({2, 4, 7, 11})
    for upto in (165, None):
        topology = TridentTopology("event-time")
        stream = topology.new_stream("readings", FixedBatchSpout(SCHEMA, 15, *given[:upto]))
        by_spark = stream.transform(lambda frame: frame.where("n >= 0"), SCHEMA)
        windows = declare(topology, by_spark, tmp_path, lambda: None)
        windows["sliding"].partition_persist(failing, failing, ["total"])
        windows["tumbling"].late_rows().name("log").write_to(SQLSink(f"sqlite:///{tmp_path / 'log.db'}", "log"))
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert failing.failed == failing.fails
    for name in WINDOWS:
        check(spark, tmp_path, given, name)
    assert sorted(fired(tmp_path, UNREAD)) == sorted(fired(tmp_path, "tumbling"))
    logged = [n for (n,) in select(tmp_path / "log.db", "SELECT n FROM log ORDER BY n")]
    assert logged == [n for (n,) in select(tmp_path / "late.db", "SELECT n FROM tumbling_late ORDER BY n")]


def test_windows_are_those_of_spark_over_kills_in_the_middle_of_commits(
    spark: SparkSession, zookeeper: str, tmp_path: Path
) -> None:
    """A kill comes after the commit of a window, and before those of what follows from it."""
    run_over_kills(event_time_program.__file__, zookeeper, tmp_path, (1, 5, 30, 60))
    for name in WINDOWS:
        check(spark, tmp_path, rows(400), name)
    assert sorted(fired(tmp_path, UNREAD)) == sorted(fired(tmp_path, "tumbling"))


def test_the_last_row_is_far_enough() -> None:
    assert all(LAST - at > timedelta(minutes=1) for *_, at in rows(400)[:-1] if at is not None)
