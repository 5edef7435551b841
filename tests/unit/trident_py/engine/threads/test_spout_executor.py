"""The wrapper around a user's emitter: which attempt it commits, and what is told of rows that are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.errors import FailedException, SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.spouts import CommitterEmitter, Emitter
from trident_py.rows.schema import schema_of
from trident_py.spouts.arrow_collector import SHOWN_CHARS_MAX


@define
class Numbers(CommitterEmitter[int]):
    commits: list[TransactionAttempt] = field(factory=list)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: TridentCollector) -> None:
        collector.emit((metadata,))

    def commit(self, attempt: TransactionAttempt) -> None:
        self.commits.append(attempt)


class Orders(Emitter[list[int]]):
    """Emits the orders from one number to another; that with the number 2345 is wrong."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: TridentCollector) -> None:
        for number in range(*metadata):
            collector.emit((number, f"s{number}", "three" if number == 2345 else number))


def executor() -> TridentSpoutExecutor:
    return TridentSpoutExecutor("shop", "orders", schema_of("id int, sku string, qty int"), Orders(), Metrics())


def test_a_value_of_another_type_is_told_with_its_row_and_the_definition_of_its_batch() -> None:
    with pytest.raises(SpoutError) as raised:
        executor().emit_batch(TransactionAttempt(5, 0), 4, [2000, 2500])
    told = str(raised.value)
    assert (
        "spout 'orders', attempt 5:0, definition [2000, 2500], row 346 of the batch, (2345, 's2345', 'three')" in told
    )
    assert "'qty'" in told


def test_a_long_row_is_shown_in_part() -> None:
    class Long(Orders):
        def emit_batch(self, attempt: TransactionAttempt, metadata: list[int], collector: TridentCollector) -> None:
            collector.emit((1, "x" * 10**6, "three"))

    spout = executor()
    spout.emitter = Long()
    with pytest.raises(SpoutError) as raised:
        spout.emit_batch(TransactionAttempt(1, 0), 1, [0, 1])
    assert len(str(raised.value)) < 3 * SHOWN_CHARS_MAX


def test_a_commit_of_another_attempt_than_the_emitted_one_fails() -> None:
    emitter = Numbers()
    executor = TridentSpoutExecutor("t", "s", schema_of("n bigint"), emitter, Metrics())
    older, newer = TransactionAttempt(4, 0), TransactionAttempt(4, 1)
    executor.emit_batch(older, 1, 7)
    executor.emit_batch(newer, 1, 7)
    for attempt in (older, TransactionAttempt(5, 0)):
        with pytest.raises(FailedException, match=f"different transaction attempt: {attempt}"):
            executor.commit(attempt, 1)
    executor.commit(newer, 1)
    assert emitter.commits == [TransactionAttempt(1, 1)]  # it knows the transaction by its number
    executor.success(newer, 1)
    with pytest.raises(FailedException):
        executor.commit(newer, 1)
