"""Spouts are passed where each row of the source is in one committed batch, and condemned by what they break."""

from __future__ import annotations

import time
from typing import Any

import pytest

from trident_py import BatchCoordinator, Emitter, ITridentSpout, TransactionAttempt, TridentCollector
from trident_py.conformance.report import Rule
from trident_py.spouts import IPartitionedTridentSpout, PartitionedCoordinator, PartitionedEmitter
from trident_py.testing import Report, check_spout

ROWS = [(f"row {number}",) for number in range(9)]


class Ranges(BatchCoordinator[list[int]]):
    """Three rows a batch, from where the batch before ended."""

    def is_ready(self, txid: int) -> bool:
        return txid <= 3

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        start = prev_metadata[1] if prev_metadata else 0
        return curr_metadata or [start, start + 3]


class FromMemory(Ranges):
    at = 0

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        if curr_metadata is None:
            self.at += 3
        return curr_metadata or [self.at - 3, self.at]


class Skips(Ranges):
    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        start = (prev_metadata[1] if prev_metadata else 0) + (txid == 2)
        return curr_metadata or [start, start + 3]


class Clock(Ranges):
    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        start = prev_metadata[1] if prev_metadata else 0
        return [start, start + 3, time.time()]


class Rows(Emitter[list[int]]):
    def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: TridentCollector) -> None:
        for row in ROWS[metadata[0] : metadata[1]]:
            collector.emit(row)

    def success(self, attempt: TransactionAttempt) -> None:
        pass

    def close(self) -> None:
        pass


class FewerAgain(Rows):
    def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: TridentCollector) -> None:
        super().emit_batch(attempt, [metadata[0] + min(attempt.attempt_id, 1), metadata[1]], collector)


class Spout(ITridentSpout[list[int]]):
    output_schema = "line string"

    def __init__(self, coordinator: type[Ranges], emitter: type[Rows]) -> None:
        self.coordinator, self.emitter = coordinator, emitter

    def get_coordinator(self, *_: object) -> Ranges:
        return self.coordinator()

    def get_emitter(self, *_: object) -> Rows:
        return self.emitter()


def checked(make: Any) -> Report:
    return check_spout(make, lambda: ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coordinator", "emitter", "rule"),
    [
        (FromMemory, Rows, Rule.NO_ROW_TWICE),
        (Skips, Rows, Rule.NO_ROW_LOST),
        (Clock, Rows, Rule.SAME_METADATA),
        (Ranges, FewerAgain, Rule.SAME_AGAIN),
    ],
)
def test_a_spout_is_condemned_by_the_rule_that_it_breaks(
    coordinator: type[Ranges], emitter: type[Rows], rule: Rule
) -> None:
    report = checked(lambda: Spout(coordinator, emitter))
    assert rule in [each.rule for each in report.violations], str(report)


@pytest.mark.slow
def test_a_spout_that_is_right_passes() -> None:
    report = checked(lambda: Spout(Ranges, Rows))
    assert report.ok, str(report)


class Halves(PartitionedCoordinator[list[str]]):
    def __init__(self) -> None:
        self.positions: Any = {}

    def get_partitions_for_batch(self) -> list[str]:
        return ["0", "4"]

    def emitted(self, positions: Any) -> None:
        self.positions = positions

    def is_ready(self, txid: int) -> bool:
        return any(self.positions.get(name, 0) < 4 for name in ("0", "4"))


class Half(PartitionedEmitter[list[str], str, int]):
    def emit_batch_new(
        self, tx: Any, collector: TridentCollector, partitions: Any, last_partition_meta_map: Any
    ) -> Any:
        moved = {name: last_partition_meta_map.get(name, 0) + 2 for name in partitions}
        for name in [name for name, end in moved.items() if end <= 4]:
            Half.re_emit_partition_batch(self, tx, collector, name, moved[name])
        return {name: end for name, end in moved.items() if end <= 4}

    def re_emit_partition_batch(
        self, tx: Any, collector: TridentCollector, partition: str, partition_meta: int
    ) -> None:
        for row in ROWS[int(partition) + partition_meta - 2 : int(partition) + partition_meta]:
            collector.emit(row)


class OtherHalf(Half):
    def re_emit_partition_batch(
        self, tx: Any, collector: TridentCollector, partition: str, partition_meta: int
    ) -> None:
        super().re_emit_partition_batch(tx, collector, partition, 2)


class Partitioned(IPartitionedTridentSpout[list[str], str, int]):
    output_schema = "line string"

    def __init__(self, emitter: type[Half]) -> None:
        self.emitter = emitter

    def get_coordinator(self, *_: object) -> Halves:
        return Halves()

    def get_emitter(self, *_: object) -> Half:
        return self.emitter()


@pytest.mark.slow
@pytest.mark.parametrize(("emitter", "rules"), [(Half, []), (OtherHalf, [Rule.SAME_AGAIN])])
def test_a_partition_gives_the_same_rows_when_its_batch_is_emitted_again(
    emitter: type[Half], rules: list[Rule]
) -> None:
    report = check_spout(lambda: Partitioned(emitter), lambda: ROWS[:8])
    assert [each.rule for each in report.violations] == rules, str(report)
