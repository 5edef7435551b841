"""A schedule of random faults can be drawn again."""

from __future__ import annotations

from tests.faults.schedule import KINDS, Schedule


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    assert Schedule.drawn(7, 20) == Schedule.drawn(7, 20)
    assert Schedule.drawn(7, 30).phases[:20] == Schedule.drawn(7, 20).phases
    assert Schedule.drawn(8, 20).phases != Schedule.drawn(7, 20).phases


def test_every_kind_of_fault_has_its_turn() -> None:
    assert {blow.kind for phase in Schedule.drawn(1, 100).phases for blow in phase} == set(KINDS)
