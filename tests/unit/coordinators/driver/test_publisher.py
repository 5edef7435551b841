"""What is told of a leadership: which events come, how often, in which order, and what the status says meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from attrs import define, field

from coordinators.driver.publisher import RESIDENTS_SECONDS, Publisher
from coordinators.protocol.messages import Acked, Failed, FailureKind, OffsetsResolved, PauseRequested, StopRequested
from coordinators.protocol.protocol import StreamId
from coordinators.status.listener import (
    CommittedEvent,
    Counts,
    EmittedEvent,
    FailedEvent,
    LeadingEvent,
    ProcessedEvent,
    ResidentTasksEvent,
    SucceededEvent,
    TopologyEvent,
)
from coordinators.status.status import TopologyStatus
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import SpoutError
from tests.unit.coordinators.world import Numbers, World, attempt


@define
class ObservedSplits(World):
    """A world with a publisher; each attempt has read ten rows and counted one word."""

    events: list[TopologyEvent] = field(factory=list)
    counted: dict[TransactionAttempt, Counts] = field(factory=dict)
    late: str = ""
    lag: dict[str, dict[str, int]] = field(factory=dict)
    residents: dict[str, int] = field(factory=dict)

    def start(self, publisher: Publisher | None = None, **settings: Any) -> ObservedSplits:
        publisher = publisher or Publisher(
            tell=self.events.append,
            counted=lambda each: self.counted.get(each, Counts(10, {"words": 1})),
            late=lambda: self.late,
            lag=lambda: self.lag,
            resident_tasks=lambda: self.residents,
        )
        super().start(publisher=publisher, **settings)
        return self

    @property
    def heard(self) -> list[str]:
        """The events since the last look, as ``emitted 1:0``."""
        events, self.events[:] = list(self.events), []
        return [f"{each.method.removeprefix('on_')} {each.attempt or ''}".strip() for each in events]

    @property
    def status(self) -> TopologyStatus:
        return self.driver.publisher.status


def test_a_transaction_is_emitted_processed_committed_and_succeeds_once_each() -> None:
    world = ObservedSplits().start()
    world.run_until_quiet()
    assert world.heard == ["leading", "emitted 1:0"]
    world.processed("1:0")
    assert world.heard == ["processed 1:0"]
    world.committed("1:0")
    assert world.heard == ["committed 1:0", "emitted 2:0"]
    world.delivered(1)
    world.delivered(1)
    assert world.heard == ["succeeded 1:0"]


def test_what_waits_for_those_before_it_is_told_as_processed_at_once() -> None:
    world = ObservedSplits().start(max_spout_pending=2)
    world.run_until_quiet()
    world.processed("2:0")
    assert world.heard == ["leading", "emitted 1:0", "emitted 2:0", "processed 2:0"]
    assert [(each.txid, each.phase) for each in world.status.transactions] == [(1, "processing"), (2, "processed")]
    world.processed("1:0")
    world.committed("1:0")
    world.committed("2:0")
    assert world.heard[:3] == ["processed 1:0", "committed 1:0", "emitted 3:0"]


def test_a_failure_is_told_of_each_attempt_that_is_given_up_and_by_whose_failure() -> None:
    world = ObservedSplits(spouts={"lines": Numbers(upto=3)}).start(max_spout_pending=3)
    world.run_until_quiet()
    world.processed("3:0")
    world.events.clear()
    boom = ValueError("boom")
    world.run_until_quiet(Failed(attempt("2:0"), boom))
    failed = [each for each in world.events if isinstance(each, FailedEvent)]
    assert [(str(each.attempt), each.error, str(each.failed)) for each in failed] == [
        ("2:0", boom, "2:0"),
        ("3:0", boom, "2:0"),
    ]
    world.events.clear()
    world.run_until_quiet(Failed(attempt("2:0"), boom))
    assert world.heard == []
    world.after(0.2)
    assert world.heard == ["emitted 2:1", "emitted 3:1"]


def test_of_two_failures_in_one_turn_each_attempt_has_its_own() -> None:
    world = ObservedSplits().start(max_spout_pending=2)
    world.run_until_quiet()
    world.run_until_quiet(Failed(attempt("2:0"), ValueError("second")), Failed(attempt("1:0"), ValueError("first")))
    failed = [each for each in world.events if isinstance(each, FailedEvent)]
    assert [(str(each.attempt), str(each.error)) for each in failed] == [("2:0", "second"), ("1:0", "first")]


def test_silence_fails_an_attempt_with_a_cause() -> None:
    world = ObservedSplits().start(message_timeout=10.0)
    world.run_until_quiet()
    world.after(6.0)
    world.after(6.0)
    world.after(6.0)
    (failed,) = [each for each in world.events if isinstance(each, FailedEvent)]
    assert isinstance(failed.error, TimeoutError)


def test_events_tell_when_how_long_how_many_rows_and_what_was_counted() -> None:
    world = ObservedSplits(wall=1000.0).start()
    world.run_until_quiet()
    world.now, world.wall = world.now + 2, world.wall + 2
    world.processed("1:0")
    world.counted[attempt("1:0")] = Counts(10, {"words": 7}, {"counts": 4})  # a state has counted more
    world.now, world.wall = world.now + 3, world.wall + 3
    world.committed("1:0")
    world.delivered(1)
    by_kind = {type(each): each for each in world.events}
    assert by_kind[LeadingEvent] == LeadingEvent(
        topology="test", at=1000.0, epoch=1, current_txid=1, uuid=world.coordination.identity.uuid, incarnation=1
    )
    first = attempt("1:0")
    told: dict[str, Any] = {"topology": "test", "attempt": first, "number": 1, "definition": {"lines": [1, "first"]}}
    assert by_kind[ProcessedEvent] == ProcessedEvent(**told, at=1002.0, rows=10, counts={"words": 1}, processing=2.0)
    told |= {"at": 1005.0, "rows": 10, "counts": {"words": 7}, "written": {"counts": 4}}
    assert by_kind[CommittedEvent] == CommittedEvent(**told, processing=2.0, committing=3.0)
    assert by_kind[SucceededEvent] == SucceededEvent(**told, processing=2.0, committing=3.0)


def test_the_wait_for_those_before_it_is_told_apart_from_the_commit() -> None:
    world = ObservedSplits().start(max_spout_pending=2)
    world.run_until_quiet()
    world.processed("2:0")
    world.now += 3
    world.processed("1:0")
    world.committed("1:0")
    world.now += 4
    world.committed("2:0")
    first, second = (each for each in world.events if isinstance(each, CommittedEvent))
    assert (first.waiting, first.committing) == (0.0, 0.0)
    assert (second.waiting, second.committing) == (3.0, 7.0)


def test_what_a_spout_finds_out_by_emitting_is_told_once_it_is_known() -> None:
    world = ObservedSplits(exact=False).start(max_spout_pending=2)
    world.run_until_quiet()
    world.run_until_quiet(OffsetsResolved(attempt("1:0"), "lines", [7], {"p": 7}))
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    emitted, failed = (
        {str(each.attempt): each.definition for each in world.events if isinstance(each, kind)}
        for kind in (EmittedEvent, FailedEvent)
    )
    assert emitted == {"1:0": {"lines": [1, "first"]}, "2:0": {"lines": [2, "first"]}}
    assert failed == {"1:0": {"lines": [7]}, "2:0": {"lines": [2, "first"]}}


def test_a_success_that_an_earlier_leader_owed_comes_again_and_its_commit_does_not() -> None:
    world = ObservedSplits().start()
    world.run_until_quiet()
    world.processed("1:0")
    world.committed("1:0")
    world.events.clear()
    world.start()
    world.delivered(1)
    assert [each for each in world.heard if "1:" in each] == ["succeeded 1:0"]


def test_whoever_is_told_of_a_transaction_finds_it_in_the_status_and_noted() -> None:
    found: list[Any] = []

    class Looking(ObservedSplits):
        def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
            found.append([each.phase for each in self.status.transactions])
            super().emit_commit(group)

        def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
            found.append((self.status.last_committed, self.status.rows, type(self.events[-1])))
            super().emit_success(attempt, number)

    world = Looking(spouts={"lines": Numbers(upto=1)}).start()
    world.run_until_quiet()
    world.processed("1:0")
    world.committed("1:0")
    assert found == [["committing"], (1, 10, CommittedEvent)]


def test_the_status_says_what_is_in_flight_since_when_and_what_is_done() -> None:
    world = ObservedSplits(wall=50.0).start(max_spout_pending=2)
    assert world.status.leads_since == 50.0
    world.run_until_quiet()
    world.wall = 60.0
    world.processed("1:0")
    first, second = world.status.transactions
    assert (first.txid, first.number, str(first.attempt), first.phase, first.since) == (1, 1, "1:0", "committing", 60.0)
    assert (second.txid, second.phase, second.since) == (2, "processing", 50.0)
    world.committed("1:0")
    status = world.status
    assert (status.epoch, status.current_txid, status.last_committed, status.committed) == (1, 2, 1, 1)
    assert (status.rows, status.counts) == (10, {"words": 1})
    assert status.message == "processing"


def test_the_status_names_sources_that_are_away_and_transactions_that_fail() -> None:
    world = ObservedSplits(wall=50.0, spouts={"lines": Numbers(upto=1, fails={1: 2})}).start()
    world.run_until_quiet()
    (source,) = world.status.sources
    assert (source.spout, source.txid, source.tries, source.since) == ("lines", 1, 1, 50.0)
    assert "no definition of 1" in world.status.message
    world.after(0.1)
    assert world.status.sources[0].tries == 2
    world.after(0.2)
    assert world.status.sources == ()
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    assert world.status.failing == {1: "ValueError: boom"}
    assert world.status.message == "transaction 1 has failed and is tried again: ValueError: boom (1 try, 0 s)"
    world.after(0.1)
    assert world.status.transactions[0].failures == 1
    world.processed("1:1")
    world.committed("1:1")
    assert world.status.failing == {}
    assert world.status.message == "waiting for data"


def test_the_status_tells_what_waits_in_the_sources() -> None:
    world = ObservedSplits().start()
    world.lag = {"orders": {"orders/0": 12}}
    world.run_until_quiet()
    assert world.status.lag == {"orders": {"orders/0": 12}}


def test_the_numbers_of_resident_tasks_are_told_when_they_change_but_not_each_time() -> None:
    world = ObservedSplits().start()
    world.run_until_quiet()
    world.events.clear()
    world.residents = {"there": 1, "answered": 0, "given_back": 0, "dropped": 0}
    world.turn()
    for answered in (1, 2):
        world.residents = {**world.residents, "answered": answered}
        world.turn()
    assert world.status.resident_tasks["answered"] == 2
    world.after(RESIDENTS_SECONDS)
    world.after(RESIDENTS_SECONDS)
    told = [event for event in world.events if isinstance(event, ResidentTasksEvent)]
    assert [(event.numbers["there"], event.numbers["answered"]) for event in told] == [(1, 0), (1, 2)]


def test_the_status_tells_a_pause_an_end_and_what_commits_wait_for() -> None:
    world = ObservedSplits().start()
    world.run_until_quiet(PauseRequested())
    assert (world.status.is_paused, world.status.is_stopping, world.status.message) == (True, False, "paused")
    world.late = "the commit of transaction 1 has taken 31 s so far"
    world.turn()
    assert world.status.message == world.late
    world.late = ""
    world.turn(StopRequested(drain=True))
    assert (world.status.is_paused, world.status.is_stopping) == (False, True)


def test_the_status_tells_that_this_machines_clock_is_not_believed() -> None:
    world = ObservedSplits().start()
    world.wall += 3600
    world.run_until_quiet()
    assert world.status.seconds_ahead_of_zookeeper == 3600


def test_a_group_that_fails_half_way_is_told_of_each_of_its_members() -> None:
    world = ObservedSplits(spouts={"lines": Numbers(upto=2)}).start(max_spout_pending=2, group_max=2)
    world.run_until_quiet()
    world.processed("2:0")
    world.processed("1:0")
    world.run_until_quiet(
        *[Acked(attempt("1:0"), StreamId.COMMIT, edge) for edge in world.edges["1:0", StreamId.COMMIT]]
    )
    world.events.clear()
    world.run_until_quiet(Failed(attempt("2:0"), SpoutError("gone"), FailureKind.INTERRUPTED))
    assert world.heard == ["failed 2:0"]  # the first is committed


def test_attempts_that_fall_silent_together_fail_once_each() -> None:
    world = ObservedSplits().start(max_spout_pending=3, message_timeout=10.0)
    world.run_until_quiet()
    assert world.heard == ["leading", "emitted 1:0", "emitted 2:0", "emitted 3:0"]
    for _ in range(4):
        world.after(5)
    assert world.heard == ["failed 1:0", "failed 2:0", "failed 3:0", "emitted 1:1", "emitted 2:1", "emitted 3:1"]


def test_a_transaction_gets_on_when_it_is_first_tried_processed_and_committed_not_when_it_is_tried_again() -> None:
    world = ObservedSplits(spouts={"lines": Numbers(upto=2)}, wall=100.0).start()
    assert world.status.moved == 100.0
    moved = []

    def at(wall: float) -> None:
        world.wall = wall
        moved.append(world.status.moved)

    world.run_until_quiet()
    at(101.0)
    world.processed("1:0")
    at(102.0)
    world.committed("1:0")
    at(103.0)
    world.run_until_quiet(Failed(attempt("2:0"), ValueError("boom")))
    assert world.status.held_until == pytest.approx(103.1)
    at(104.0)
    world.after(0.2)
    world.processed("2:1")
    at(105.0)
    assert world.status.held_until is None
    world.committed("2:1")
    at(106.0)
    assert moved == [100.0, 101.0, 102.0, 102.0, 102.0, 105.0]


def test_spouts_that_have_nothing_are_told() -> None:
    world = ObservedSplits(spouts={"lines": Numbers(upto=1)}).start()
    world.run_until_quiet()
    assert world.status.unready == ("lines",)
    world.spouts["lines"].upto = 2
    world.after(0.1)
    assert world.driver.publisher.status.unready == ()
