"""A driver whose topology an operator wants to stop, to empty or to slow down, whoever leads it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from coordinators.batches.spout_coordinator import Ask, TridentSpoutCoordinator
from coordinators.protocol.messages import (
    Failed,
    FailureKind,
    IdleWanted,
    PauseRequested,
    ResumeRequested,
    StopRequested,
)
from coordinators.record.wishes import NOTHING_STANDS, OUTCOMES_KEPT, Action, Hold, Outcome, Rate, Standing, Wish
from tests.unit.coordinators.world import Numbers, World, attempt

PAUSE, RESUME, DRAIN = Wish("p", Action.PAUSE), Wish("r", Action.RESUME), Wish("d", Action.DRAIN)
LIMITED = Wish("l", Action.RATE, Rate(pending=1))
SLOW = Wish("s", Action.RATE, Rate(batches_per_second=0.5))


def wish(world: World, *wishes: Wish) -> list[str]:
    for each in wishes:
        world.coordination.wish(each)
    return world.run_until_quiet()


def taken_over(world: World, **settings: Any) -> World:
    """The next leader, before its first turn."""
    again = World(world.coordination, spouts={"lines": Numbers()}, now=world.now, wall=world.wall)
    return again.start(**settings)


def fail(world: World, text: str) -> list[str]:
    return world.run_until_quiet(Failed(attempt(text), OSError("it broke"), FailureKind.INTERRUPTED))


def refused(world: World) -> str:
    answers: list[BaseException | None] = []
    world.run_until_quiet(IdleWanted(answers.append))
    return str(answers[0])


def test_a_pause_lets_what_is_under_way_commit_and_starts_nothing_until_it_is_lifted() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    assert wish(world, PAUSE) == []
    world.processed("1:0")
    assert world.committed("1:0") == ["SUCCESS 1:0"]
    assert fail(world, "2:0") == ["CANCEL 2:0"]
    assert world.after(60) == []
    assert wish(world, RESUME) == ["BATCH 2:1", "BATCH 3:0"]


def test_the_write_that_carries_a_wish_out_stores_what_came_of_it_and_removes_it() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    writes = world.driver.store.writes
    wish(world, PAUSE)
    assert world.driver.store.writes == writes + 1
    assert world.driver.record.standing == Standing(Hold.PAUSED)
    assert world.driver.record.outcomes == (Outcome("p", Action.PAUSE, Standing(Hold.PAUSED), 2),)
    assert world.coordination.wishes == {}
    assert world.driver.store.read() == world.driver.record


def test_a_pause_stands_over_a_takeover() -> None:
    world = World().start()
    world.run_until_quiet()
    wish(world, PAUSE)
    again = taken_over(world)
    assert again.run_until_quiet() == []
    assert again.after(60) == []
    assert wish(again, RESUME) == ["BATCH 1:1"]


def test_a_wish_that_was_left_while_nobody_led_is_carried_out_before_anything_starts() -> None:
    world = World()
    world.coordination.wish(PAUSE)
    assert world.start().turn() == []
    assert world.driver.record.standing.hold is Hold.PAUSED
    assert world.run_until_quiet() == []


def test_what_the_user_pauses_and_what_an_operator_pauses_are_lifted_each_by_itself() -> None:
    world = World(spouts={"lines": Numbers(upto=0)}).start()
    world.run_until_quiet(PauseRequested())
    wish(world, PAUSE)
    world.spouts["lines"].upto = 1
    assert world.run_until_quiet(ResumeRequested()) == []
    assert "is paused, as an operator wishes; `trident resume test` first" in refused(world)
    world.run_until_quiet(PauseRequested())
    assert wish(world, RESUME) == []
    assert "is paused; resume() it first" in refused(world)
    assert world.run_until_quiet(ResumeRequested()) == ["BATCH 1:0"]


def test_a_drain_replays_what_was_begun_over_takeovers_and_is_then_a_pause() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    wish(world, DRAIN)
    assert fail(world, "1:0") == ["CANCEL 1:0", "CANCEL 2:0"]
    again = taken_over(world, max_spout_pending=4)
    assert again.run_until_quiet() == ["BATCH 1:1", "BATCH 2:1"]
    assert "drains, as an operator wishes" in refused(again)
    again.processed("1:1")
    assert again.committed("1:1") == ["SUCCESS 1:1"]
    assert again.driver.record.standing == Standing(Hold.DRAINING)
    again.processed("2:1")
    assert again.committed("2:1") == ["SUCCESS 2:1"]
    assert again.driver.record.standing == Standing(Hold.PAUSED)
    assert again.after(60) == []
    assert again.spouts["lines"].calls[-1][0] == 2
    assert wish(again, RESUME) == ["BATCH 3:0", "BATCH 4:0", "BATCH 5:0", "BATCH 6:0"]


def test_a_drain_with_nothing_under_way_is_a_pause_at_once() -> None:
    world = World(spouts={"lines": Numbers(upto=0)}).start()
    world.run_until_quiet()
    wish(world, DRAIN)
    assert world.driver.record.outcomes == (Outcome("d", Action.DRAIN, Standing(Hold.PAUSED), 0),)


def test_a_drain_of_what_a_takeover_found_committed_is_a_pause() -> None:
    world = World().start()
    world.run_until_quiet()
    wish(world, DRAIN)
    record = world.driver.record
    world.coordination.acquire().write(evolve(record, epoch=2, current_txid=2, attempt_ids={}))
    again = taken_over(world)
    assert again.run_until_quiet() == []
    assert again.driver.record.standing.hold is Hold.PAUSED


def test_the_end_of_a_drain_lets_no_window_fire_and_no_turn_be_taken_for_it() -> None:
    world = World(spouts={"lines": Numbers(upto=1)}).start()
    world.run_until_quiet()
    wish(world, DRAIN)
    world.window_at = 5000
    assert world.after(10) == []
    assert world.driver.next_turn_at(world.now) > world.now
    world.processed("1:0")
    world.committed("1:0")
    assert world.after(10) == []
    assert world.driver.next_turn_at(world.now) > world.now
    assert wish(world, RESUME) == ["BATCH 2:0"]
    assert world.numbers[2] is None


def test_a_rate_holds_new_batches_apart_over_takeovers_and_is_lifted_at_once() -> None:
    world = World().start(max_spout_pending=9)
    wish(world, SLOW)
    assert world.said == ["BATCH 1:0"]
    assert world.after(1.9) == []
    assert world.after(0.1) == ["BATCH 2:0"]
    again = taken_over(world, max_spout_pending=9)
    assert again.run_until_quiet() == ["BATCH 1:1", "BATCH 2:1", "BATCH 3:0"]  # replays don't wait
    assert again.after(1.9) == []
    assert wish(again, RESUME) == [f"BATCH {txid}:0" for txid in range(4, 10)]


def test_a_limit_lowers_what_may_be_pending_and_never_raises_it() -> None:
    world = World().start(max_spout_pending=2)
    wish(world, LIMITED)
    assert world.said == ["BATCH 1:0"]
    assert wish(world, Wish("h", Action.RATE, Rate(pending=100))) == ["BATCH 2:0"]
    assert world.after(60) == []


def test_a_limit_below_what_is_under_way_lets_that_commit_first() -> None:
    world = World().start(max_spout_pending=3)
    world.run_until_quiet()
    wish(world, LIMITED)
    for txid in (1, 2):
        world.processed(f"{txid}:0")
        assert world.committed(f"{txid}:0") == [f"SUCCESS {txid}:0"]
    world.processed("3:0")
    assert world.committed("3:0") == ["SUCCESS 3:0", "BATCH 4:0"]


def test_a_limit_of_rows_is_told_to_spouts_whoever_leads() -> None:
    world = World(spouts={"lines": Numbers(upto=0)}).start()
    wish(world, Wish("m", Action.RATE, Rate(max_batch=10)))
    world.after(60)
    assert set(world.spouts["lines"].limits) == {10}
    again = taken_over(world)
    again.run_until_quiet()
    assert set(again.spouts["lines"].limits) == {10}


def test_a_coordinator_is_told_of_a_limit_once_and_when_it_is_lifted() -> None:
    numbers = Numbers()
    coordinator = TridentSpoutCoordinator("test", "lines", numbers, exact=True)
    for max_batch in (None, 10, 10, None, None):
        list(coordinator.answers(Ask(1, 1, None, None, definite=False, upto=1, max_batch=max_batch)))
    assert numbers.limits == [10, None]


def test_what_was_limited_before_stays_limited() -> None:
    world = World().start()
    wish(world, LIMITED, SLOW)
    assert world.driver.record.standing == Standing(rate=Rate(batches_per_second=0.5, pending=1))


def test_a_wish_that_nobody_understands_changes_nothing_and_is_told_of() -> None:
    world = World().start()
    wish(world, Wish("x", None))
    assert world.driver.record.outcomes == (Outcome("x", None, NOTHING_STANDS, 0),)
    assert world.coordination.wishes == {}
    assert world.said == ["BATCH 1:0"]


def test_any_number_of_wishes_is_carried_out_and_the_last_outcomes_are_kept() -> None:
    world = World().start()
    many = [Wish(str(number), Action.PAUSE if number % 2 else Action.RESUME) for number in range(40)]
    wish(world, *many)
    assert world.coordination.wishes == {}
    assert [outcome.wish for outcome in world.driver.record.outcomes] == [each.id for each in many[-OUTCOMES_KEPT:]]
    assert world.driver.record.standing.hold is Hold.PAUSED


def test_a_paused_topology_stops_after_what_is_under_way() -> None:
    world = World().start()
    world.run_until_quiet()
    wish(world, PAUSE)
    world.run_until_quiet(StopRequested(drain=True))
    world.processed("1:0")
    world.committed("1:0")
    world.delivered(1)
    assert world.driver.finished


def test_a_store_without_wishes_is_asked_once() -> None:
    world = World().start()
    world.turn()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(world.driver.store), "wishes", lambda *_: pytest.fail("asked again"))
        for _ in range(5):
            world.turn()
