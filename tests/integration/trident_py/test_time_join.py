"""Joins over time on real Spark and ZooKeeper: what comes out is Spark's join of all rows that are not late."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from tests.integration.trident_py import time_join_program
from tests.integration.trident_py.dying import run_over_kills
from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, ROOT, Failing, config, select
from tests.integration.trident_py.time_join_program import HOWS, LEFT, RIGHT, START, WITHIN, declare, sides
from trident_py import Count, FixedBatchSpout, SQLiteState, SQLSink, TridentConfig, TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]

__all__ = ["config"]


def answer(spark: SparkSession, lefts: Sequence[Any], rights: Sequence[Any], how: str) -> list[tuple[Any, ...]]:
    """Spark's own join of all rows."""
    left, right = spark.createDataFrame(lefts, LEFT).alias("l"), spark.createDataFrame(rights, RIGHT).alias("r")
    apart = F.abs(F.unix_micros("l.at") - F.unix_micros("r.at"))
    on = (F.col("l.id") == F.col("r.id")) & (apart <= WITHIN.total_seconds() * 1_000_000)
    found = left.join(right, on, how).select(F.coalesce("l.id", "r.id"), "n", "m")
    return sorted(map(tuple, found.collect()), key=str)


def check(spark: SparkSession, directory: Path, number: int, how: str) -> None:
    lefts, rights = sides(number)
    late = select(directory / "late.db", f"SELECT side, number, count FROM {how}_late")  # noqa: S608 - ours
    assert {count for *_, count in late} == {1}
    refused = {(side, found) for side, found, _ in late}
    assert {("left", n) for _, n, at in lefts if at is None} < refused, "some are late too"
    assert len(refused) < len(lefts) / 2
    kept = [row for row in lefts if ("left", row[1]) not in refused]
    others = [row for row in rights if ("right", row[1]) not in refused]
    joined = select(directory / "joined.db", f"SELECT id, n, m, count FROM {how}_joined")  # noqa: S608 - ours
    assert {count for *_, count in joined} == {1}
    assert sorted((row[:-1] for row in joined), key=str) == answer(spark, kept, others, how)


def test_joins_over_time_are_those_of_spark_over_failures_and_a_restart(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    (lefts, rights), failing = sides(300), Failing({2, 4, 7, 11})
    for upto in (165, None):
        topology = TridentTopology("time-join")
        left = topology.new_stream("lefts", FixedBatchSpout(LEFT, 15, *lefts[:upto]))
        right = topology.new_stream("rights", FixedBatchSpout(RIGHT, 15, *rights[:upto]))
        by_spark = left.transform(lambda frame: frame.where("n >= 0"), LEFT)
        joins = declare(topology, by_spark, right, tmp_path, lambda: None)
        joins["outer"].partition_persist(failing, failing, ["n"])
        joins["inner"].transform(lambda frame: frame.select("n", "m")).name("log").write_to(
            SQLSink(f"sqlite:///{tmp_path / 'log.db'}", "log")
        )
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert failing.failed == failing.fails
    for how in HOWS:
        check(spark, tmp_path, 300, how)
    logged = select(tmp_path / "log.db", "SELECT n, m FROM log ORDER BY n, m")
    assert logged == select(tmp_path / "joined.db", "SELECT n, m FROM inner_joined ORDER BY n, m")


def test_joins_over_time_are_those_of_spark_over_kills_in_the_middle_of_commits(
    spark: SparkSession, zookeeper: str, tmp_path: Path
) -> None:
    """A kill comes after the commit of a join, and before those of what follows from it."""
    run_over_kills(time_join_program.__file__, zookeeper, tmp_path, (1, 5, 30, 150))
    for how in HOWS:
        check(spark, tmp_path, 400, how)


def test_rows_keep_all_types_also_if_only_spark_knows_the_fields_of_a_side(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    left = "id string NOT NULL, at timestamp NOT NULL, s struct<a:int,b:array<string>>, m map<string,int>"
    right = "id string NOT NULL, at timestamp NOT NULL, n int NOT NULL, d decimal(10,2)"
    topology = TridentTopology("types")
    lefts = [("a", START, (1, ["x", None]), {"k": None}), ("b", START, None, None)]
    rights = [("c", START, 1, None), ("a", START, 2, Decimal("1.50"))]
    joined = topology.join(
        topology.new_stream("lefts", FixedBatchSpout(left, 1, *lefts)).transform(lambda frame: frame),
        "id",
        topology.new_stream("rights", FixedBatchSpout(right, 1, *rights)).map(tuple, right),
        "id",
        ["id", "left_at", "s", "m", "right_at", "n", "d"],
        within=timedelta(0),
        timestamps=("at", "at"),
        watermark=timedelta(0),
    )
    texts = joined.map(lambda row: (str(row[2:4] + row[5:]),), "text string")
    texts.group_by("text").persistent_aggregate(SQLiteState(tmp_path / "texts.db", table="texts"), Count(), "count")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    expected = "(Row(a=1, b=['x', None]), {'k': None}, 2, Decimal('1.50'))"
    assert select(tmp_path / "texts.db", "SELECT text, count FROM texts") == [(expected, 1)]


def test_the_example_joins_clicks_with_impressions_of_other_batches(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = (
        (
            "impressions/1",
            ["2024-05-01T12:00:00Z i1 tea", "2024-05-01T12:01:00Z i2 jam", "2024-05-01T12:01:10Z i3 tea"],
        ),
        ("clicks/1", ["2024-05-01T12:04:00Z i1"]),
        ("clicks/2", ["2024-05-01T12:12:30Z i9", "2024-05-01T12:03:30Z i2"]),
        ("clicks/3", ["2024-05-01T12:11:00Z i1"]),
    )
    for folder in ("impressions", "clicks"):
        (tmp_path / folder).mkdir()
    topology = runpy.run_path(str(ROOT / "examples" / "clicks.py"))["topology"]
    for name, lines in given:
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    found = select(tmp_path / "ads.db", "SELECT impression, ad, clicked_at IS NULL FROM ads ORDER BY impression")
    assert found == [("i1", "tea", 0), ("i2", "jam", 0), ("i3", "tea", 1)]
    assert select(tmp_path / "ads.db", "SELECT impression, late_side FROM late") == [("i1", "right")]
