from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field

from coordinators.attempt import TransactionAttempt
from trident_py.engine.spout_executor import TridentSpoutExecutor
from trident_py.errors import FailedException
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.spouts import CommitterEmitter
from trident_py.rows.schema import schema_of


@define
class Numbers(CommitterEmitter[int]):
    commits: list[TransactionAttempt] = field(factory=list)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: TridentCollector) -> None:
        collector.emit((metadata,))

    def commit(self, attempt: TransactionAttempt) -> None:
        self.commits.append(attempt)


def test_a_commit_of_another_attempt_than_the_emitted_one_fails() -> None:
    emitter = Numbers()
    executor = TridentSpoutExecutor("t", "s", schema_of("n bigint"), emitter, Metrics())
    older, newer = TransactionAttempt(1, 0), TransactionAttempt(1, 1)
    executor.emit_batch(older, 7)
    executor.emit_batch(newer, 7)
    for attempt in (older, TransactionAttempt(2, 0)):
        with pytest.raises(FailedException, match=f"different transaction attempt: {attempt}"):
            executor.commit(attempt)
    executor.commit(newer)
    assert emitter.commits == [newer]
    executor.success(newer)
    with pytest.raises(FailedException):
        executor.commit(newer)
