"""`PostgresState` behind real Spark jobs: tasks stage, the driver merges, failed attempts leave nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql import DataFrame, SparkSession

from coordinators.protocol.messages import FailureKind
from tests.integration.trident_py.forgetful import ForgetfulState
from tests.integration.trident_py.test_query import PATIENCE_SECONDS, WORDS, fixed, word_count
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.postgres_rows import opened, select, tables
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py import (
    FileSpout,
    PostgresState,
    TridentConfig,
    TridentTopology,
)
from trident_py.operations import CombinerAggregator, Count, ReducerAggregator
from trident_py.participants.states import StagedParticipant
from trident_py.worker.failures import TaskFailed, task_failures_told

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

BOOKS = ["_counts_removed", "_trident", "counts"]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """Where small partitions stay apart."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "4")
    return session


def collect(frame: DataFrame) -> Any:
    return frame.toArrow()


def counts(dsn: str) -> dict[str, int]:
    return dict(select(dsn, "SELECT word, count FROM counts"))


# --- a job ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def participant(postgres: str) -> Iterator[StagedParticipant]:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        yield StagedParticipant(name="counts", state=state, aggregator=Count(), keys=1)


def test_every_partition_stages_its_part_and_reports_it(
    session: SparkSession, postgres: str, participant: StagedParticipant
) -> None:
    words = [(word,) for word in ["a", "b", "c", "d", "e", "f", "g", "h", "a", "b", "c", "d", "a", "b", "a"]] + [
        (None,)
    ]
    frame = session.createDataFrame(words, "word string").groupBy("word").count()
    for txid in (1, 2):
        receipt = participant.prepare(transaction(txid), frame, collect)
        assert receipt.reports.num_rows == 4
        assert sum(receipt.reports["rows"].to_pylist()) == 9
        assert len(set(receipt.reports["task"].to_pylist())) == 4
        participant.commit_group([(transaction(txid), receipt)])
    assert counts(postgres) == {word: 2 * count for (word,), count in Counter(words).items()}
    assert tables(postgres) == BOOKS


def test_a_store_that_is_busy_for_a_task_does_not_count_against_the_batch(
    session: SparkSession, postgres: str, participant: StagedParticipant
) -> None:
    frame = session.createDataFrame([("a", 1)], "word string, count bigint")

    def staged() -> None:
        with task_failures_told():
            staging = participant.state.stage(transaction(1), frame)
            select(postgres, "DROP TABLE _counts_1_1_0")
            collect(staging)

    with pytest.raises(TaskFailed, match="_counts_1_1_0") as raised:
        staged()
    assert raised.value.failure.kind is FailureKind.BUSY
    assert "topology 'wordcount', attempt 1:0: table 'counts' of 127.0.0.1/test_" in str(raised.value)
    participant.abort(transaction(1), None)


# --- topologies -------------------------------------------------------------------------------------------------------


class Tallying(CombinerAggregator[int]):
    """A count that only Python can do."""

    def init(self, row: Any) -> int:
        return 1

    def combine(self, left: int, right: int) -> int:
        return left + right

    def zero(self) -> int:
        return 0


class Reducing(ReducerAggregator[int]):
    def init(self) -> int:
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        return curr + 1


@pytest.mark.zookeeper
def test_words_of_files_are_counted_once_over_restarts(
    spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    expected: Counter[str] = Counter()
    for run in range(2):
        for number in range(3):
            path = tmp_path / f"{run}-{number}.txt"
            path.write_text("".join(f"line {line} of file {number}\n" for line in range(100)))
            expected += Counter(path.read_text().split())
        spout = FileSpout(tmp_path / "*.txt", max_bytes_per_batch=1500)
        with word_count("files", spout, PostgresState(postgres, table="counts")).start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
        assert counts(postgres) == expected
        assert tables(postgres) == BOOKS


@pytest.mark.zookeeper
@pytest.mark.parametrize("aggregator", [Tallying(), Reducing()], ids=["combiner", "reducer"])
def test_aggregators_that_sql_does_not_know_count_too(
    spark: SparkSession, config: TridentConfig, postgres: str, aggregator: Any
) -> None:
    topology = TridentTopology("python")
    lines = topology.new_stream("lines", fixed(2))
    words = lines.flat_map(lambda row: [(word,) for word in row.value.split()], "word string")
    words.group_by("word").persistent_aggregate(PostgresState(postgres, table="counts"), aggregator, "count bigint")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert counts(postgres) == WORDS


@pytest.mark.zookeeper
def test_a_failed_first_attempt_of_a_batch_leaves_nothing(
    spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    def split_but_fail_once(row: Any) -> list[tuple[str]]:
        marker = tmp_path / "failed"
        if "lazy" in row.value and not marker.exists():
            marker.touch()
            raise ValueError("only the first time")
        return [(word,) for word in row.value.split()]

    topology = TridentTopology("failing")
    words = topology.new_stream("lines", fixed()).flat_map(split_but_fail_once, "word string")
    words.group_by("word").persistent_aggregate(PostgresState(postgres, table="counts"), Count(), "count")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert (tmp_path / "failed").exists()
    assert counts(postgres) == WORDS
    assert tables(postgres) == BOOKS


@pytest.mark.zookeeper
def test_a_commit_that_happened_and_is_replayed_counts_once(
    spark: SparkSession, config: TridentConfig, postgres: str
) -> None:
    factory = ForgetfulState(postgres, table="counts")
    one_by_one = evolve(config, max_spout_pending=1)  # otherwise a group may be committed and replayed
    with word_count("redo", fixed(), factory).start(one_by_one, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert factory.commits[:3] == ["1:0", "2:0", "2:1"]
    assert counts(postgres) == WORDS
    assert tables(postgres) == BOOKS


@pytest.mark.zookeeper
def test_new_values_go_on_from_a_state_in_postgresql(spark: SparkSession, config: TridentConfig, postgres: str) -> None:
    topology = TridentTopology("onwards")
    lines = topology.new_stream("lines", fixed(5))
    words = lines.flat_map(lambda row: [(word,) for word in row.value.split()], "word string")
    seen: list[Any] = []
    state = words.group_by("word").persistent_aggregate(PostgresState(postgres, table="counts"), Count(), "count")
    state.new_values_stream().peek(lambda row: seen.append(tuple(row)))
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert counts(postgres) == WORDS == dict(seen)


def test_sums_of_other_kinds_merge_where_they_are(session: SparkSession, postgres: str) -> None:
    with opened(postgres, "day date, at timestamp", "total decimal(20,2)", table="totals") as state:
        state.recover(TOPOLOGY, 1)
        participant = StagedParticipant(name="totals", state=state, aggregator=Adding(), keys=2)
        frame = session.sql(
            "SELECT DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:00:00 Europe/Berlin' AS at, "
            "CAST(1.25 AS decimal(20,2)) AS total UNION ALL SELECT NULL, NULL, 2.5"
        )
        for txid in (1, 2):
            participant.commit_group([(transaction(txid), participant.prepare(transaction(txid), frame, collect))])
    shown = select(postgres, "SELECT day::text, at AT TIME ZONE 'UTC', total::text FROM totals ORDER BY total")
    assert [(day, at and at.isoformat(), total) for day, at, total in shown] == [
        ("2024-02-29", "2024-02-29T11:00:00", "2.50"),
        (None, None, "5.00"),
    ]
