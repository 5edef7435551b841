"""Functions with timers on real Spark and ZooKeeper: visits are Spark's sessions over all rows that are not late."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from tests.integration.trident_py import keyed_program
from tests.integration.trident_py.dying import run_over_kills
from tests.integration.trident_py.event_time_program import SCHEMA, rows
from tests.integration.trident_py.keyed_program import declare
from tests.integration.trident_py.test_event_time import answer, fired
from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, ROOT, Failing, config, select
from trident_py import FixedBatchSpout, SQLSink, TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]

__all__ = ["config"]


def check(spark: SparkSession, directory: Path, given: Sequence[tuple[Any, ...]]) -> None:
    late = select(directory / "late.db", "SELECT n, count FROM visits_late")
    assert {count for _, count in late} == {1}
    numbers = {n for n, _ in late}
    assert {n for _, n, at in given if at is None} < numbers, "some are late too"
    assert len(numbers) < len(given) / 3
    kept = spark.createDataFrame([row for row in given if row[1] not in numbers], SCHEMA)
    found = {
        (device, total, *(each[:26].replace("T", " ") for each in span))
        for device, total, *span in fired(directory, "visits")
    }
    assert found == answer(kept, F.session_window("at", "4 seconds"))


def test_visits_are_sessions_of_spark_over_failures_and_a_restart(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    given, failing = rows(300), Failing({2, 4, 7, 11})
    for upto in (165, None):
        topology = TridentTopology("keyed")
        stream = topology.new_stream("readings", FixedBatchSpout(SCHEMA, 15, *given[:upto]))
        by_spark = stream.transform(lambda frame: frame.where("n >= 0"), SCHEMA)
        visits = declare(by_spark, tmp_path, lambda: None)
        visits.partition_persist(failing, failing, ["total"])
        visits.late_rows().name("log").write_to(SQLSink(f"sqlite:///{tmp_path / 'log.db'}", "log"))
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert failing.failed == failing.fails
    check(spark, tmp_path, given)
    logged = [n for (n,) in select(tmp_path / "log.db", "SELECT n FROM log ORDER BY n")]
    assert logged == [n for (n,) in select(tmp_path / "late.db", "SELECT n FROM visits_late ORDER BY n")]


def test_visits_are_sessions_of_spark_over_kills_in_the_middle_of_commits(
    spark: SparkSession, zookeeper: str, tmp_path: Path
) -> None:
    """A kill comes after the commit of the function's state, and before those of what follows from it."""
    run_over_kills(keyed_program.__file__, zookeeper, tmp_path, (1, 5, 30, 60))
    check(spark, tmp_path, rows(400))


def test_the_example_tells_which_devices_are_silent_over_restarts(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readings").mkdir()
    topology = runpy.run_path(str(ROOT / "examples" / "silent_devices.py"))["topology"]
    for name, lines in (
        ("1", ["boiler 00", "pump 01", "boiler 03", "fan 20"]),
        ("2", ["boiler 21", "fan 24", "fan 31"]),
    ):
        text = "".join("{},2024-05-01T12:{}:00+00:00\n".format(*line.split()) for line in lines)
        (tmp_path / "readings" / f"{name}.csv").write_text(text)
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    query = "SELECT device, substr(down_at, 12, 5), substr(up_at, 12, 5) FROM outages ORDER BY down_at"
    assert select(tmp_path / "devices.db", query) == [
        *[("pump", "12:06", None), ("boiler", "12:08", "12:21"), ("boiler", "12:26", None), ("fan", "12:29", "12:31")]
    ]
