"""A topology whose user code doesn't return ends all the same, and what comes of that code is refused."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from attrs import define, evolve, field

from coordinators.protocol.protocol import StreamId
from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.shutdown import Shutdown
from tests.unit.trident_py.engine.driving import WITHIN_SECONDS, Driven, driven, processed, spout_of
from trident_py.engine.plane.stimuli import StepCommitted, StepFailed
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.errors import StateError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.spouts import Emitter
from trident_py.interfaces.states import State, StateUpdater
from trident_py.participants.states import UpdateParticipant
from trident_py.states.memory import MemoryMapState


@define
class Stuck(StateUpdater[State]):
    """An updater that returns when it is let go."""

    begun: threading.Event = field(factory=threading.Event)
    let_go: threading.Event = field(factory=threading.Event)

    def update_state(self, state: State, tuples: Any, collector: TridentCollector) -> None:
        self.begun.set()
        assert self.let_go.wait(WITHIN_SECONDS)
        if isinstance(state, MemoryMapState):
            state.multi_put([["a"]], [1])


@define
class Unfenced(State):
    """A state of a user's: notes what it is told."""

    told: list[str] = field(factory=list)

    def begin_commit(self, txid: int | None) -> None:
        self.told.append(f"begin {txid}")

    def commit(self, txid: int | None) -> None:
        self.told.append(f"commit {txid}")


@define
class Numbers(Emitter[int]):
    """Emits one row; or gets stuck, if it is told to."""

    stuck: Stuck | None = None

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        if self.stuck is not None:
            self.stuck.update_state(Unfenced(), [], None)  # type: ignore[arg-type]
        collector.emit((1,))


@define
class World:
    """A topology whose one commit is stuck in user code.

    Attributes:
        driven: its data plane; what is behind it in the commit thread's queue is not reached.
    """

    driven: Driven
    stuck: Stuck
    shutdown: Shutdown

    def begin(self) -> None:
        attempt = self.driven.emit(1, {"s": 0})
        self.driven.acked(StreamId.BATCH, 2)
        self.driven.commit(attempt)
        assert self.stuck.begun.wait(WITHIN_SECONDS)

    def close(self) -> None:
        self.driven.turn(self.driven.close)
        self.shutdown.end()

    def ended(self) -> StepFailed:
        """What has become of the commit."""
        while not isinstance(stimulus := self.driven.streams._reports.get(timeout=WITHIN_SECONDS), StepFailed):
            assert not isinstance(stimulus, StepCommitted)
        return stimulus


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.let_go.set()


@pytest.fixture
def world_of(stuck: Stuck) -> Iterator[Callable[..., World]]:
    with ExitStack() as stack:

        def made(state: State, emitter: Emitter[int] | None = None) -> World:
            participant = UpdateParticipant(name="mine", state=state, updater=stuck, inputs=("n",))
            participant.recover(TopologyIdentity("test", "uuid", 1), 1)
            shutdown = Shutdown(patience=0.01)
            spout = spout_of(emitter or Numbers(), "n bigint")
            world = driven([spout], [participant], shutdown=shutdown, process=changed)
            return World(stack.enter_context(world), stuck, shutdown)

        yield made
        stuck.let_go.set()


def changed(job: Job, members: Sequence[JobMember]) -> list[Processed]:
    """The rows as they are."""
    return [
        evolve(each, receipt=member.inputs["s"].batch.table)
        for each, member in zip(processed(job, members), members, strict=True)
    ]


def test_an_emitter_that_does_not_return_is_left_behind_by_name(
    world_of: Callable[..., World], stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(Unfenced(), Numbers(stuck))
    world.driven.emit(1, {"s": 0})
    assert stuck.begun.wait(WITHIN_SECONDS)
    with caplog.at_level(logging.ERROR):
        world.close()
    assert "releases leadership and no longer waits for thread 'trident-s-emitter' in update_state" in caplog.text
    assert len(world.shutdown.left_behind) == 1
    assert not world.driven.streams.workers.spouts[0].emitting.submit(lambda: None)


def test_what_a_fenced_state_would_write_after_the_end_is_refused_without_a_newer_leader(
    world_of: Callable[..., World],
) -> None:
    state = MemoryMapState.factory().make_state(TridentConfig(), Metrics(), 0, 1)
    world = world_of(state)
    world.begin()
    world.close()
    world.stuck.let_go.set()
    failed = world.ended()
    assert isinstance(failed.why.cause, StateError)
    assert "'mine' was still in use when its topology ended" in str(failed.why.cause)
    assert state.multi_get([["a"]]) == [None]


def test_leadership_is_kept_while_a_state_without_fence_commits(
    world_of: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    state = Unfenced()
    world = world_of(state)
    world.begin()
    with ThreadPoolExecutor(1) as driver:
        closing = driver.submit(world.close)
        with pytest.raises(Exception, match=r"keeps leading .*: mine committing, on thread 'trident-t-commit"):
            world.shutdown.wait(force=False)
        assert not closing.done()
        world.stuck.let_go.set()
        closing.result(WITHIN_SECONDS)
    assert state.told == ["begin 1", "commit 1"]
    assert world.shutdown.left_behind == []
    assert world.shutdown.held_by == ""


def test_a_forced_end_gives_it_up_and_the_state_is_not_told_to_commit(world_of: Callable[..., World]) -> None:
    state = Unfenced()
    world = world_of(state)
    world.begin()
    with ThreadPoolExecutor(1) as driver:
        closing = driver.submit(world.close)
        with pytest.raises(Exception, match="keeps leading"):
            world.shutdown.wait(force=False)
        world.shutdown.wait(force=True)
        closing.result(WITHIN_SECONDS)
    assert len(world.shutdown.left_behind) == 1
    world.stuck.let_go.set()
    assert "'mine' was still in use when its topology ended" in str(world.ended().why.cause)
    assert state.told == ["begin 1"]
