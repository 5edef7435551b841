"""Empty transactions: when one starts, what spouts see of it, and that each is bound to no number for ever."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define

from coordinators.protocol.messages import Failed, FailureKind, IdleWanted, PauseRequested, ResumeRequested
from coordinators.values.errors import SpoutError
from tests.unit.coordinators.world import Numbers, World, attempt


@define
class Away(Numbers):
    """A source that can't be reached from a transaction on."""

    away_from: int = 2
    cause: type[Exception] = OSError

    def is_ready(self, txid: int) -> bool:
        if txid >= self.away_from:
            raise self.cause("rows are gone")
        return super().is_ready(txid)


def waiting_for_window(spout: Numbers | None = None, **settings: Any) -> World:
    """Transaction 1 is done with, at second 0, its rows wait for a window that ends at second 5; no more input."""
    world = World(spouts={"lines": spout or Numbers(upto=1)}).start(**settings)
    world.run_until_quiet()
    world.processed("1:0")
    world.window_at = 5000
    world.committed("1:0")
    world.delivered(1)
    return world


def fires(world: World, txid: int, attempt_id: int = 0) -> list[str]:
    """The transaction lets the window fire, and no rows are left."""
    world.processed(f"{txid}:{attempt_id}")
    world.window_at = None
    said = world.committed(f"{txid}:{attempt_id}")
    world.delivered(txid)
    return said


def restarted(world: World, spout: Numbers, **settings: Any) -> World:
    again = World(world.coordination, spouts={"lines": spout}, now=world.now, wall=world.wall)
    again.window_at = world.window_at
    return again.start(**settings)


def test_a_window_that_ends_without_input_gets_an_empty_transaction_on_time() -> None:
    world = waiting_for_window()
    assert world.after(4.9) == []
    assert world.driver.next_turn_at(world.now) <= 5.0
    assert world.after(0.1) == ["BATCH 2:0"]
    assert (world.numbers[2], world.metadata["2:0"], world.times["2:0"]) == (None, {}, 5000)
    assert fires(world, 2) == ["SUCCESS 2:0"]
    assert world.successes == [(1, 1), (2, None)]
    assert world.after(60) == []


def test_a_turn_asks_once_when_the_next_window_ends_however_many_transactions_it_admits() -> None:
    world = World(spouts={"lines": Numbers(upto=4)}).start(max_spout_pending=4)
    world.turn()
    before = world.windows_asked
    assert world.turn() == ["BATCH 1:0", "BATCH 2:0", "BATCH 3:0", "BATCH 4:0"]
    world.driver.next_turn_at(world.now)
    assert world.windows_asked == before + 1


def test_spouts_go_on_with_the_next_number_and_what_they_last_said() -> None:
    world = waiting_for_window()
    world.after(5)
    fires(world, 2)
    world.spouts["lines"].upto = 2
    assert world.after(1) == ["BATCH 3:0"]
    assert (world.numbers[3], world.metadata["3:0"]) == (2, {"lines": [2, "first"]})
    assert world.spouts["lines"].calls == [(1, None, None), (2, [1, "first"], None)]
    assert world.driver.record.metadata == {1: {"lines": [1, "first"]}, 2: {"lines": [2, "first"]}}
    assert world.driver.record.definition(3) == {"lines": [2, "first"]}


def test_numbers_stay_dense_however_many_are_empty() -> None:
    world = waiting_for_window(Numbers(upto=1))
    for txid in range(2, 40):
        is_empty = txid % 3 != 0
        world.spouts["lines"].upto += not is_empty
        world.window_at = round(world.now + 5) * 1000 if is_empty else None
        assert world.after(5) == [f"BATCH {txid}:0"]
        assert (world.numbers[txid] is None) == is_empty
        fires(world, txid)
    given = [number for number in world.numbers.values() if number is not None]
    assert given == list(range(1, len(given) + 1))
    assert len(world.driver.record.bindings.empty) <= 2  # of those that are kept


def test_an_empty_transaction_stays_empty_over_a_failure_and_a_takeover() -> None:
    world = waiting_for_window(max_spout_pending=2)
    world.after(5)
    world.spouts["lines"].upto = 2
    assert world.after(1) == ["BATCH 3:0"]
    world.run_until_quiet(Failed(attempt("2:0"), OSError("busy"), FailureKind.INTERRUPTED))
    assert world.after(1) == ["BATCH 2:1", "BATCH 3:1"]
    again = restarted(world, Numbers(upto=9, tag="second"), max_spout_pending=2)
    assert again.after(60) == ["BATCH 2:2", "BATCH 3:2"]
    assert (again.numbers, again.times["2:2"]) == ({2: None, 3: 2}, 5000)
    assert (again.metadata["2:2"], again.metadata["3:2"]) == ({}, {"lines": [2, "first"]})
    assert again.spouts["lines"].calls[0] == (2, [1, "first"], [2, "first"])


