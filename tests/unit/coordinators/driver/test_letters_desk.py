"""Wishes to process dead letters, turn by turn: they are read, come onto the list, and are released from there."""

from __future__ import annotations

from typing import Any

import pytest

from coordinators.protocol.messages import DeadLetters, LettersRead
from coordinators.record.parking import StoredRows
from coordinators.record.wishes import Action, Wish
from coordinators.values.errors import TopologyError
from tests.unit.coordinators.batches.test_parking_rules import (
    commits,
    fails,
    parked,
    refusal,
    taken_over,
    wish,
    wishing,
)
from tests.unit.coordinators.world import Numbers, World

LETTERED: dict[str, Any] = {"lettered": frozenset({"good", "log"}), "attempts": 1}


def committed(**settings: Any) -> World:
    """A world in which transaction 1 is committed, and is the last."""
    world = World(spouts={"lines": Numbers(upto=1)}).start(**{**LETTERED, **settings})
    world.run_until_quiet()
    commits(world, "1:0")
    return world


def letters(branch: str, file: str = "f", txid: int = 1, spout: str = "lines") -> DeadLetters:
    stored = StoredRows(file=file, host="h", bytes=9, hash="1", rows=2)
    return DeadLetters(branch=branch, txid=txid, stored={spout: stored})


def read(world: World, made: Wish, *found: DeadLetters, refusal: str = "") -> list[str]:
    return world.run_until_quiet(LettersRead(made, found, refusal))


def wanted(world: World, **facts: Any) -> Wish:
    made = wishing(Action.LETTERS, **facts)
    assert wish(world, Action.LETTERS, **facts) == [f"LETTERS {made.id}"]
    return made


def refused(world: World) -> str:
    return world.driver.record.outcomes[-1].refused


def test_the_letters_of_each_branch_are_a_transaction_that_spouts_do_not_hear_of() -> None:
    world = committed()
    assert read(world, wanted(world, by="anna"), letters("good"), letters("log")) == ["BATCH 2:0"]
    batch = world.batches["2:0"]
    assert (batch.letters_of, batch.stored["lines"].file, dict(batch.metadata)) == ("good", "f", {"lines": None})
    assert (batch.commits, batch.parks) == (None, None)
    assert [(each.letters_of, each.part, each.by) for each in parked(world)] == [
        ("good", 1, "anna"),
        ("log", 2, "anna"),
    ]
    commits(world, "2:0")
    assert world.batches["3:0"].letters_of == "log"
    commits(world, "3:0")
    assert parked(world) == ()
    assert world.successes[-2:] == [(2, None), (3, None)]


def test_letters_of_a_branch_are_not_released_while_others_of_it_are() -> None:
    world = committed()
    read(world, wanted(world), letters("good"))
    assert wish(world, Action.LETTERS, by="another") == [f"LETTERS {wishing(Action.LETTERS, by='another').id}"]
    read(world, wishing(Action.LETTERS, by="another"), letters("good", "g"), letters("log", "g"))
    assert [(each.letters_of, each.stored["lines"].file) for each in parked(world)] == [("good", "f"), ("log", "g")]
    read(world, wanted(world, by="a third"), letters("good", "h"))
    assert refused(world) == "those of 'good' are being processed"


def test_a_release_that_fails_stays_on_the_list_from_which_it_is_released_or_skipped() -> None:
    world = committed()
    read(world, wanted(world), letters("good"))
    fails(world, "2:0")
    world.run_until_quiet()
    assert world.said[-1] == "ASK 2:1"
    said = "only dead letters of transaction 1 are here: `trident dead-letters` shows them"
    assert refusal(world, Action.SKIP, 1) == "transaction 1 is being released"
    assert refusal(world, Action.BISECT, 1) == said


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], "there are no such letters"),
        ([letters("gone")], "dead letters of transaction 1 are rows of 'gone', for which this topology keeps none"),
        ([letters("good", spout="gone")], "transaction 1 has rows of spout 'gone', which this topology doesn't have"),
    ],
)
def test_what_can_not_be_processed_is_refused(found: list[DeadLetters], why: str) -> None:
    world = committed()
    read(world, wanted(world), *found)
    assert refused(world).startswith(why)
    assert parked(world) == ()


def test_letters_that_can_not_be_read_are_refused_with_the_cause() -> None:
    world = committed()
    read(world, wanted(world), refusal="no such file")
    assert refused(world) == "no such file"


def test_another_leader_reads_anew_and_goes_on_with_what_is_on_the_list() -> None:
    world = committed()
    made = wanted(world)
    again = taken_over(world, **LETTERED)
    assert again.run_until_quiet() == [f"LETTERS {made.id}"]
    assert read(again, made, letters("good")) == ["BATCH 2:0"]
    last = taken_over(again, **LETTERED)
    assert last.run_until_quiet() == ["BATCH 2:1"]
    assert last.batches["2:1"].letters_of == "good"


def test_a_topology_that_keeps_no_letters_any_more_does_not_lose_the_rows() -> None:
    world = committed()
    read(world, wanted(world), letters("good"))
    with pytest.raises(TopologyError, match="dead letters of transaction 1 are rows of 'good'"):
        taken_over(world).run_until_quiet()
