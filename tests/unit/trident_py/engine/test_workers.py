"""The threads of a topology: what user code raises on them is told by the name of who raised it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from attrs import define, field

from coordinators.attempt import TransactionAttempt
from coordinators.messages import Acked, Broken, Failed, FailureKind
from coordinators.protocol import StreamId
from tests.unit.trident_py.engine.driving import Driven, driven, spout_of
from tests.unit.trident_py.engine.numbers import CommitterNumbers, Numbers
from trident_py.engine.commit_thread import CommitThread
from trident_py.engine.work import Job, JobMember, Processed
from trident_py.errors import SpoutError, StateError
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.participants.participant import Participant

SECS, PATIENCE_SECONDS = 7, 5


"""What each commit takes, and what is taken for granted."""


@define
class Steps(Participant):
    """Notes what commits in one step, of which group, and who is said to be alive meanwhile."""

    name: str = "steps"
    keeps_alive: bool = True
    takes_groups: bool = True
    taken: list[list[int]] = field(factory=list)
    groups: set[int | None] = field(factory=set)
    alive: list[set[int]] = field(factory=list)
    breaks: int = 0
    world: Driven | None = None
    now: list[float] = field(factory=lambda: [0.0])

    def prepare(self, tx: SinkTransaction, frame: Any, collect: Any) -> None:
        raise NotImplementedError

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        assert self.world
        if group[0][0].key.txid == self.breaks:
            raise KeyboardInterrupt
        self.now[0] += SECS
        self.taken.append([tx.key.txid for tx, _ in group])
        self.groups |= {tx.group_first for tx, _ in group}
        streams = self.world.streams
        self.alive.append(
            {attempt.txid for attempt, stream in self.world.turn(streams.alive) if stream is StreamId.COMMIT}
        )


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def world(steps: Steps) -> Iterator[Driven]:
    thread = CommitThread(PATIENCE_SECONDS, lambda: steps.now[0])
    with driven([spout_of(Numbers(), "n bigint")], [steps], thread=thread) as made:
        steps.world = made
        yield made


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
