from __future__ import annotations

from tests.unit.trident_py.history.told import PROGRAM, committed, emitted, ended, leading
from trident_py.web.live import ATTEMPTS_KEPT, RecentTransactions


def recent() -> RecentTransactions:
    return RecentTransactions(PROGRAM, lambda: None)


def test_the_last_transactions_are_those_with_the_highest_txids() -> None:
    kept = recent()
    kept.receive([leading(), emitted("1:0"), emitted("2:0"), committed("1:0"), emitted("2:1")])
    assert [(each.txid, each.last.outcome, len(each.attempts)) for each in kept.last(10)] == [
        (1, "committed", 1),
        (2, "processing", 2),
    ]
    assert [each.txid for each in kept.last(1)] == [2]


def test_memory_does_not_grow_with_the_number_of_transactions() -> None:
    kept = recent()
    kept.receive([leading()])
    for txid in range(1, 3 * ATTEMPTS_KEPT, 50):
        kept.receive([emitted(f"{each}:0") for each in range(txid, txid + 50)])
    found = kept.last(10 * ATTEMPTS_KEPT)
    assert len(found) == ATTEMPTS_KEPT
    assert found[-1].txid == 3 * ATTEMPTS_KEPT


def test_the_end_is_told_behind_everything_else() -> None:
    told: list[list[str]] = []
    kept = RecentTransactions(PROGRAM, lambda: told.append([each.last.outcome for each in kept.last(10)]))
    kept.receive([leading(), emitted("1:0")])
    assert kept.ended is None
    kept.receive([committed("1:0"), emitted("2:0"), ended()])
    assert told == [["committed", "abandoned"]]
    assert kept.ended is not None
