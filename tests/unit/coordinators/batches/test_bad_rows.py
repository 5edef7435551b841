"""Which bad rows an attempt leaves out, by what earlier attempts have found."""

from __future__ import annotations

from coordinators.batches.bad_rows import LOOKS_FOR, BadRowsOfAttempts
from coordinators.protocol.messages import BadRowsFound
from coordinators.record.bad_rows import BadRow
from coordinators.record.record import CommitIntent, CoordinatorRecord, decode, encode
from coordinators.values.attempt import TransactionAttempt

FIRST, SECOND, OTHER = TransactionAttempt(1, 0), TransactionAttempt(1, 1), TransactionAttempt(2, 0)


def bad(hashed: int) -> BadRow:
    return BadRow(branch="log", spout="s", hash=hashed, operation="map(f)", error="no")


def known(*found: BadRowsFound) -> BadRowsOfAttempts:
    made = BadRowsOfAttempts({})
    for each in found:
        made.take(each)
    return made


def test_nothing_is_fixed_before_a_commit_has_begun() -> None:
    assert known(BadRowsFound(FIRST, (bad(1),))).fixed(1, ()) is None


def test_the_rows_of_the_attempt_whose_commit_has_begun_are_fixed_of_all_spouts() -> None:
    rows = known(BadRowsFound(FIRST, (bad(1),)), BadRowsFound(FIRST, (bad(2),)), BadRowsFound(SECOND, (bad(3),)))
    assert rows.fixed(1, [FIRST]) == (bad(1), bad(2))
    assert rows.durable([FIRST, OTHER]) == {1: (bad(1), bad(2))}


def test_that_there_are_none_is_fixed_too() -> None:
    assert known().fixed(2, [OTHER]) == ()


def test_bad_rows_are_looked_for_after_a_failure_and_for_a_while_after_some() -> None:
    rows = known()
    assert [rows.are_looked_for(1, has_failed=each) for each in (False, True)] == [False, True]
    rows.take(BadRowsFound(OTHER, ()))
    assert not rows.are_looked_for(3, has_failed=False)
    rows.take(BadRowsFound(OTHER, (bad(1),)))
    assert [rows.are_looked_for(OTHER.txid + more, has_failed=False) for more in (1, LOOKS_FOR, LOOKS_FOR + 1)] == [
        True,
        True,
        False,
    ]


def test_the_next_leader_knows_them() -> None:
    rows = known(BadRowsFound(FIRST, (bad(1),)))
    committing = (CommitIntent(FIRST, "h"), CommitIntent(OTHER, "h"))
    stored = encode(CoordinatorRecord(1, committing=committing, bad_rows=rows.durable([FIRST, OTHER])))
    restored = BadRowsOfAttempts.restored(decode(stored.head, stored.blobs, where="here"))
    assert (restored.fixed(1, [FIRST, OTHER]), restored.fixed(2, [FIRST, OTHER])) == ((bad(1),), ())


def test_closed_transactions_are_forgotten() -> None:
    rows = known(BadRowsFound(FIRST, (bad(1),)), BadRowsFound(OTHER, (bad(2),)))
    rows.forget_before(2)
    assert rows.durable([FIRST, OTHER]) == {2: (bad(2),)}
