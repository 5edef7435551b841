"""`ForeachBatchSink` with Spark: when it calls, and the recipe that makes it exactly-once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples import foreach_batch
from trident_py import (
    FixedBatchSpout,
    ForeachBatchSink,
    PoisonBatchError,
    RetryPolicy,
    SinkTransaction,
    TransactionKey,
    TridentConfig,
    TridentTopology,
)
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark

ROWS = [("a", 1), ("b", 1), ("a", 1), ("ccc", 3), ("dd", 2)]


class Losing:
    """Has the recipe write, and loses the answer of the first attempts of each transaction."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.calls: list[tuple[TransactionKey, int]] = []

    def __call__(self, frame: DataFrame, tx: SinkTransaction) -> None:
        foreach_batch.write(frame, tx)
        assert frame.count() == frame.count()
        self.calls.append((tx.key, tx.attempt.attempt_id))
        if len([key for key, _ in self.calls if key == tx.key]) <= self.losses:
            raise ConnectionResetError("the answer was lost")


def words(fn: Losing) -> TridentTopology:
    topology = TridentTopology("words")
    stream = topology.new_stream("words", FixedBatchSpout("word string, length int", 2, *ROWS))
    stream.filter(lambda row: row.word != "x").write_to(ForeachBatchSink(fn))
    return topology


def written() -> Counter[tuple[str, int]]:
    with closing(sqlite3.connect(foreach_batch.DATABASE)) as database:
        return Counter(database.execute("SELECT word, length FROM words").fetchall())


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreach_batch, "DATABASE", str(tmp_path / "words.db"))


@pytest.mark.usefixtures("database")
def test_the_recipe_writes_each_row_once_where_every_answer_is_lost(spark: SparkSession) -> None:
    losing = Losing(1)
    run_batches(words(losing), spark=spark)
    assert written() == Counter(ROWS)
    assert [key.txid for key, _ in losing.calls] == [1, 1, 2, 2, 3, 3]
    assert len({key.uuid for key, _ in losing.calls}) == 1
    assert all(later > earlier for (_, earlier), (_, later) in zip(losing.calls[::2], losing.calls[1::2], strict=True))


@pytest.mark.usefixtures("database")
def test_the_recipe_writes_each_row_once_where_the_topology_ends_before_the_commit_is_on_record(
    spark: SparkSession,
) -> None:
    coordination, losing = LocalCoordination(), Losing(2)
    config = TridentConfig(retry=RetryPolicy(attempts=1))
    query = words(losing).start(config, coordination=coordination, spark=spark)
    with pytest.raises(PoisonBatchError, match="the answer was lost"), query:
        query.process_all_available()
    assert written() == Counter(ROWS[:2])
    other = Losing(0)
    run_batches(words(other), coordination, spark)
    assert written() == Counter(ROWS)
    assert other.calls[0][0] == losing.calls[0][0]
