"""A spout that compares its source with what a batch was defined for, after the batch was read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from trident_py import Count, FailedException, RetryPolicy, SpoutError, SQLiteState, TridentTopology
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.testing import LocalCoordination


def read(split: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"n": pa.array([split], pa.int64())})


class Once(BatchCoordinator[int]):
    def is_ready(self, txid: int) -> bool:
        return txid == 1

    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        return txid

    def success(self, txid: int) -> None:
        pass

    def close(self) -> None:
        pass


class Comparing(Emitter[int]):
    def __init__(self, answers: Iterator[BaseException | None], on_driver: bool) -> None:
        self.answers, self.on_driver = answers, on_driver

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        collector.emit_splits([1, 2], read, on_driver=self.on_driver, verify=self.verify)

    def verify(self) -> None:
        answer = next(self.answers)
        if answer:
            raise answer


class ComparingSpout(ITridentSpout[int]):
    output_schema = "n bigint"

    def __init__(self, answers: list[BaseException | None], on_driver: bool) -> None:
        self.answers, self.on_driver = iter(answers), on_driver

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Once:
        return Once()

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> Comparing:
        return Comparing(self.answers, self.on_driver)


def counted(directory: Path, spout: ComparingSpout, spark: Any) -> None:
    topology = TridentTopology("compared")
    stream = topology.new_stream("numbers", spout)
    if spark is not None:
        stream = stream.transform(lambda frame: frame)
    stream.group_by("n").persistent_aggregate(SQLiteState(directory / "counts.db", table="counts"), Count(), "count")
    config = TridentConfig(retry=RetryPolicy(backoff=0.01))
    with topology.start(config, spark=spark, coordination=LocalCoordination()) as query:
        query.process_all_available()


def counts(directory: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(directory / "counts.db")) as connection:
        return connection.execute("SELECT n, count FROM counts ORDER BY n").fetchall()


WAYS = [
    pytest.param(True, False, id="on the driver"),
    pytest.param(False, False, id="by python"),
    pytest.param(False, True, id="by tasks of spark", marks=pytest.mark.spark),
]


@pytest.mark.parametrize(("on_driver", "by_spark"), WAYS)
def test_a_source_that_isnt_what_was_read_ends_the_topology_before_a_commit(
    tmp_path: Path, request: pytest.FixtureRequest, on_driver: bool, by_spark: bool
) -> None:
    spark = request.getfixturevalue("spark") if by_spark else None
    with pytest.raises(SpoutError, match="another topic") as caught:
        counted(tmp_path, ComparingSpout([SpoutError("another topic")], on_driver), spark)
    assert (caught.value.topology, caught.value.spout, caught.value.txid) == ("compared", "numbers", 1)
    assert counts(tmp_path) == []


@pytest.mark.parametrize(("on_driver", "by_spark"), WAYS)
def test_a_source_that_cant_be_asked_after_a_batch_was_read_is_waited_for(
    tmp_path: Path, request: pytest.FixtureRequest, on_driver: bool, by_spark: bool
) -> None:
    spark = request.getfixturevalue("spark") if by_spark else None
    away: list[BaseException | None] = [FailedException("the cluster is away") for _ in range(7)]
    counted(tmp_path, ComparingSpout([*away, None], on_driver), spark)
    assert counts(tmp_path) == [(1, 1), (2, 1)]
