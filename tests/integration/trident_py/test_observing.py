"""What a running topology tells: its listeners, and whoever asks for its status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql import SparkSession

from coordinators.backends.local import LocalCoordination
from trident_py import (
    CommittedEvent,
    DeltaSink,
    EmittedEvent,
    EndedEvent,
    FailedEvent,
    FeederBatchSpout,
    FileSink,
    ForeachBatchSink,
    LeadingEvent,
    MemoryMapState,
    PoisonBatchError,
    ProcessedEvent,
    Row,
    SQLiteState,
    SQLSink,
    SucceededEvent,
    Sum,
    TopologyEvent,
    TridentConfig,
    TridentError,
    TridentListener,
    TridentTopology,
)
from trident_py.interfaces.config import RetryPolicy

pytestmark = pytest.mark.spark

PATIENCE_SECONDS = 180


@define(eq=False)
class Hearing(TridentListener):
    """Keeps all that it hears."""

    events: list[TopologyEvent] = field(factory=list)

    def on_leading(self, event: LeadingEvent) -> None:
        self.events.append(event)

    def on_emitted(self, event: EmittedEvent) -> None:
        self.events.append(event)

    def on_processed(self, event: ProcessedEvent) -> None:
        self.events.append(event)

    def on_committed(self, event: CommittedEvent) -> None:
        self.events.append(event)

    def on_succeeded(self, event: SucceededEvent) -> None:
        self.events.append(event)

    def on_failed(self, event: FailedEvent) -> None:
        self.events.append(event)

    def on_ended(self, event: EndedEvent) -> None:
        self.events.append(event)
        raise ValueError("whatever a listener raises changes nothing")

    @property
    def heard(self) -> list[str]:
        return [f"{each.method.removeprefix('on_')} {each.attempt or ''}".strip() for each in self.events]


def checked(row: Row) -> Row:
    if row.n < 0:
        raise ValueError(f"{row.n} is negative")
    return row


def sums(spout: Any) -> TridentTopology:
    topology = TridentTopology("sums")
    numbers = topology.new_stream("numbers", spout).map(checked, "n bigint")
    numbers.persistent_aggregate(MemoryMapState.factory(), Sum("n"), "sum")
    return topology


def test_a_listener_hears_what_becomes_of_each_transaction_until_the_end(spark: SparkSession) -> None:
    hearing, spout = Hearing(), FeederBatchSpout("n bigint")
    config = TridentConfig(retry=RetryPolicy(attempts=2, backoff=0.01))
    query = sums(spout).start(config, spark=spark, listeners=[hearing], coordination=LocalCoordination())
    spout.feed([(1,), (2,)])
    assert query.status.committed == 1
    assert query.last_progress
    assert query.last_progress["num_input_rows"] == query.status.rows == 2
    with pytest.raises(TridentError):
        spout.feed([(-1,)])
    with pytest.raises(PoisonBatchError):
        query.await_termination(PATIENCE_SECONDS)
    assert hearing.heard == [
        "leading",
        "emitted 1:0",
        "processed 1:0",
        "committed 1:0",
        "succeeded 1:0",
        "emitted 2:0",
        "failed 2:0",
        "emitted 2:1",
        "failed 2:1",
        "ended",
    ]
    ended, failed = hearing.events[-1], hearing.events[-2]
    assert isinstance(ended, EndedEvent)
    assert isinstance(failed, FailedEvent)
    assert "-1 is negative" in str(failed.error)
    assert ended.error is query.exception()
    assert query.status.message.startswith("failed: ")


def test_a_standby_tells_that_it_leads_when_it_does(spark: SparkSession) -> None:
    place, first, second = LocalCoordination(), Hearing(), Hearing()
    leading = sums(FeederBatchSpout("n bigint")).start(spark=spark, listeners=[first], coordination=place)
    spout = FeederBatchSpout("n bigint")
    waiting = sums(spout).start(spark=spark, listeners=[second], coordination=place, standby=True)
    assert waiting.status.epoch is None
    leading.stop()
    assert first.heard == ["leading", "ended"]
    spout.feed([(1,)])
    waiting.stop()
    assert second.heard == ["leading", "emitted 1:0", "processed 1:0", "committed 1:0", "succeeded 1:0", "ended"]
    epochs = [each.epoch for each in (*first.events, *second.events) if isinstance(each, LeadingEvent)]
    assert epochs == [1, 2]


def test_a_commit_tells_how_many_rows_it_writes_into_each_state_and_sink_that_can_tell(
    spark: SparkSession, tmp_path: Path
) -> None:
    spout, hearing = FeederBatchSpout("word string, n bigint"), Hearing()
    topology = TridentTopology("written")
    rows = topology.new_stream("rows", spout).shuffle()
    rows.filter("n > 0").name("files").write_to(FileSink(tmp_path / "files"))
    rows.name("table").write_to(SQLSink(f"sqlite:///{tmp_path / 'rows.db'}", "rows"))
    rows.name("delta").write_to(DeltaSink(str(tmp_path / "delta")))
    rows.name("each").write_to(ForeachBatchSink(lambda frame, tx: frame.count()))  # nobody knows how many
    rows.group_by("word").persistent_aggregate(SQLiteState(tmp_path / "s.db", table="sums"), Sum("n"), "sum")
    with topology.start(spark=spark, coordination=LocalCoordination(), listeners=[hearing]) as query:
        spout.feed([("a", 0), ("b", 1), ("a", 2)])
        query.process_all_available(PATIENCE_SECONDS)
        spout.feed([("a", 0)])
        query.process_all_available(PATIENCE_SECONDS)
    committed = [each for each in hearing.events if isinstance(each, CommittedEvent)]
    assert [(each.rows, each.written) for each in committed] == [
        (3, {"files": 2, "table": 3, "delta": 3, "sums": 2}),
        (1, {"files": 0, "table": 1, "delta": 1, "sums": 1}),
    ]
