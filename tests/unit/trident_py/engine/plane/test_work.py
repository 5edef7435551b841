"""What a job says that has only found rows."""

from __future__ import annotations

from coordinators.protocol.messages import Acked, RowsFailed
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from trident_py.engine.plane.work import BranchInput, JobMember, Processed


def test_rows_are_told_before_the_job_is_acked_and_a_spout_without_any_is_not_named() -> None:
    trial = TransactionAttempt(TRIAL_TXID, 3)
    member = JobMember(trial, 7, {"lines": BranchInput(11, None), "words": BranchInput(12, None)})
    done = Processed.sieved(member, {"lines": [5, 2], "words": []})
    assert done.receipt is None
    assert done.reports == [
        RowsFailed(trial, "lines", (2, 5)),
        Acked(trial, StreamId.BATCH, 11),
        Acked(trial, StreamId.BATCH, 12),
    ]
