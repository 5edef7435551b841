"""Topologies as their users test them: coordinated in memory, from the first batch to the last."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from pyspark.sql import SparkSession

from coordinators.values.errors import FencedError
from tests.servers.spark import NEEDS_REPORTS
from tests.unit.trident_py.testing.topologies import ALL, Declared, partitioned
from trident_py import (
    BatchCoordinator,
    Count,
    Emitter,
    FixedBatchSpout,
    ITridentSpout,
    SQLiteState,
    TopologyContext,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentTopology,
)
from trident_py.states import MemoryMapState
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "declare", [pytest.param(each, marks=NEEDS_REPORTS if each is partitioned else ()) for each in ALL]
)
def test_spark_and_plain_python_leave_the_same(
    declare: Callable[[Path], Declared], spark: SparkSession, tmp_path: Path
) -> None:
    left = []
    for session in (None, spark):
        directory = tmp_path / str(session is None)
        directory.mkdir()
        topology, read = declare(directory)
        progress = run_batches(topology, spark=session)
        left.append(([each["num_input_rows"] for each in progress], read()))
    assert left[0] == left[1]


@pytest.mark.master("in a process that has used Connect, PySpark makes no local session")
def test_an_emitter_that_asks_for_a_session_has_one_and_the_rest_runs_without(spark: SparkSession) -> None:
    counts = MemoryMapState.factory()
    topology = TridentTopology("frames")
    stream = topology.new_stream("numbers", Frames())
    stream.map(lambda row: (row.n % 2,), "odd bigint").group_by("odd").persistent_aggregate(counts, Count(), "n")
    assert len(run_batches(topology)) == 2
    assert counts.values() == {(0,): 10, (1,): 10}


class Twice(BatchCoordinator[int]):
    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        return txid

    def is_ready(self, txid: int) -> bool:
        return txid <= 2


@define
class Ten(Emitter[int]):
    context: TopologyContext

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        assert self.context.spark is not None
        collector.emit_dataframe(self.context.spark.range(10).toDF("n"))

    def success(self, attempt: TransactionAttempt) -> None:
        pass

    def close(self) -> None:
        pass


class Frames(ITridentSpout[int]):
    """Two DataFrames."""

    output_schema = "n bigint"

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Twice:
        return Twice()

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Ten:
        return Ten(context)


def word_count(words: Sequence[str], state: Any) -> TridentTopology:
    topology = TridentTopology("words")
    stream = topology.new_stream("words", FixedBatchSpout("word string", 2, *((word,) for word in words)))
    stream.transform(lambda frame: frame, "word string").group_by("word").persistent_aggregate(state, Count(), "count")
    return topology


def test_a_run_commits_all_that_there_is_and_tells_of_each_batch(spark: SparkSession) -> None:
    counts = MemoryMapState.factory()
    progress = run_batches(word_count(["a", "b", "a"], counts), spark=spark)
    assert counts.values() == {("a",): 2, ("b",): 1}
    assert [(each["txid"], each["num_input_rows"]) for each in progress] == [(1, 2), (2, 1)]


def test_a_second_run_with_the_same_coordination_goes_on_where_the_first_one_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    coordination, path = LocalCoordination(), tmp_path / "counts.db"
    run_batches(word_count(["a", "b"], SQLiteState(path, table="counts")), coordination, spark)
    more = word_count(["a", "b", "b", "c"], SQLiteState(path, table="counts"))
    assert [each["txid"] for each in run_batches(more, coordination, spark)] == [2]
    with closing(sqlite3.connect(path)) as database:
        assert dict(database.execute("SELECT word, count FROM counts")) == {"a": 1, "b": 2, "c": 1}


def test_a_second_start_is_refused_or_stands_by(spark: SparkSession) -> None:
    coordination, counts = LocalCoordination(), [MemoryMapState.factory() for _ in range(3)]
    with word_count(["a", "b"], counts[0]).start(spark=spark, coordination=coordination) as first:
        with pytest.raises(FencedError, match=r"trident_py\.active\(\)\['words'\]\.stop\(\)"):
            word_count(["a", "b"], counts[1]).start(spark=spark, coordination=coordination)
        second = word_count(["a", "b", "c"], counts[2]).start(spark=spark, coordination=coordination, standby=True)
        first.process_all_available()
        assert not second.is_leading
    second.process_all_available()
    assert second.is_leading
    second.stop()
    assert counts[2].values() == {("c",): 1}
