"""What user functions count, counts once for each committed transaction, wherever and however often they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from coordinators.backends.local import LocalCoordination
from tests.servers.spark import NEEDS_REPORTS
from trident_py import (
    CombinerAggregator,
    Count,
    CounterError,
    Filter,
    FixedBatchSpout,
    IBatchSpout,
    MemoryMapState,
    ReducerAggregator,
    RequestError,
    RetryPolicy,
    Row,
    SinkTransaction,
    State,
    StateFactory,
    StateUpdater,
    TransactionalSink,
    TridentCollector,
    TridentConfig,
    TridentTopology,
    counter,
)

pytestmark = pytest.mark.spark

PATIENCE_SECONDS = 240
BATCHES = 6
LARGE = 5000
"""More rows than share a job."""


def numbers(*batches: Sequence[int]) -> FixedBatchSpout:
    """A batch for each of these; all as long as the first."""
    return FixedBatchSpout("n bigint", len(batches[0]), *[(n,) for batch in batches for n in batch])


def run(topology: TridentTopology, spark: SparkSession, **settings: Any) -> list[dict[str, int]]:
    """What each transaction counted; all together are the totals."""
    config = TridentConfig(retry=RetryPolicy(attempts=5, backoff=0.01), **settings)
    with topology.start(config, spark=spark, coordination=LocalCoordination()) as query:
        query.process_all_available(PATIENCE_SECONDS)
        found = [each["counts"] for each in query.recent_progress]
        names = {name for counts in found for name in counts}
        assert query.status.counts == {name: sum(counts.get(name, 0) for counts in found) for name in names}
    return found


def passing(name: str) -> Callable[[Row], Row]:
    """Gives each row as it is, and counts it."""

    def passed(row: Row) -> Row:
        counter(name).add()
        return row

    return passed


def reports_offsets(name: str) -> Callable[[Row], bool]:
    """Keeps each row, and counts it."""
    passed = passing(name)
    return lambda row: passed(row) is row


class Odd(Filter):
    """Keeps odd numbers, and counts those that it drops."""

    def is_keep(self, row: Row) -> bool:
        if row.n % 2:
            return True
        counter("even").add(1)
        return False


class Added(CombinerAggregator[int]):
    """A sum, with a count for each number."""

    def init(self, row: Row) -> int:
        counter("init").add(1)
        return int(row.n)

    def combine(self, one: int, other: int) -> int:
        return one + other

    def zero(self) -> int:
        return 0


class Longest(ReducerAggregator[int]):
    """Reduces on the driver, in the commit."""

    def init(self) -> int:
        return 0

    def reduce(self, value: int, row: Row) -> int:
        counter("reduced").add(1)
        return max(value, int(row.n))


def test_each_of_several_small_batches_that_share_a_job_has_its_own_counts(spark: SparkSession) -> None:
    topology = TridentTopology("shared")
    seen = counter("rows")
    stream = topology.new_stream("numbers", numbers(*[range(batch, 10) for batch in [0] * BATCHES]))
    kept = stream.peek(lambda row: seen.add()).each("n", Odd())
    kept.map(lambda row: (row.n % 3, row.n), "rest bigint, n bigint").group_by("rest").persistent_aggregate(
        MemoryMapState.factory(), Added(), "sum bigint"
    )
    assert run(topology, spark, max_spout_pending=BATCHES) == [{"rows": 10, "even": 5, "init": 5}] * BATCHES


def test_a_batch_whose_rows_fail_counts_when_it_is_committed_and_others_once(spark: SparkSession) -> None:
    failed: set[int] = set()

    class Flaky(State):
        def begin_commit(self, txid: int | None) -> None:
            pass

        def commit(self, txid: int | None) -> None:
            if txid == 3 and txid not in failed:
                failed.add(txid)
                raise ConnectionError("once")

    class Made(StateFactory):
        def make_state(self, conf: Any, metrics: Any, partition_index: int, num_partitions: int) -> State:
            return Flaky()

    class Updater(StateUpdater[Any]):
        def update_state(self, state: Any, tuples: Sequence[Row], collector: TridentCollector) -> None:
            counter("updated").add(len(tuples))

    topology = TridentTopology("failing")
    stream = topology.new_stream("numbers", numbers(*[[n, n] for n in range(BATCHES)]))
    stream.filter(reports_offsets("seen")).partition_persist(Made(), Updater(), "n")
    assert run(topology, spark, max_spout_pending=BATCHES) == [{"seen": 2, "updated": 2}] * BATCHES
    assert failed == {3}


def forked(*batches: Sequence[int]) -> TridentTopology:
    """One function, of which three branches read; one of them twice."""
    topology = TridentTopology("forked")
    stream = topology.new_stream("numbers", numbers(*batches))
    checked = stream.filter(reports_offsets("checked"))
    checked.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    checked.group_by("n").persistent_aggregate(MemoryMapState.factory(), Longest(), "longest bigint")
    topology.merge(checked.project("n"), checked.map(lambda row: (row.n,), "n bigint")).peek(lambda row: None)
    return topology


@pytest.mark.slow
def test_a_function_that_several_branches_run_over_the_same_rows_counts_once(spark: SparkSession) -> None:
    topology = forked(range(LARGE), range(LARGE))
    assert run(topology, spark, max_spout_pending=2) == [{"checked": LARGE, "reduced": LARGE}] * 2


def test_a_stage_that_spark_runs_twice_or_that_gives_no_rows_counts_once(spark: SparkSession) -> None:
    topology = TridentTopology("twice")
    stream = topology.new_stream("numbers", numbers(range(LARGE)))
    counted = stream.map(passing("sampled"), "n bigint")
    ranged = counted.transform(
        lambda frame: frame.repartitionByRange(4, "n"), "n bigint"
    )  # reads it for a sample first
    ranged.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    dropped = stream.peek(passing("dropped")).filter(lambda row: False)
    dropped.shuffle().group_by("n").persistent_aggregate(MemoryMapState.factory(), Added(), "sum bigint")
    assert run(topology, spark) == [{"sampled": LARGE, "dropped": LARGE}]


class Twice(TransactionalSink[None]):
    """Reads its frame twice, and not to the end before that."""

    def recover(self, topology: Any, epoch: int) -> None:
        return None

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> None:
        counter("prepared").add()
        assert frame.limit(1).collect()
        assert frame.count() == len(frame.collect())

    def commit(self, tx: SinkTransaction, receipt: None) -> None:
        counter("committed").add()

    def abort(self, tx: SinkTransaction, receipt: None) -> None:
        pass


@NEEDS_REPORTS
def test_what_a_sink_reads_twice_counts_once(spark: SparkSession) -> None:
    topology = TridentTopology("sink")
    stream = topology.new_stream("numbers", numbers(range(10), range(10)))
    stream.map(passing("mapped"), "n bigint").write_to(Twice())
    assert run(topology, spark) == [{"mapped": 10, "prepared": 1, "committed": 1}] * 2


class Emitting(IBatchSpout):
    """Emits two batches on the driver."""

    output_schema = "n bigint"

    def open(self, conf: Any, context: Any) -> None:
        pass

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        if batch_id <= 2:
            counter("emitted").add(batch_id)
            collector.emit((batch_id,))

    def ack(self, batch_id: int) -> None:
        with pytest.raises(CounterError, match="outside of a transaction"):
            counter("acked").add()

    def close(self) -> None:
        pass


def test_emitters_count_and_outside_of_a_transaction_it_is_an_error(spark: SparkSession) -> None:
    topology = TridentTopology("emitting")
    stream = topology.new_stream("numbers", Emitting())
    stream.peek(lambda row: None)
    topology.new_drpc_stream("f").map(passing("requests"), "args string")
    with topology.start(spark=spark, coordination=LocalCoordination()) as query:
        while len(query.recent_progress) < 2:
            assert not query.await_termination(0.05)
        assert [each["counts"] for each in query.recent_progress[:2]] == [{"emitted": 1}, {"emitted": 2}]
        with pytest.raises(RequestError, match=r"'requests'.* was called outside of a transaction"):
            query.execute("f", "x")
    with pytest.raises(CounterError):
        counter("nowhere").add()
