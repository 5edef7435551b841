"""The threads of a topology: what user code raises on them is told by the name of who raised it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import pytest
from attrs import define, field

from coordinators.protocol.messages import Acked, Broken, Failed, FailureKind
from coordinators.protocol.protocol import StreamId
from coordinators.status.listener import TopologyEvent, Work, WorkEvent
from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.engine.driving import WITHIN_SECONDS, Driven, Making, driven, processed, spout_of
from tests.unit.trident_py.engine.numbers import CommitterNumbers, Numbers
from tests.unit.trident_py.engine.steps import Steps
from trident_py.engine.plane.instructions import CancelJob
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.errors import CoordinationLost, SpoutError, StateError


def test_user_code_that_wants_to_end_python_fails_its_attempt(world: Driven, steps: Steps) -> None:
    steps.breaks = 2
    _, second, third = [world.emit(txid, {"s": rows}) for txid, rows in enumerate([-1, 1, 1], 1)]
    (failed,) = [message for message in (world.next() for _ in range(5)) if isinstance(message, Failed)]
    assert (failed.attempt.txid, failed.kind, type(failed.cause)) == (1, FailureKind.USER_CODE, SystemExit)
    world.commit(second)
    world.commit(third)
    interrupted, acked = world.next(), world.next()
    assert isinstance(interrupted, Failed)
    assert (interrupted.attempt.txid, type(interrupted.cause)) == (2, KeyboardInterrupt)
    assert interrupted.state == "steps", "whose commit it was"
    assert isinstance(acked, Acked)
    assert steps.taken == [[3]]


def test_an_output_that_refuses_what_its_job_prepares_is_named(steps: Steps) -> None:
    def refuse(job: Job, members: Sequence[JobMember]) -> list[Processed]:
        raise StateError("the disk is full")

    with driven([spout_of(Numbers(), "n bigint")], [steps], process=refuse) as world:
        world.emit(1, {"s": 1})
        (failed,) = [message for message in (world.next(), world.next()) if isinstance(message, Failed)]
        assert isinstance(failed.cause, StateError)
        assert failed.cause.state == "steps"


def test_a_spout_whose_commit_raises_is_named(steps: Steps) -> None:
    class Unhappy(CommitterNumbers):
        def commit(self, attempt: TransactionAttempt) -> None:
            raise ValueError("no")

    with driven([spout_of(Unhappy(), "n bigint")], [steps]) as world:
        attempt = world.emit(1, {"s": 1})
        world.acked(StreamId.BATCH, 2)
        world.commit(attempt)
        failed = world.next()
    assert isinstance(failed, Failed)
    assert (str(failed.cause), failed.spouts, failed.state) == ("no", ("s",), None)


def test_a_success_that_raises_ends_the_topology_and_names_spout_and_transaction(world: Driven) -> None:
    class Unhappy(Numbers):
        def success(self, attempt: TransactionAttempt) -> None:
            raise ValueError("no")

    world.streams.workers.spouts[0].executor.emitter = Unhappy()
    world.turn(lambda: world.streams.emit_success(TransactionAttempt(4, 0), 4))
    broken = world.next()
    assert isinstance(broken, Broken)
    assert isinstance(broken.cause, SpoutError)
    assert "success(4) of spout 's' raised ValueError: no" in str(broken.cause)
    assert (broken.cause.topology, broken.cause.txid, broken.cause.spout) == ("t", 4, "s")


@define
class Stubborn(Making):
    """Jobs of which no cancel succeeds; they end after the second try."""

    begun: threading.Event = field(factory=threading.Event)
    tries: int = 0
    tried: threading.Event = field(factory=threading.Event)

    def cancel_attempt(self, attempt: TransactionAttempt) -> None:
        self.tries += 1
        if self.tries == 2:
            self.tried.set()
        raise OSError("too many open files")


def test_a_cancel_that_fails_is_tried_again_and_ends_nothing(steps: Steps, caplog: pytest.LogCaptureFixture) -> None:
    def process(job: Job, members: Sequence[JobMember]) -> list[Processed]:
        jobs.begun.set()
        assert jobs.tried.wait(WITHIN_SECONDS)
        return processed(job, members)

    jobs = Stubborn(process)
    with driven([spout_of(Numbers(), "n bigint")], [steps]) as world:
        world.streams.workers.jobs = jobs
        steps.world = world
        first = world.emit(1, {"s": 1})
        assert jobs.begun.wait(WITHIN_SECONDS)
        world.turn(lambda: world.streams.workers.do(CancelJob(Job(0, (first,)))))
        world.acked(StreamId.BATCH, 2)
        world.commit(first)
        world.acked(StreamId.COMMIT, 1)
    assert caplog.text.count("a Spark job can't be cancelled") == 1


def test_each_piece_of_work_is_told_before_its_end_is_acted_upon(steps: Steps) -> None:
    told: list[TopologyEvent] = []
    steps.breaks = 2
    with driven([spout_of(Numbers(), "n bigint")], [steps], tell=told.append) as world:
        steps.world = world
        first, second = world.emit(1, {"s": 1}), world.emit(2, {"s": 2})
        world.acked(StreamId.BATCH, 4)
        world.commit(first)
        world.next()
        world.commit(second)
        world.next()
    works = [event for event in told if isinstance(event, WorkEvent)]
    assert Counter((each.work, each.parts, each.attempts, each.has_failed) for each in works) == Counter(
        [
            *((Work.EMIT, ("s",), (each,), False) for each in (first, second)),
            *((Work.JOB, ("steps",), (each,), False) for each in (first, second)),
            (Work.COMMIT, ("steps",), (first,), False),
            (Work.COMMIT, ("steps",), (second,), True),
        ]
    )
    assert all(each.seconds >= 0 and each.topology == "t" for each in works)


def test_where_another_process_may_lead_it_is_said_why_nothing_commits(world: Driven) -> None:
    workers = world.streams.workers
    assert workers.lost_lease() == {}

    def ensure_leading() -> None:
        raise CoordinationLost("ZooKeeper was not heard of for 7 s")

    workers.commits.ensure_leading = ensure_leading
    assert workers.lost_lease() == {
        "lease": "leadership is not certain, so nothing commits: ZooKeeper was not heard of for 7 s"
    }
