"""Wishes to bisect, turn by turn: rows are stored first, trials follow, and one write splits the entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinators.protocol.messages import (
    Failed,
    FailureKind,
    Fingerprinted,
    OutputsAnswered,
    RowsFailed,
    RowsStored,
    TrialPassed,
)
from coordinators.record.parking import StoredRows
from coordinators.record.wishes import Action, Outcome
from coordinators.values.canonical import Fingerprint
from tests.unit.coordinators.batches.test_parking_rules import PARKS, commits, fails, parked, refusal, taken_over, wish
from tests.unit.coordinators.world import Numbers, World, attempt


def with_parked(**settings: Any) -> World:
    """A world in which transaction 1 is parked, and 2 is the last."""
    world = World(spouts={"lines": Numbers(upto=2)}).start(**{**PARKS, **settings})
    world.run_until_quiet()
    fails(world, "1:0")
    world.run_until_quiet(OutputsAnswered(1))
    commits(world, "1:1")
    commits(world, "2:0")
    return world


def stored(text: str, rows: int = 4) -> RowsStored:
    return RowsStored(attempt(text), "lines", StoredRows(file=text, host="h", bytes=9, hash="1", rows=rows))


def started(rows: int = 4, raising: Sequence[int] = ()) -> World:
    """A world in which the first trial runs that a failure of may tell something; row functions raise over some."""
    world = with_parked()
    assert wish(world, Action.BISECT, 1) == ["STORE trial-0"]
    batch = world.batches["trial-0"]
    assert (batch.number, dict(batch.metadata), batch.stores) == (1, {"lines": [1, "first"]}, True)
    world.run_until_quiet(stored("trial-0", rows))
    assert world.processed("trial-0") == ["CANCEL trial-0", "SIEVE trial-1"]
    assert tried(world, "trial-1") == ((0, rows),)
    world.run_until_quiet(*(RowsFailed(attempt("trial-1"), "lines", (row,)) for row in raising))
    assert world.processed("trial-1")[0] == "CANCEL trial-1"
    return world


def tried(world: World, text: str) -> tuple[tuple[int, int], ...]:
    return world.batches[text].stored["lines"].runs


def failed(text: str, kind: FailureKind = FailureKind.USER_CODE) -> Failed:
    return Failed(attempt(text), ValueError("bad row"), kind)


def outcome(world: World) -> Outcome:
    return world.driver.record.outcomes[-1]


def test_trials_over_halves_find_the_row_and_one_write_splits_the_entry() -> None:
    world = started()
    assert tried(world, "trial-2") == ((0, 2),)
    assert world.processed("trial-2") == ["TRY trial-2"]
    assert world.run_until_quiet(TrialPassed(attempt("trial-2"))) == ["CANCEL trial-2", "BATCH trial-3"]
    assert tried(world, "trial-3") == ((0, 3),)
    assert world.run_until_quiet(failed("trial-3")) == ["CANCEL trial-3", "BATCH trial-4"]
    assert tried(world, "trial-4") == ((2, 3),)
    world.run_until_quiet(failed("trial-4"))
    assert tried(world, "trial-5") == ((0, 2), (3, 4))
    assert [each.stored for each in parked(world)] == [{}], "nothing is decided yet"
    said = world.run_until_quiet(TrialPassed(attempt("trial-5")))
    assert said == ["CANCEL trial-5", "BATCH 3:0"], "the others are released"
    assert world.batches["3:0"].stored["lines"].runs == ((0, 2), (3, 4))
    assert (outcome(world).found, outcome(world).refused) == ({"lines": (2,)}, "")
    assert [(each.part, each.released_as) for each in parked(world)] == [(0, 0), (1, 3)]
    commits(world, "3:0")
    (left,) = parked(world)
    assert (left.part, left.stored["lines"].runs) == (0, ((2, 3),))


def test_rows_that_make_a_row_function_raise_are_found_in_one_pass() -> None:
    world = started(raising=[3, 1])
    assert tried(world, "trial-2") == ((0, 1), (2, 3)), "the others, all at once"
    said = world.run_until_quiet(TrialPassed(attempt("trial-2")))
    assert said == ["CANCEL trial-2", "BATCH 3:0"]
    assert outcome(world).found == {"lines": (1, 3)}


def test_rows_that_fail_for_another_reason_are_found_among_the_others() -> None:
    world = started(raising=[0])
    world.run_until_quiet(failed("trial-2"))
    assert tried(world, "trial-3") == ((1, 2),)
    world.run_until_quiet(failed("trial-3"))
    world.run_until_quiet(TrialPassed(attempt("trial-4")))
    assert outcome(world).found == {"lines": (0, 1)}


def test_a_pass_that_is_interrupted_leaves_the_rows_to_the_trials() -> None:
    world = with_parked()
    wish(world, Action.BISECT, 1)
    world.run_until_quiet(stored("trial-0"))
    world.processed("trial-0")
    world.run_until_quiet(failed("trial-1", FailureKind.INTERRUPTED))
    assert tried(world, "trial-2") == ((0, 2),)


def test_rows_that_pass_are_not_skipped_with_those_that_fail() -> None:
    world = started(raising=[1])
    wish(world, Action.PAUSE)
    world.run_until_quiet(TrialPassed(attempt("trial-2")))
    assert refusal(world, Action.SKIP, 1) == "the rows of transaction 1 that pass are not released yet"
    assert wish(world, Action.RESUME) == ["BATCH 3:0"]
    assert refusal(world, Action.SKIP, 1) == "transaction 1 is being released"
    commits(world, "3:0")
    assert refusal(world, Action.SKIP, 1) == ""
    assert parked(world) == ()


def test_a_later_leader_starts_the_search_anew() -> None:
    world = started()
    later = taken_over(world, **PARKS)
    assert later.run_until_quiet() == ["STORE trial-0"]
    assert not later.driver.record.outcomes


def test_a_batch_that_passes_now_is_refused_and_stays_as_it_is() -> None:
    world = started(rows=1)
    before = parked(world)
    world.run_until_quiet(TrialPassed(attempt("trial-2"), ("printer",)))
    assert outcome(world).refused == (
        "all rows of transaction 1 pass; 'printer' could not be tried, because a commit there can't be undone: "
        "release it"
    )
    assert parked(world) == before


def test_a_trial_without_a_result_is_repeated_and_not_for_ever() -> None:
    world = started()
    for number in range(2, 11):
        assert (
            world.run_until_quiet(failed(f"trial-{number}", FailureKind.INTERRUPTED))[1] == f"BATCH trial-{number + 1}"
        )
        assert tried(world, f"trial-{number + 1}") == ((0, 2),)
    world.run_until_quiet(failed("trial-11", FailureKind.INTERRUPTED))
    assert outcome(world).refused == "it could not be tried: ValueError: bad row"


def test_a_trial_that_is_silent_is_repeated() -> None:
    world = started()
    for _ in range(4):
        world.after(16)
    assert "CANCEL trial-2" in world.said
    assert tried(world, "trial-3") == ((0, 2),)


def test_a_failure_that_no_replay_mends_ends_the_search() -> None:
    world = started()
    world.run_until_quiet(failed("trial-2", FailureKind.FATAL))
    assert outcome(world).refused == "it could not be tried: ValueError: bad row"
    assert len(parked(world)) == 1


def test_other_rows_than_those_that_were_parked_are_not_searched() -> None:
    world = World(spouts={"lines": Numbers(upto=1)}).start(**PARKS)
    world.run_until_quiet(Fingerprinted(attempt("1:0"), "lines", Fingerprint(4, 77, "rows")))
    world.run_until_quiet(Fingerprinted(attempt("1:0"), "lines", Fingerprint(4, 77, "rows")))
    fails(world, "1:0")
    world.run_until_quiet(OutputsAnswered(1))
    commits(world, "1:1")
    wish(world, Action.BISECT, 1)
    world.run_until_quiet(stored("trial-0"), Fingerprinted(attempt("trial-0"), "lines", Fingerprint(4, 78, "rows")))
    world.processed("trial-0")
    assert "other rows, but as many" in outcome(world).refused


def test_a_release_meanwhile_ends_the_search() -> None:
    world = started()
    assert wish(world, Action.RELEASE, 1) == ["BATCH 3:0"]
    world.run_until_quiet(failed("trial-2"))
    assert outcome(world).refused == "transaction 1 is being released"
    assert [each.part for each in parked(world)] == [0]


def test_wishes_that_can_not_be_carried_out_are_refused_at_once() -> None:
    world = with_parked()
    assert refusal(world, Action.BISECT, 2) == "transaction 2 is not parked"
    assert refusal(world, Action.BISECT) == "one transaction at a time"


def test_rows_that_are_wanted_are_stored_and_nothing_is_tried() -> None:
    world = with_parked()
    assert wish(world, Action.ROWS, 1) == ["STORE trial-0"]
    world.run_until_quiet(stored("trial-0"))
    assert world.processed("trial-0") == ["CANCEL trial-0"]
    assert [each.stored["lines"].file for each in parked(world)] == ["trial-0"]
    assert wish(world, Action.ROWS, 1, by="another") == [], "they are stored already"
    assert outcome(world).refused == ""
    assert wish(world, Action.RELEASE, 1) == ["BATCH 3:0"]
    assert world.batches["3:0"].stored["lines"].file == "trial-0"


def test_two_wishes_are_carried_out_one_after_the_other() -> None:
    world = started(rows=1)
    assert wish(world, Action.BISECT, 1, by="another") == []
    said = world.run_until_quiet(failed("trial-2"))
    assert said[0] == "CANCEL trial-2"
    assert outcome(world).found == {"lines": (0,)}
    assert said[1:] == ["SIEVE trial-3"], "its rows are stored already"
