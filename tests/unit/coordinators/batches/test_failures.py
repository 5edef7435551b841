"""What the driver does when things go wrong: whom it waits for, what it counts, keeps and tells, and when it ends."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from attrs import define

from coordinators.protocol.messages import Failed, FailureKind
from coordinators.record.record import CoordinatorRecord, Failure
from coordinators.values.errors import CoordinationLost, PoisonBatchError, SpoutError, StateError
from tests.unit.coordinators.world import Numbers, World, attempt


@define
class Away(Numbers):
    """Numbers of a source that may be away."""

    is_away: bool = False
    asked: int = 0

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        self._reach()
        return super().initialize_transaction(txid, prev_metadata, curr_metadata)

    def is_ready(self, txid: int) -> bool:
        self._reach()
        return super().is_ready(txid)

    def _reach(self) -> None:
        self.asked += 1
        if self.is_away:
            raise ConnectionRefusedError("nobody there")


def record_of(world: World) -> CoordinatorRecord:
    record = world.driver.store.read()
    assert record is not None
    return record


def fail(world: World, text: str, kind: FailureKind = FailureKind.USER_CODE, cause: str = "boom") -> list[str]:
    return world.run_until_quiet(Failed(attempt(text), ValueError(cause), kind))


def unreachable(world: World, number: int) -> None:
    world.run_until_quiet(Failed(attempt(f"1:{number}"), OSError("no route"), FailureKind.UNREACHABLE, ["lines"]))


# --- sources that are away --------------------------------------------------------------------------------------------


def test_a_source_that_is_away_is_waited_for_without_end_and_asked_up_to_half_a_minute_apart() -> None:
    source = Away(is_away=True)
    world = World(spouts={"lines": source}).start()
    world.run_until_quiet()
    for _ in range(100):
        world.after(0.1)
    soon = source.asked
    assert 5 <= soon <= 10
    for _ in range(100):
        world.after(30)
    assert source.asked == soon + 100
    assert world.said == []
    source.is_away = False
    assert world.after(30) == ["BATCH 1:0"]
    assert world.driver.failures.patience.waits == {}


def test_a_source_that_is_away_while_a_transaction_is_replayed_is_waited_for() -> None:
    source = Away()
    world = World(spouts={"lines": source}).start()
    world.run_until_quiet()
    source.is_away = True
    fail(world, "1:0")
    for _ in range(20):
        assert world.after(30) == []
    source.is_away = False
    assert world.after(30) == ["BATCH 1:1"]
    assert world.driver.failures.retries.known[1].count == 1


def test_when_patience_ends_the_topology_does_and_says_what_to_do() -> None:
    world = World(spouts={"lines": Away(is_away=True)}).start(source_patience=600)
    world.run_until_quiet()
    for _ in range(599):
        world.after(1)
    with pytest.raises(SpoutError, match=r"'lines': the source could not be asked for 600 s .*start again when the"):
        world.after(1)


def test_the_record_says_whom_a_topology_waits_for_and_when_it_does_no_more() -> None:
    source = Away(is_away=True, upto=0)
    world = World(spouts={"lines": source}, wall=5000.0).start()
    world.run_until_quiet()
    waits = {1: Failure(0, -1, "ConnectionRefusedError: nobody there", 5000.0, 5000.0, tries=1, spout="lines")}
    assert record_of(world).failures == waits
    writes = world.driver.store.writes
    world.after(1)
    assert world.driver.store.writes == writes
    source.is_away = False
    world.after(30)
    assert record_of(world).failures == {}


def test_the_traceback_is_logged_once_for_each_time_that_a_source_is_away(caplog: pytest.LogCaptureFixture) -> None:
    source = Away(is_away=True, upto=0)
    world = World(spouts={"lines": source}).start()
    world.run_until_quiet()
    for _ in range(50):
        world.after(1)
    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [bool(each.exc_info) for each in told] == [True]
    source.is_away = False
    world.after(30)
    assert "answers again" in caplog.messages[-1]


def test_a_batch_that_cannot_be_read_waits_for_its_source_and_is_not_counted() -> None:
    world = World().start()
    world.run_until_quiet()
    for number in range(50):
        unreachable(world, number)
        world.after(30)
    (failure,) = record_of(world).failures.values()
    assert (failure.count, failure.tries, failure.spout) == (0, 50, "lines")
    world.processed("1:50")
    assert world.driver.failures.patience.waits == {}


def test_patience_with_a_source_that_cannot_be_read_ends_too() -> None:
    world = World().start(source_patience=60)
    world.run_until_quiet()
    for number in range(10):  # 0.1 + 0.2 + 0.4 + … + 25.6 s, and the rest
        unreachable(world, number)
        world.after(world.driver.failures.held_until(1) - world.now)
    with pytest.raises(SpoutError, match=r"'lines': the source could not be asked for 60 s"):
        unreachable(world, 10)


def test_a_store_that_cannot_be_used_is_waited_for_without_end_unless_patience_says_how_long() -> None:
    endless, world = World().start(), World().start(store_patience=60)
    for each in (endless, world):
        each.run_until_quiet()
    for number in range(11):
        if number < 10:
            fail(world, f"1:{number}", FailureKind.BUSY)
            world.after(world.driver.failures.held_until(1) - world.now)
        fail(endless, f"1:{number}", FailureKind.BUSY)
        endless.after(30)
    assert record_of(endless).failures[1].lasted(endless.wall).startswith("11 tries, ")
    with pytest.raises(StateError, match=r"transaction 1: the store could not be used for .* s \(11 tries, last: V"):
        fail(world, "1:10", FailureKind.BUSY)


def test_patience_with_a_store_begins_anew_with_each_transaction() -> None:
    world = World().start(store_patience=60)
    world.run_until_quiet()
    fail(world, "1:0", FailureKind.BUSY)
    world.after(30)
    world.processed("1:1")
    world.committed("1:1")
    world.after(30)
    fail(world, "2:0", FailureKind.BUSY)
    world.after(30)
    world.processed("2:1")
    assert world.committed("2:1")[0] == "SUCCESS 2:1"


# --- batches that fail ------------------------------------------------------------------------------------------------


def poisoned(world: World, first: int = 0) -> None:
    for number in range(first, first + 5):
        fail(world, f"1:{number}")
        world.after(60)


def test_what_has_failed_is_in_the_record_after_a_halt() -> None:
    world = World(wall=5000.0).start()
    world.run_until_quiet()
    with pytest.raises(PoisonBatchError):
        poisoned(world)
    assert record_of(world).failures == {1: Failure(5, 4, "ValueError: boom", since=5000.0, last=5240.0, tries=5)}


def test_after_a_halt_a_start_tries_once_more_and_so_does_every_further_one() -> None:
    world = World().start()
    world.run_until_quiet()
    with pytest.raises(PoisonBatchError):
        poisoned(world)
    for number in (5, 6):
        world = World(coordination=world.coordination).start()
        assert world.run_until_quiet() == [f"BATCH 1:{number}"]
        with pytest.raises(PoisonBatchError, match=f"failed {number + 1} times, last as 1:{number}"):
            fail(world, f"1:{number}")


def test_success_clears_the_count() -> None:
    world = World().start()
    world.run_until_quiet()
    for number in range(4):
        fail(world, f"1:{number}")
        world.after(60)
    assert record_of(world).failures[1].count == 4
    world.processed("1:4")
    world.committed("1:4")
    assert record_of(world).failures == {}


def test_a_count_goes_on_over_a_crash() -> None:
    world = World().start()
    world.run_until_quiet()
    for number in range(3):
        fail(world, f"1:{number}")
        world.after(60)
    world = World(coordination=world.coordination).start()
    world.run_until_quiet()
    fail(world, "1:4")
    world.after(60)
    with pytest.raises(PoisonBatchError):
        fail(world, "1:5")


def test_what_was_in_flight_before_a_poison_batch_is_committed_first() -> None:
    world = World().start(max_spout_pending=3)
    world.run_until_quiet()
    for number in range(5):
        fail(world, f"2:{number}")
        world.after(1)
    assert "BATCH 2:5" not in world.said
    assert world.driver.next_turn_at(world.now) > world.now
    world.processed("1:0")
    with pytest.raises(PoisonBatchError, match="transaction 2 failed 5 times"):
        world.committed("1:0")
    assert "SUCCESS 1:0" in world.said
    record = record_of(world)
    assert (record.current_txid, record.failures[2].count) == (2, 5)


def test_a_batch_that_no_replay_mends_lets_those_before_it_commit_first() -> None:
    world = World().start(max_spout_pending=3)
    world.run_until_quiet()
    world.run_until_quiet(Failed(attempt("3:0"), SpoutError("row 344 is wrong"), FailureKind.FATAL))
    for text in ("1:0", "2:0"):
        assert f"COMMIT {text}" in world.processed(text)
        if text == "1:0":
            world.committed(text)
    with pytest.raises(SpoutError, match="row 344"):
        world.committed("2:0")
    assert world.said[-1] == "SUCCESS 2:0"
    assert (record_of(world).current_txid, record_of(world).failures[3].cause) == (3, "SpoutError: row 344 is wrong")


def test_a_coordinator_that_finds_its_source_changed_lets_what_is_in_flight_commit_first() -> None:
    class Changed(Numbers):
        def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
            if txid == 2:
                raise SpoutError("the file shrank")
            return super().initialize_transaction(txid, prev_metadata, curr_metadata)

    world = World(spouts={"lines": Changed()}).start(max_spout_pending=2)
    assert world.run_until_quiet() == ["BATCH 1:0"]
    world.processed("1:0")
    with pytest.raises(SpoutError, match="the file shrank"):
        world.committed("1:0")
    assert record_of(world).failures[2].attempt_id == -1


def test_a_leader_that_may_lead_no_more_ends_at_once() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    with pytest.raises(CoordinationLost):
        world.run_until_quiet(Failed(attempt("2:0"), CoordinationLost("gone"), FailureKind.FATAL))


def test_the_same_failure_is_told_once_at_length(caplog: pytest.LogCaptureFixture) -> None:
    world = World().start()
    world.run_until_quiet()
    for number, cause in enumerate(["boom", "boom", "bang"]):
        fail(world, f"1:{number}", cause=cause)
        world.after(60)
    told = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert told == [
        "topology test: 1:0 failed, next try in 0.1 s: ValueError: boom",
        "topology test: 1:1 failed again (same cause), next try in 0.2 s",
        "topology test: 1:2 failed, next try in 0.4 s: ValueError: bang",
    ]