def test_a_success_that_is_owed_is_told_by_the_number() -> None:
    world = waiting_for_window()
    world.after(5)
    fires(world, 2)
    world.spouts["lines"].upto = 2
    world.after(1)
    world.processed("3:0")
    world.committed("3:0")
    assert restarted(world, Numbers(upto=0)).successes == [(3, 2)]


def test_a_window_that_is_long_over_at_a_takeover_closes_at_once_and_once() -> None:
    world = waiting_for_window()
    world.wall = world.now = 3600.0
    again = restarted(world, Numbers(upto=1))
    assert again.run_until_quiet() == ["BATCH 2:0"]
    assert again.numbers == {2: None}
    fires(again, 2)
    assert again.after(60) == []


def test_no_empty_transaction_starts_where_one_on_its_way_closes_the_window() -> None:
    world = waiting_for_window(max_spout_pending=3)
    world.window_at, world.spouts["lines"].upto = None, 2
    assert world.after(5) == ["BATCH 2:0"]
    world.window_at = 5000
    assert world.after(60) == []
    assert restarted(world, Numbers(upto=2), max_spout_pending=3).after(60) == ["BATCH 2:1"]


def test_one_on_its_way_that_is_too_early_closes_nothing() -> None:
    world = waiting_for_window(max_spout_pending=3)
    world.spouts["lines"].upto = 2
    assert world.after(4) == ["BATCH 2:0"]
    assert world.after(1) == ["BATCH 3:0"]
    assert world.numbers == {1: 1, 2: 2, 3: None}


def test_nothing_starts_in_a_pause_and_the_window_closes_behind_it() -> None:
    world = waiting_for_window()
    world.run_until_quiet(PauseRequested())
    assert world.after(60) == []
    assert world.driver.next_turn_at(world.now) > world.now
    assert world.run_until_quiet(ResumeRequested()) == ["BATCH 2:0"]
    assert world.numbers[2] is None


def test_a_full_window_of_transactions_comes_first() -> None:
    world = waiting_for_window()
    world.spouts["lines"].upto = 2
    assert world.after(4) == ["BATCH 2:0"]
    assert world.after(60) == []
    world.processed("2:0")
    assert world.committed("2:0") == ["SUCCESS 2:0", "BATCH 3:0"]
    assert world.numbers[3] is None


def test_an_interval_between_batches_holds_no_window_up() -> None:
    world = waiting_for_window(batch_interval=60.0)
    world.spouts["lines"].upto = 2
    assert world.after(5) == ["BATCH 2:0"]
    assert world.numbers[2] is None
    fires(world, 2)
    assert world.after(55) == ["BATCH 3:0"]


def test_a_source_that_is_away_holds_no_window_up_and_is_waited_for_as_before() -> None:
    world = waiting_for_window(Away(), source_patience=60.0)
    assert [(wait.txid, wait.began) for wait in world.driver.failures.patience.waits.values()] == [(2, 0.0)]
    assert world.after(5) == ["BATCH 2:0"]
    fires(world, 2)
    assert [(wait.txid, wait.began) for wait in world.driver.failures.patience.waits.values()] == [(3, 0.0)]
    assert {txid: each.spout for txid, each in world.driver.record.failures.items()} == {3: "lines"}
    assert world.after(54) == []
    with pytest.raises(SpoutError, match="could not be asked for"):
        world.after(1)


def test_a_topology_that_ends_by_an_error_starts_nothing_empty() -> None:
    world = World(spouts={"lines": Away(cause=SpoutError)}).start(max_spout_pending=3)
    world.run_until_quiet()
    world.window_at = 5000
    assert world.after(60) == []
    world.processed("1:0")
    with pytest.raises(SpoutError, match="rows are gone"):
        world.committed("1:0")


def test_a_clock_that_jumps_neither_loses_nor_repeats_a_window() -> None:
    world = waiting_for_window()
    world.wall += 3600
    assert world.after(4.9) == []
    world.wall -= 7200
    assert world.after(0.1) == ["BATCH 2:0"]
    assert world.times["2:0"] == 5000
    fires(world, 2)
    assert world.after(60) == []


def test_who_waits_until_all_is_done_does_not_wait_for_windows() -> None:
    world = waiting_for_window()
    told: list[BaseException | None] = []
    world.run_until_quiet(IdleWanted(told.append))
    world.after(1)
    assert told == [None]
    world.after(5)
    world.run_until_quiet(IdleWanted(told.append))
    world.after(1)
    assert told == [None]  # what has begun is waited for
    fires(world, 2)
    world.after(1)
    assert told == [None, None]
