"""Small transactions share Spark jobs and commits, and nobody sees it but the clock."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from attrs import evolve
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.types import BooleanType

from tests.integration.trident_py.test_query import PATIENCE_SECONDS, Numbered, counts, split, word_count
from trident_py import (
    CombinerAggregator,
    CommitToken,
    Count,
    Emitter,
    FixedBatchSpout,
    Function,
    ITridentSpout,
    MemoryMapState,
    PoisonBatchError,
    RetryPolicy,
    SinkTransaction,
    SQLiteState,
    StateUpdater,
    TopologyContext,
    TopologyKey,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentTopology,
)
from trident_py.interfaces.sinks import RowsSink
from trident_py.rows.schema import schema_of
from trident_py.spark.rowwise import is_rowwise

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

LINES = [(f"w{number % 7} w{number % 11} all",) for number in range(60)]
WORDS = Counter(word for (line,) in LINES for word in line.split())


@pytest.fixture
def config(zookeeper: str) -> TridentConfig:
    return TridentConfig(zookeeper=zookeeper, max_spout_pending=16, session_timeout=5)


class Words(Function):
    """Splits, and leaves a mark for each task that it is part of."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def prepare(self) -> None:
        with self.marks.open("a") as file:
            file.write("task\n")

    def execute(self, row: Any, collector: TridentCollector) -> None:
        for word in row.value.split():
            collector.emit((word,))


