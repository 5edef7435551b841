"""User-written sinks, and what several states get of a spout that gives other rows each time it is read."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import DataFrame, SparkSession

from tests.integration.trident_py.test_query import PATIENCE_SECONDS, CommitterSpout, FailingOnce, Numbered
from trident_py import (
    CommitToken,
    Count,
    Emitter,
    ITridentSpout,
    Max,
    MemoryMapState,
    Replay,
    SinkTransaction,
    SpoutError,
    TopologyContext,
    TransactionalSink,
    TransactionAttempt,
    TridentCollector,
    TridentConfig,
    TridentTopology,
)

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


@define
class ListSink(TransactionalSink[list[tuple[Any, ...]]]):
    """Keeps rows in memory, with the token beside them."""

    rows: list[tuple[Any, ...]] = field(factory=list)
    token: CommitToken | None = None
    log: list[str] = field(factory=list)

    def recover(self, topology: Any, epoch: int) -> CommitToken | None:
        self.log.append(f"recover {topology.name}")
        return self.token

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in frame.collect()]

    def commit(self, tx: SinkTransaction, receipt: list[tuple[Any, ...]]) -> None:
        assert self.token is None or tx.token > self.token
        self.rows += receipt
        self.token = tx.token

    def abort(self, tx: SinkTransaction, receipt: list[tuple[Any, ...]] | None) -> None:
        self.log.append(f"abort {tx.attempt}")


def test_a_user_written_sink_gets_each_batch_once_in_order_over_restarts(
    spark: SparkSession, config: TridentConfig
) -> None:
    sink = ListSink()
    for upto in (2, 4):
        topology = TridentTopology("sink")
        topology.new_stream("numbers", CommitterSpout(upto)).write_to(sink)
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
    assert sink.rows == [(10,), (20,), (30,), (40,)]
    assert sink.log == ["recover sink", "recover sink"]


class RandomSpout(ITridentSpout[int]):
    """Rows that are drawn anew whenever Spark reads them."""

    output_schema = "number double"
    replay = Replay.OPAQUE

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Numbered:
        return Numbered(2)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[int]:
        assert context.spark is not None
        drawn = context.spark.range(5).selectExpr("CAST(reflect('java.lang.Math', 'random') AS double) AS number")

        class Drawing(Emitter[int]):
            def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
                collector.emit_dataframe(drawn)

        return Drawing()


def test_several_states_see_the_same_rows_of_a_spout_that_draws_them_anew(
    spark: SparkSession, config: TridentConfig
) -> None:
    topology = TridentTopology("random")
    numbers = topology.new_stream("numbers", RandomSpout())
    drawn, largest = MemoryMapState.factory(), MemoryMapState.factory()
    numbers.group_by("number").persistent_aggregate(drawn, Count(), "count")
    numbers.persistent_aggregate(largest, Max("number"), "largest")
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    assert len(drawn.values()) == 10
    assert largest.values()[()] == max(number for (number,) in drawn.values())


class Unfaithful(RandomSpout):
    """Says that it gives the same again, and doesn't: rows, Arrow data or none at all."""

    replay = Replay.EXACT

    def __init__(self, given: list[list[tuple[Any, ...]]]) -> None:
        self.given = given

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Emitter[int]:
        class Changing(Emitter[int]):
            def emit_batch(changing, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:  # noqa: N805
                for row in self.given[min(attempt.attempt_id, len(self.given) - 1)]:
                    collector.emit(row)

        return Changing()


WIDE = "n int, d decimal(20,3), at timestamp, a array<int>, m map<string,int>, s struct<x:double,y:string>"


def wide(number: int) -> tuple[Any, ...]:
    moment = datetime(2026, 11, 22, tzinfo=UTC)
    return (number, Decimal("0.5"), moment, [number, None], {"ü": number}, {"x": -0.0, "y": None})


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        ([wide(1), wide(2)], [wide(2), wide(1)], None),
        ([wide(1), wide(1)], [wide(2), wide(2)], "read other rows, but as many, where an earlier one read 2 rows"),
        ([wide(1), wide(2)], [wide(1)], "read 1 rows where an earlier one read 2 rows"),
        ([wide(1)], [(*wide(1)[:4], {"ü": 2}, wide(1)[5])], "read other rows"),
        ([], [wide(1)], "read 1 rows where an earlier one read 0 rows"),
        ([wide(1)], [], "read 0 rows where an earlier one read 1 rows"),
    ],
)
def test_a_replay_of_an_exact_spout_is_the_same_rows_in_any_order_or_an_error_that_names_it(
    first: Any, second: Any, complaint: str | None, spark: SparkSession, config: TridentConfig
) -> None:
    class Failing(FailingOnce):
        def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None:
            assert len(tuples) in (len(first), len(second))

    spout, failing, counts = Unfaithful([first, second]), Failing(), MemoryMapState.factory()
    spout.output_schema = WIDE
    topology = TridentTopology("unfaithful")
    stream = topology.new_stream("numbers", spout)
    stream.partition_persist(failing, failing, "n")
    stream.persistent_aggregate(counts, Count(), "count")
    query = topology.start(config, spark=spark)
    if complaint is None:
        with query:
            query.process_all_available(PATIENCE_SECONDS)
        assert counts.values() == {(): 2 * len(first)}
        return
    where = r"'unfaithful', spout 'numbers', transaction (\d): attempt \1:1"
    with query, pytest.raises(SpoutError, match=f"{where} {complaint}"):
        query.process_all_available(PATIENCE_SECONDS)
