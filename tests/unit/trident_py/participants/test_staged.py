"""A state whose change is staged by tasks: what is merged is what was reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from coordinators.values.attempt import TransactionAttempt
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import StagingState
from trident_py.operations.builtin import Count
from trident_py.participants.states import Staged, StagedParticipant
from trident_py.states.memory import MemoryMapState

TX = SinkTransaction(TransactionKey("uuid", 1, 1), TransactionAttempt(1, 0), 1)
REPORTS = pa.table({"task": [0, 1], "rows": [3, 4]})


class Staging(MemoryMapState[int], StagingState[int]):
    """Keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        return members

    def begin_member(self, tx: SinkTransaction) -> None: ...

    def commit_group(self) -> None: ...

    def stage(self, tx: SinkTransaction, frame: Any) -> Any:
        return f"{frame} staged for {tx.attempt}"

    def merges(self, aggregator: Any) -> bool:
        return True

    def merge_staged(self, reports: Sequence[Sequence[Any]], aggregator: Any) -> None:
        self.told.append(("merge", list(map(tuple, reports))))

    def discard(self, tx: SinkTransaction) -> None:
        self.told.append("discard")


def participant() -> tuple[Staging, StagedParticipant]:
    state = Staging()
    return state, StagedParticipant(name="counts", state=state, aggregator=Count(), keys=1)


def test_what_is_merged_is_what_the_tasks_that_spark_returned_have_reported() -> None:
    state, counts = participant()
    frame: Any = "rows"
    receipt = counts.prepare(TX, frame, lambda staging: REPORTS if str(staging) == "rows staged for 1:0" else None)
    assert receipt == Staged(REPORTS)
    counts.commit_group([(TX, receipt)])
    assert state.told == [("merge", [(0, 3), (1, 4)])]


def test_what_an_attempt_has_staged_is_removed_also_where_it_did_not_finish() -> None:
    for receipt in (Staged(REPORTS), None):
        state, counts = participant()
        counts.abort(TX, receipt)
        assert state.told == ["discard"]


def test_a_small_batch_has_staged_nothing() -> None:
    state, counts = participant()
    counts.abort(TX, pa.table({"word": ["a"], "count": [1]}))
    assert state.told == []