def test_many_small_transactions_need_few_jobs_and_few_writes(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    topology = TridentTopology("small")
    words = topology.new_stream("lines", FixedBatchSpout("value string", 1, *LINES))
    words = words.each("value", Words(tmp_path / "tasks"), "word string").project("word")
    words.group_by("word").persistent_aggregate(SQLiteState(tmp_path / "c.db", table="counts"), Count(), "count")
    with topology.start(evolve(config, resident_tasks=0), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        progress = query.recent_progress
        assert [entry["txid"] for entry in progress] == list(range(1, 61))
        assert {entry["attempt_id"] for entry in progress} == {0}
        assert progress[-1]["zookeeper_writes"] < 60
    assert len((tmp_path / "tasks").read_text().splitlines()) < 60
    assert counts(tmp_path / "c.db") == WORDS
    with closing(sqlite3.connect(tmp_path / "c.db")) as database:
        assert database.execute("SELECT txid FROM _trident").fetchone() == (60,)


def test_the_one_that_fails_fails_alone(spark: SparkSession, config: TridentConfig, tmp_path: Path) -> None:
    def checked(row: Any) -> list[tuple[str]]:
        if "bad" in row.value:
            raise ValueError(f"can't read {row.value}")
        return split(row)

    # What looks like a message of ours, or of Spark's, says nothing: a log of either may be read as input.
    bad = "bad, in transaction 2, which shared its job\ntrident_py.errors.FencedError: SparkContext was shut down"
    lines = [("a b",), ("b c",), ("c d",), ("d e",), (bad,), ("e f",), ("f g",)]
    config = TridentConfig(
        zookeeper=config.zookeeper, max_spout_pending=7, retry=RetryPolicy(attempts=2, backoff=0.01), session_timeout=5
    )
    topology = TridentTopology("poison")
    words = topology.new_stream("lines", FixedBatchSpout("value string", 1, *lines)).flat_map(checked, "word string")
    words.group_by("word").persistent_aggregate(SQLiteState(tmp_path / "c.db", table="counts"), Count(), "count")
    complaint = r"transaction 5 failed 2 times.*can't read bad, in transaction 2"
    with topology.start(config, spark=spark) as query, pytest.raises(PoisonBatchError, match=complaint):
        query.process_all_available(PATIENCE_SECONDS)
    assert counts(tmp_path / "c.db") == {"a": 1, "b": 2, "c": 2, "d": 2, "e": 1}


class Shouted(CombinerAggregator[int]):
    """Counts, and doesn't take everything; whose row it was is not known where it raises."""

    def init(self, row: Any) -> int:
        if row[0] == "bad":
            raise ValueError(f"can't take {row[0]!r}")
        return 1

    def combine(self, left: int, right: int) -> int:
        return left + right

    def zero(self) -> int:
        return 0


@pytest.mark.long
def test_where_nobody_knows_which_one_fails_it_is_found(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    lines = [("a b",), ("b c",), ("c d",), ("d e",), ("bad",), ("e f",), ("f g",)]
    config = TridentConfig(
        zookeeper=config.zookeeper, max_spout_pending=7, retry=RetryPolicy(attempts=2, backoff=0.01), session_timeout=5
    )
    topology = TridentTopology("halves")
    words = topology.new_stream("lines", FixedBatchSpout("value string", 1, *lines)).flat_map(split, "word string")
    state = SQLiteState(tmp_path / "c.db", table="counts")
    words.group_by("word").persistent_aggregate(state, Shouted(), "count bigint", in_fields=["word"])
    complaint = r"transaction 5 failed 2 times.*can't take 'bad'"
    with topology.start(config, spark=spark) as query, pytest.raises(PoisonBatchError, match=complaint):
        query.process_all_available(PATIENCE_SECONDS)
    assert counts(tmp_path / "c.db") == {"a": 1, "b": 2, "c": 2, "d": 2, "e": 1}


class Shown(RowsSink[list[str]]):
    """Has the rows of each transaction on the driver; a process lives as long as what it has committed."""

    def __init__(self) -> None:
        self.committed: dict[int, list[str]] = {}
        self.token: CommitToken | None = None

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        return self.token

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> list[str]:
        return self.keep(tx, frame.toArrow())

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> list[str]:
        words: list[str] = rows.column("word").to_pylist()
        if "bad" in words:
            raise ValueError("can't keep bad")
        return words

    def commit(self, tx: SinkTransaction, receipt: list[str]) -> None:
        assert tx.txid not in self.committed
        self.committed[tx.txid], self.token = receipt, tx.token

    def abort(self, tx: SinkTransaction, receipt: list[str] | None) -> None: ...


def test_a_sink_of_rows_is_given_each_transaction_by_itself_in_its_order_by_few_jobs(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    sink, topology = Shown(), TridentTopology("shown")
    words = topology.new_stream("lines", FixedBatchSpout("value string", 1, *LINES))
    words.each("value", Words(tmp_path / "tasks"), "word string").project("word").write_to(sink)
    with topology.start(evolve(config, resident_tasks=0), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert sink.committed == {txid: line.split() for txid, (line,) in enumerate(LINES, 1)}
    assert len((tmp_path / "tasks").read_text().splitlines()) < 60


def test_the_one_that_a_sink_of_rows_doesn_t_take_fails_alone(spark: SparkSession, config: TridentConfig) -> None:
    lines = [("a b",), ("b c",), ("c d",), ("d e",), ("bad",), ("e f",), ("f g",)]
    config = TridentConfig(
        zookeeper=config.zookeeper, max_spout_pending=7, retry=RetryPolicy(attempts=2, backoff=0.01), session_timeout=5
    )
    sink, topology = Shown(), TridentTopology("untaken")
    words = topology.new_stream("lines", FixedBatchSpout("value string", 1, *lines)).flat_map(split, "word string")
    words.write_to(sink)
    complaint = r"transaction 5 failed 2 times.*can't keep bad"
    with topology.start(config, spark=spark) as query, pytest.raises(PoisonBatchError, match=complaint):
        query.process_all_available(PATIENCE_SECONDS)
    assert sink.committed == {1: ["a", "b"], 2: ["b", "c"], 3: ["c", "d"], 4: ["d", "e"]}


class Growing(ITridentSpout[int]):
    """Batch t has 0, 1, 10, 100, 1 000 or 10 000 rows: small ones and large ones on their way together."""

    output_schema = "number bigint, batch bigint"

    def __init__(self, upto: int) -> None:
        self.upto = upto

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Numbered:
        return Numbered(self.upto)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[int]:
        return Growth()


class Growth(Emitter[int]):
    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        collector.emit_arrow(rows_of_batch(attempt.txid))


def rows_of_batch(txid: int) -> pa.Table:
    """In chunks, some of which are empty."""
    size = [0, 1, 10, 100, 1_000, 10_000][txid % 6]
    numbers = [pa.array(range(size), pa.int64()), pa.array([], pa.int64()), pa.array(range(size), pa.int64())]
    batches = [pa.array([txid] * len(part), pa.int64()) for part in numbers]
    return pa.table({"number": pa.chunked_array(numbers), "batch": pa.chunked_array(batches)})


class Most(CombinerAggregator[int]):
    """The greatest, in Python."""

    def init(self, row: Any) -> int:
        return int(row[0])

    def combine(self, left: int, right: int) -> int:
        return max(left, right)

    def zero(self) -> int:
        return -1


class Remember(StateUpdater[Any]):
    """Notes each batch as it came: how many rows, of which batches."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, set[int]]] = []

    def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None:
        self.seen.append((len(tuples), {row.batch for row in tuples}))


@pytest.mark.long
def test_small_and_large_batches_each_keep_their_rows_and_their_place(
    spark: SparkSession, config: TridentConfig
) -> None:
    upto = 24
    seen, by_batch, in_all, largest = Remember(), *(MemoryMapState.factory() for _ in range(3))
    topology = TridentTopology("sizes")
    numbers = topology.new_stream("numbers", Growing(upto))
    numbers.partition_persist(MemoryMapState.factory(), seen, ["number", "batch"])
    numbers.group_by("batch").persistent_aggregate(by_batch, Count(), "rows")
    numbers.persistent_aggregate(in_all, Count(), "rows")
    numbers.group_by("batch").aggregate(Most(), "most bigint", in_fields=["number"]).group_by(
        "batch"
    ).persistent_aggregate(largest, Most(), "most bigint", in_fields=["most"])
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    sizes = {txid: rows_of_batch(txid).num_rows for txid in range(1, upto + 1)}
    assert seen.seen == [(size, {txid} if size else set()) for txid, size in sizes.items()]
    assert by_batch.values() == {(txid,): size for txid, size in sizes.items() if size}
    assert in_all.values() == {(): sum(sizes.values())}
    assert largest.values() == {(txid,): size // 2 - 1 for txid, size in sizes.items() if size}


def test_it_goes_on_behind_a_run_and_counts_nothing_twice(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    factory = SQLiteState(tmp_path / "c.db", table="counts")
    for upto in (20, 40, 60):
        with word_count("runs", FixedBatchSpout("value string", 1, *LINES[:upto]), factory).start(
            config, spark=spark
        ) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert counts(tmp_path / "c.db") == WORDS


def _above_average(numbers: pa.Array) -> pa.Array:
    return pc.greater(numbers, pc.mean(numbers))


@pytest.mark.parametrize(
    ("condition", "rowwise"),
    [
        ("number > 3 AND word LIKE 'a%'", True),
        (lambda: F.col("number").isNotNull() | F.exists(F.array("word"), lambda each: each == "a"), True),
        ("current_timestamp() > timestamp'2020-01-01'", True),
        (lambda: F.rand() < 0.5, False),
        (lambda: F.monotonically_increasing_id() < 3, False),
        ("spark_partition_id() = 0", False),
        ("reflect('java.lang.Math', 'random') > 0.5", False),
        ("number IN (SELECT id FROM range(3))", False),
        ("number > (SELECT max(id) FROM range(3))", False),
        (lambda: F.udf(lambda number: number > 1, BooleanType())("number"), False),
        (lambda: arrow_udf(_above_average, BooleanType())("number"), False),
        ("no_such_function(number)", False),
    ],
)
def test_spark_tells_a_condition_that_looks_at_a_row_alone(spark: SparkSession, condition: Any, rowwise: bool) -> None:
    session = spark.newSession()
    condition = condition() if callable(condition) else condition
    assert is_rowwise(session, condition, schema_of("number bigint, word string")) is rowwise
    assert not session.catalog.listTables()


def test_a_condition_that_looks_at_other_rows_sees_those_of_its_batch_only(
    spark: SparkSession, config: TridentConfig
) -> None:
    kept = MemoryMapState.factory()
    topology = TridentTopology("first")
    numbers = topology.new_stream("numbers", FixedBatchSpout("number bigint", 2, *[(n,) for n in range(20)]))
    numbers = numbers.filter(F.monotonically_increasing_id() == 0)
    numbers.group_by("number").persistent_aggregate(kept, Count(), "rows")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert sorted(kept.values()) == [(number,) for number in range(0, 20, 2)]
