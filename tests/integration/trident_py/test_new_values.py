"""What follows `new_values_stream()`, where it needs Spark: its rows are those of commits, each once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.integration.trident_py.test_query import FickleSpout
from trident_py import (
    DeltaSink,
    FailedException,
    FileSink,
    FixedBatchSpout,
    MapGet,
    SinkTransaction,
    SQLiteState,
    SQLSink,
    Stream,
    TransactionAttempt,
    TridentConfig,
    TridentTopology,
)
from trident_py.operations import Count, Max
from trident_py.testing import LocalCoordination

WORDS = [("a",), ("b",), ("a",), ("c",), ("a",), ("b",)]


class Numbered:
    """A topology that counts words, two a batch, and what is declared on the new values."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark, self.directory = spark, directory
        self.coordination = LocalCoordination()

    def run(self, declare: Callable[[TridentTopology, Stream], object]) -> None:
        topology = TridentTopology("new-values")
        words = topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))
        counts = words.group_by("word").persistent_aggregate(self.state("counts"), Count(), "count")
        declare(topology, counts.new_values_stream())
        config = TridentConfig(state_dir=self.directory / "state")
        with topology.start(config, spark=self.spark, coordination=self.coordination) as query:
            query.process_all_available(timeout=120)

    def state(self, table: str) -> SQLiteState:
        return SQLiteState(self.directory / "states.db", table=table)

    def values(self, table: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.directory / "states.db") as connection:
            return sorted(connection.execute(f"SELECT word, n FROM {table}"))  # noqa: S608

    def files(self) -> list[tuple[Any, ...]]:
        rows = self.spark.read.parquet(str(self.directory / "out")).collect()
        return sorted((row.txid, row.word, row["count"]) for row in rows)


@pytest.fixture
def numbered(spark: SparkSession, tmp_path: Path) -> Numbered:
    return Numbered(spark, tmp_path)


EACH_COMMIT = [(1, "a", 1), (1, "b", 1), (2, "a", 2), (2, "c", 1), (3, "a", 3), (3, "b", 2)]


def test_new_values_are_written_to_a_sink_each_commit_once(numbered: Numbered) -> None:
    numbered.run(lambda _, values: values.write_to(FileSink(numbered.directory / "out")))
    assert numbered.files() == EACH_COMMIT


def test_spark_works_on_new_values_before_a_sink_and_before_a_state(numbered: Numbered) -> None:
    def declare(_: TridentTopology, values: Stream) -> None:
        often = values.sql("SELECT word, count FROM stream WHERE count > 1").filter("count < 3")
        often.write_to(FileSink(numbered.directory / "out"))
        often.group_by("word").persistent_aggregate(numbered.state("most"), Max("count"), "n")

    numbered.run(declare)
    assert numbered.files() == [(2, "a", 2), (3, "b", 2)]
    assert numbered.values("most") == [("a", 2), ("b", 2)]


def test_new_values_are_joined_with_themselves_and_ask_states(numbered: Numbered) -> None:
    def declare(topology: TridentTopology, values: Stream) -> None:
        longest = values.group_by("word").persistent_aggregate(numbered.state("before"), Max("count"), "n")
        other = values.filter(lambda row: row.count > 1)
        joined = topology.join(values, "word", other, "word", ["word", "n", "again"])
        asked = joined.state_query(longest, "word", MapGet(), "found bigint")
        asked.group_by("word").persistent_aggregate(numbered.state("found"), Max("found"), "n")

    numbered.run(declare)
    assert numbered.values("before") == [("a", 3), ("b", 2), ("c", 1)]
    assert numbered.values("found") == [("a", 3), ("b", 2)]


def test_a_commit_that_fails_behind_new_values_is_made_again_from_the_same_values(numbered: Numbered) -> None:
    tries: list[int] = []

    def failing(frame: DataFrame) -> DataFrame:
        if not frame.isEmpty():
            tries.append(1)
            if len(tries) in (2, 3):
                raise FailedException("not now")
        return frame

    def declare(_: TridentTopology, values: Stream) -> None:
        values.transform(failing, "word string, count bigint").write_to(FileSink(numbered.directory / "out"))

    numbered.run(declare)
    assert numbered.files() == EACH_COMMIT
    assert len(tries) == 5


def test_functions_behind_new_values_run_on_the_driver_as_they_are(numbered: Numbered) -> None:
    seen: list[tuple[Any, ...]] = []
    numbered.run(lambda _, values: values.sql("SELECT word FROM stream").peek(lambda row: seen.append(tuple(row))))
    assert seen == [("a",), ("b",), ("a",), ("c",), ("a",), ("b",)]


# --- behind an opaque spout -------------------------------------------------------------------------------------------


class Fickle(FickleSpout):
    """Three batches: a word that all have, one that each attempt of a batch has, and one of the attempt's own."""

    upto = 3

    def words(self, attempt: TransactionAttempt) -> Sequence[str]:
        return ["always", f"{attempt.txid}", f"{attempt.txid}:{attempt.attempt_id}"]


def failing(sink: type[Any], *failures: tuple[int, str]) -> type[Any]:
    """A sink of this kind that fails at these transactions, ``before`` its commit or ``behind`` it, in that order."""
    left = list(failures)

    class Failing(sink):  # type: ignore[misc]
        def commit(self, tx: SinkTransaction, receipt: Any) -> None:
            when = left.pop(0)[1] if left and left[0][0] == tx.txid else ""
            if when != "before":
                super().commit(tx, receipt)
            if when:
                raise FailedException(when)

    return Failing


@pytest.mark.parametrize("together", [False, True])
def test_sinks_that_replace_rows_agree_with_the_state_whatever_its_failed_attempts_had(
    together: bool, spark: SparkSession, tmp_path: Path
) -> None:
    latest = "counts" if together else "latest"
    topology = TridentTopology("fickle")
    words = topology.new_stream("words", Fickle()).group_by("word")
    counts = words.persistent_aggregate(SQLiteState(tmp_path / "counts.db", table="counts"), Count(), "n")
    upsert = failing(SQLSink, (2, "behind"), (2, "before"), (3, "behind"))(
        f"sqlite:///{tmp_path}/{latest}.db", "latest", mode="upsert", keys="word"
    )
    merge = failing(DeltaSink, (2, "before"), (2, "behind"))(tmp_path / "delta", mode="merge", keys="word")
    counts.new_values_stream().name("latest").write_to(upsert)
    counts.new_values_stream().name("delta").write_to(merge)
    config = TridentConfig(state_dir=tmp_path / "state", max_spout_pending=1)
    with topology.start(config, spark=spark, coordination=LocalCoordination()) as query:
        query.process_all_available(timeout=120)
    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        expected = dict(database.execute("SELECT word, n FROM counts WHERE n IS NOT NULL"))
    assert (len(expected), expected["always"]) == (7, 3)
    with closing(sqlite3.connect(tmp_path / f"{latest}.db")) as database:
        assert dict(database.execute("SELECT word, n FROM latest WHERE n IS NOT NULL")) == expected
    delta = DeltaTable(tmp_path / "delta").to_pyarrow_table().to_pylist()
    assert {row["word"]: row["n"] for row in delta if row["n"] is not None} == expected
    gone = {row["word"] for row in delta if row["n"] is None}
    assert gone
    assert gone.isdisjoint(expected)
