"""What becomes of events in a history."""

from __future__ import annotations

import pytest

from tests.unit.trident_py.history.told import (
    ALL_GOOD,
    LIFE,
    PROGRAM,
    attempt,
    committed,
    emitted,
    ended,
    failed,
    leading,
    processed,
    succeeded,
)
from trident_py.history.entries import AttemptEntry, Change, Entries, LeadershipEntry
from trident_py.worker.failures import text_of


def test_a_transaction_is_one_entry_with_all_that_was_told_of_it() -> None:
    known = {"rows": 7, "written": {"counts": 3}, "counts": {"bad": 1}, "processing": 1.5}
    change = Entries(PROGRAM).take(
        [
            leading(),
            emitted("1:0"),
            processed("1:0", **known),
            committed("1:0", **known, committing=0.5, waiting=0.2, definition={"lines": [0, 3]}),
        ]
    )
    assert change.leadership == LeadershipEntry(life=LIFE, epoch=1, program=PROGRAM, current_txid=1, since=100.0)
    assert change.attempts == (
        AttemptEntry(
            life=LIFE,
            epoch=1,
            attempt=attempt("1:0"),
            number=1,
            phase="committed",
            emitted=101.0,
            ended=103.0,
            processing=1.5,
            waiting=0.2,
            committing=0.5,
            rows=7,
            written={"counts": 3},
            counts={"bad": 1},
            definition={"lines": [0, 3]},
        ),
    )


def test_what_has_changed_is_told_each_time_and_what_has_not_is_not() -> None:
    entries = Entries(PROGRAM)
    assert len(entries.take([leading(), emitted("1:0"), emitted("2:0")]).attempts) == 2
    change = entries.take([processed("2:0")])
    assert (change.life, change.leadership) == (LIFE, None)
    assert [(each.attempt, each.phase) for each in change.attempts] == [(attempt("2:0"), "processed")]
    assert entries.take([]) == Change(LIFE)


def test_a_failure_has_its_error_and_whose_it_was() -> None:
    error = ValueError("bad row")
    error.add_note("in map, at Row(value='x')")
    change = Entries(PROGRAM).take(
        [leading(), emitted("1:0"), emitted("2:0"), failed("1:0", error), failed("2:0", error, by="1:0")]
    )
    text = "ValueError: bad row\nin map, at Row(value='x')"
    assert [(each.phase, each.error, each.failed, each.ended) for each in change.attempts] == [
        ("failed", text, "1:0", 103.0),
        ("failed", text, "1:0", 103.0),
    ]


def test_a_success_is_noted_also_of_what_an_earlier_leadership_has_committed() -> None:
    entries = Entries(PROGRAM)
    (entry,) = entries.take(ALL_GOOD).attempts
    assert (entry.phase, entry.succeeded) == ("committed", 104.0)
    late = succeeded("9:3")
    assert entries.take([late]) == Change(LIFE, succeeded=(late,))


def test_a_parked_transaction_is_not_told_as_committed() -> None:
    entries = Entries(PROGRAM)
    (entry,) = entries.take([leading(), emitted("1:1"), committed("1:1", is_parked=True), succeeded("1:1")]).attempts
    assert (entry.phase, entry.ended, entry.succeeded) == ("parked", 103.0, 104.0)


def test_where_events_were_dropped_what_follows_is_kept() -> None:
    (entry,) = Entries(PROGRAM).take([leading(), committed("1:0", rows=3)]).attempts
    assert (entry.phase, entry.rows, entry.emitted) == ("committed", 3, 103.0)
    assert Entries(PROGRAM).take([emitted("1:0"), succeeded("1:0")]) == Change()  # nobody knows whose


def test_the_number_of_entries_that_more_may_come_of_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.history.entries.LIVE_MAX", 2)
    entries = Entries(PROGRAM)
    entries.take([leading(), emitted("1:0"), emitted("2:0"), emitted("3:0")])
    change = entries.take([succeeded("1:0"), succeeded("3:0")])
    assert change.succeeded == (succeeded("1:0"),)
    assert [each.attempt for each in change.attempts] == [attempt("3:0")]


def test_an_end_says_what_ended_it() -> None:
    entries = Entries(PROGRAM)
    entries.take([leading()])
    change = entries.take([ended(RuntimeError("gone"))])
    assert change.leadership is not None
    assert (change.leadership.ended, change.leadership.error) == (105.0, "RuntimeError: gone")
    assert Entries(PROGRAM).take([ended()]) == Change()  # it only stood by


def test_a_text_is_such_as_every_database_holds() -> None:
    assert text_of(ValueError("a\0b \udc80")) == r"ValueError: a\x00b \udc80"
    assert text_of(None) == ""
    assert len(text_of(ValueError("x" * 100_000))) < 10_000
