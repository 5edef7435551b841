"""A topology whose user code doesn't return ends all the same, and what comes of that code is refused."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from attrs import define, field

from coordinators.attempt import TransactionAttempt
from coordinators.shutdown import Shutdown
from coordinators.store import TopologyIdentity
from trident_py.engine.closing import Closing
from trident_py.engine.reads import StateReads
from trident_py.engine.states import UpdateParticipant
from trident_py.engine.threads import Threads
from trident_py.errors import StateError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import State, StateUpdater
from trident_py.states.memory import MemoryMapState

WITHIN_SECS = 60
TX = SinkTransaction(TransactionKey("uuid", 1, 1), TransactionAttempt(1, 0), 1)


@define
class Stuck(StateUpdater[State]):
    """An updater that returns when it is let go."""

    begun: threading.Event = field(factory=threading.Event)
    let_go: threading.Event = field(factory=threading.Event)

    def update_state(self, state: State, tuples: Any, collector: TridentCollector) -> None:
        self.begun.set()
        assert self.let_go.wait(WITHIN_SECS)
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
class World:
    """A topology whose one commit is stuck in user code."""

    stuck: Stuck
    participant: UpdateParticipant
    shutdown: Shutdown = field(factory=lambda: Shutdown(patience=0.01))
    commits: Threads = field(factory=lambda: Threads("trident-test-commit"))
    emitters: Threads = field(factory=lambda: Threads("trident-lines-emitter"))
    committed: Future[None] = field(factory=Future)
    has_begun: bool = False

    def begin(self) -> None:
        self.has_begun = True
        self.commits.submit(self._commit)
        assert self.stuck.begun.wait(WITHIN_SECS)

    def close(self) -> None:
        Closing(
            topology="test",
            workers=[self.emitters],
            commits=self.commits,
            participants=[self.participant],
            reads=StateReads("test", {}),
            shutdown=self.shutdown,
            unfenced=self._unfenced,
        ).run()
        self.shutdown.end()

    def _unfenced(self) -> str:
        is_committing = self.has_begun and not self.committed.done()
        return "state 'mine' committing" if is_committing and not self.participant.is_fenced else ""

    def _commit(self) -> None:
        try:
            self.participant.apply(TX, [[1]])
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.committed.set_exception(error)
        else:
            self.committed.set_result(None)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.let_go.set()


@pytest.fixture
def world_of(stuck: Stuck) -> Callable[[State], World]:
    def made(state: State) -> World:
        participant = UpdateParticipant(name="mine", state=state, updater=stuck, inputs=("n",))
        participant.recover(TopologyIdentity("test", "uuid", 1), 1)
        return World(stuck, participant)

    return made


def test_an_emitter_that_does_not_return_is_left_behind_by_name(
    world_of: Callable[[State], World], stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(Unfenced())
    world.emitters.submit(lambda: stuck.update_state(Unfenced(), [], None))  # type: ignore[arg-type]
    assert stuck.begun.wait(WITHIN_SECS)
    with caplog.at_level(logging.ERROR):
        world.close()
    assert "gives up leadership and waits no longer for thread 'trident-lines-emitter' in update_state" in caplog.text
    assert len(world.shutdown.left_behind) == 1
    assert not world.emitters.submit(lambda: None)


def test_what_a_fenced_state_would_write_after_the_end_is_refused_without_a_newer_leader(
    world_of: Callable[[State], World],
) -> None:
    state = MemoryMapState.factory().make_state(TridentConfig(), Metrics(), 0, 1)
    world = world_of(state)
    world.begin()
    world.close()
    world.stuck.let_go.set()
    with pytest.raises(StateError, match="'mine' was left behind"):
        world.committed.result(WITHIN_SECS)
    assert state.multi_get([["a"]]) == [None]


def test_leadership_is_kept_while_a_state_without_fence_commits(
    world_of: Callable[[State], World], caplog: pytest.LogCaptureFixture
) -> None:
    state = Unfenced()
    world = world_of(state)
    world.begin()
    with ThreadPoolExecutor(1) as driver:
        closing = driver.submit(world.close)
        with pytest.raises(Exception, match=r"goes on leading .*state 'mine' committing, on thread 'trident-test-comm"):
            world.shutdown.wait(force=False)
        assert not closing.done()
        world.stuck.let_go.set()
        closing.result(WITHIN_SECS)
    assert state.told == ["begin 1", "commit 1"]
    assert world.shutdown.left_behind == ()
    assert world.shutdown.held_by == ""


def test_a_forced_end_gives_it_up_and_the_state_is_not_told_to_commit(world_of: Callable[[State], World]) -> None:
    state = Unfenced()
    world = world_of(state)
    world.begin()
    with ThreadPoolExecutor(1) as driver:
        closing = driver.submit(world.close)
        world.shutdown.wait(force=True)
        closing.result(WITHIN_SECS)
    assert len(world.shutdown.left_behind) == 1
    world.stuck.let_go.set()
    with pytest.raises(StateError, match="'mine' was left behind"):
        world.committed.result(WITHIN_SECS)
    assert state.told == ["begin 1"]
