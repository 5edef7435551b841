"""`DataFrameSpout` with Spark: each row once, over replays and restarts, and whether a range keeps its rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.servers.spark import NEEDS_REPORTS
from trident_py import DataFrameSpout, ForeachBatchSink, SinkTransaction, SpoutError, TridentTopology
from trident_py.operations import Count
from trident_py.spark.frame_hash import counted, fingerprint_of
from trident_py.states import SQLiteState
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark


class Numbers:
    """The numbers up to a latest one; a batch has two at most."""

    def __init__(self, latest: int) -> None:
        self.latest = latest
        self.read: list[tuple[int, int]] = []
        self.taken: list[tuple[int, list[int]]] = []

    def frame(self, spark: SparkSession, start: int, end: int) -> DataFrame:
        self.read.append((start, end))
        return spark.range(start + 1, end + 1).toDF("n")

    def take(self, frame: DataFrame, tx: SinkTransaction) -> None:
        self.taken.append((tx.txid, sorted(row.n for row in frame.collect())))

    def topology(self) -> TridentTopology:
        topology = TridentTopology("numbers")
        spout = DataFrameSpout(
            "n bigint",
            lambda spark: self.latest,
            self.frame,
            start=0,
            upto=lambda spark, start, latest: min(start + 2, latest),
        )
        topology.new_stream("numbers", spout).write_to(ForeachBatchSink(self.take))
        return topology


@NEEDS_REPORTS
def test_each_row_is_in_one_batch_and_a_restart_goes_on_with_what_is_new(spark: SparkSession) -> None:
    numbers, coordination = Numbers(3), LocalCoordination()
    (first, second) = run_batches(numbers.topology(), coordination, spark)
    assert numbers.taken == [(1, [1, 2]), (2, [3])]
    assert (first.num_input_rows, second.num_input_rows) == (2, 1)
    assert run_batches(numbers.topology(), coordination, spark) == []
    numbers.latest = 5
    run_batches(numbers.topology(), coordination, spark)
    assert numbers.taken[2:] == [(3, [4, 5])]
    assert numbers.read == [(0, 2), (2, 3), (3, 5)]


Frames = Callable[[SparkSession], DataFrame]


def replayed(spark: SparkSession, path: Any, *frames: Frames) -> None:
    """Run a topology whose only batch is emitted once for each of ``frames``, the last time with success."""
    attempts, given = itertools.count(1), iter(frames)

    def fail(frame: DataFrame, tx: SinkTransaction) -> None:
        if next(attempts) < len(frames):
            raise ConnectionError("not yet")

    topology = TridentTopology("replayed")
    spout = DataFrameSpout("n bigint, word string", lambda _: 1, lambda session, start, end: next(given)(session))
    words = topology.new_stream("words", spout)
    words.write_to(ForeachBatchSink(fail))
    words.group_by("word").persistent_aggregate(SQLiteState(path / "words.db", table="words"), Count(), "count")
    run_batches(topology, spark=spark)


def rows(*rows: tuple[Any, ...]) -> Frames:
    return lambda spark: spark.createDataFrame(list(rows), "n bigint, word string")


SAME = rows((1, "a"), (2, None), (2, None), (None, "b"))


@NEEDS_REPORTS
def test_a_range_that_gives_the_same_rows_in_another_order_is_taken(spark: SparkSession, tmp_path: Any) -> None:
    other = rows((None, "b"), (2, None), (1, "a"), (2, None))
    replayed(spark, tmp_path, SAME, lambda session: other(session).repartition(3))


@NEEDS_REPORTS
@pytest.mark.parametrize(
    "other",
    [
        rows((1, "a"), (2, None), (2, None), (None, "b"), (3, "c")),
        rows((1, "a"), (2, None), (None, "b"), (None, "b")),
        rows((1, "a"), (2, None), (2, None), (5, "b")),
    ],
    ids=["one more", "another one twice", "another value"],
)
def test_a_range_that_has_other_rows_when_it_is_read_again_ends_the_topology(
    spark: SparkSession, tmp_path: Any, other: Frames
) -> None:
    with pytest.raises(SpoutError, match="'words'"):
        replayed(spark, tmp_path, SAME, other)


HASHED = (
    "n int, m map<string, array<map<int, string>>>, s struct<a: int, b: map<string, int>>, l array<struct<x: date>>"
)


def hashed(spark: SparkSession, *values: str) -> tuple[int, int]:
    frame = spark.createDataFrame([], HASHED)
    for value in values:
        frame = frame.union(spark.sql(f"SELECT {value}").to(frame.schema))
    found = frame.agg(*counted(frame.schema, hashing=True)).collect()[0].asDict()
    fingerprint = fingerprint_of(found)
    return fingerprint.rows, fingerprint.sum


NESTED = "1 n, map('a', array(map(1, 'x')), 'b', NULL) m, named_struct('a', 1, 'b', map('k', 2)) s, NULL l"


def test_maps_are_hashed_wherever_they_are_whatever_the_order_of_their_keys(spark: SparkSession) -> None:
    turned = "1 n, map('b', NULL, 'a', array(map(1, 'x'))) m, named_struct('a', 1, 'b', map('k', 2)) s, NULL l"
    deeper = "1 n, map('a', array(map(1, 'y')), 'b', NULL) m, named_struct('a', 1, 'b', map('k', 2)) s, NULL l"
    beside = "1 n, map('a', array(map(1, 'x')), 'b', NULL) m, named_struct('a', 1, 'b', map('k', 3)) s, NULL l"
    nothing = "1 n, NULL m, NULL s, array(named_struct('x', DATE'2026-11-22')) l"
    assert hashed(spark, NESTED) == hashed(spark, turned)
    sums: Sequence[tuple[int, int]] = [hashed(spark, each) for each in (NESTED, deeper, beside, nothing)]
    assert len(set(sums)) == 4
    assert hashed(spark, nothing, NESTED) == hashed(spark, NESTED, nothing)
    assert hashed(spark) == (0, 0)
