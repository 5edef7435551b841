"""A line for each committed transaction, and no more of them than are remembered."""

from __future__ import annotations

from coordinators.status.listener import CommittedEvent
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.monitoring.listeners import RECENT, Progress


def committed(txid: int, words: int = 1) -> CommittedEvent:
    """So many words of ten rows."""
    return CommittedEvent(
        topology="wc",
        attempt=TransactionAttempt(txid, 1),
        at=1.5,
        rows=10,
        counts={"words": words},
        processing=0.25,
        committing=0.5,
    )


def test_a_line_tells_of_a_transaction_and_of_all_so_far() -> None:
    progress = Progress()
    progress.follow(lambda: 7, lambda: {"retries": 2})
    for txid in (1, 2):
        progress.on_committed(committed(txid, words=txid))
    assert progress.recent()[-1] == {
        "name": "wc",
        "timestamp": "1970-01-01T00:00:01.500+00:00",
        "txid": 2,
        "attempt_id": 1,
        "num_input_rows": 10,
        "counts": {"words": 2},
        "duration_ms": {"processing": 250.0, "committing": 500.0, "total": 750.0},
        "committed_transactions": 2,
        "total_input_rows": 20,
        "total_counts": {"words": 3},
        "zookeeper_writes": 7,
        "metrics": {"retries": 2},
    }


def test_only_the_last_transactions_are_remembered() -> None:
    progress = Progress()
    for txid in range(1, RECENT + 3):
        progress.on_committed(committed(txid))
    recent = progress.recent()
    assert [recent[0]["txid"], len(recent)] == [3, RECENT]
    assert recent[-1]["committed_transactions"] == RECENT + 2
