"""Messages to the driver: which kind of failure counts against a batch."""

from __future__ import annotations

from coordinators.protocol.messages import FailureKind


def test_only_what_the_batch_itself_has_done_counts_against_it() -> None:
    assert [kind for kind in FailureKind if kind.counts] == [FailureKind.USER_CODE]
