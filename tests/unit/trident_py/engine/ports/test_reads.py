"""Who reads states waits for its turn on the commit thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attrs import define

from coordinators.protocol.messages import Acked, Failed
from coordinators.protocol.protocol import StreamId
from coordinators.record.record import CommitIntent, CoordinatorRecord
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.shutdown import Shutdown
from tests.unit.trident_py.engine.driving import WITHIN_SECONDS, Driven, driven, spout_of
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.ports.reads import Read, StateReads, States
from trident_py.engine.wiring.assembly import partial_commit_of
from trident_py.errors import FencedError, TridentError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.spouts import Emitter
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.participants.participant import Participant
from trident_py.participants.states import AggregateParticipant
from trident_py.rows.schema import schema_of
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState


@define
class Torn(Participant):
    """An output whose commit fails, so that nobody knows what it has of a transaction; or commits."""

    name: str = "torn"
    fails: bool = True

    def prepare(self, tx: SinkTransaction, frame: Any, collect: Any) -> None:
        raise NotImplementedError

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        if self.fails:
            raise ValueError("no")


class Nobody(Emitter[int]):
    """Emits nothing."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None: ...


@pytest.fixture
def torn() -> Torn:
    return Torn()


@pytest.fixture
def world(torn: Torn) -> Iterator[Driven]:
    with driven([spout_of(Nobody(), "n bigint")], [torn]) as made:
        yield made


@pytest.fixture
def reads(world: Driven) -> StateReads:
    return world.streams.workers.reads


def commit(world: Driven, *txids: int) -> None:
    """Process and commit these transactions as a group, until that has succeeded or failed."""
    attempts = [world.emit(txid, {"s": 0}) for txid in txids]
    world.acked(StreamId.BATCH, 2 * len(txids))
    world.commit(*attempts)
    while not isinstance(message := world.next(), Failed):
        if isinstance(message, Acked) and message.attempt == attempts[-1]:
            return


def test_s15_a_read_runs_on_the_commit_thread_and_gives_its_result(reads: StateReads) -> None:
    assert reads.now(lambda _: threading.current_thread().name) == "trident-t-commit"
    assert reads.consistent(lambda states: dict(states), None) == ({}, 0)


def test_s15_what_a_read_raises_comes_back(reads: StateReads) -> None:
    with pytest.raises(ZeroDivisionError):
        reads.now(lambda _: 1 // 0)
    assert reads.now(lambda _: 1) == 1


def test_s15_while_a_read_goes_on_no_commit_that_waits_for_it_falls_silent(world: Driven, reads: StateReads) -> None:
    attempt = world.emit(1, {"s": 0})
    world.acked(StreamId.BATCH, 2)
    alive = reads.now(lambda _: world.turn(world.streams.alive))
    assert alive == [(attempt, StreamId.COMMIT)]
    assert world.turn(world.streams.alive) == []


def test_t7_a_request_waits_until_all_states_have_the_transaction_and_a_batch_does_not(
    world: Driven, reads: StateReads, torn: Torn
) -> None:
    commit(world, 6, 7)
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(reads.consistent, lambda _: "answer", None)
        assert reads.now(lambda _: "part") == "part"
        with pytest.raises(TimeoutError):
            reads.consistent(lambda _: pytest.fail("it was given up"), 0.01)
        torn.fails = False
        commit(world, 6)  # of a group that a replay has gone through only in part
        reads.now(lambda _: None)
        assert not waiting.done()
        commit(world, 7)
        assert waiting.result(WITHIN_SECONDS) == ("answer", 7)


def test_t7_who_takes_longer_than_it_should_is_named() -> None:
    now = [100.0]
    thread = CommitThread(30.0, lambda: now[0])
    reading, done = threading.Event(), threading.Event()

    def read(_: States) -> None:
        reading.set()
        done.wait(WITHIN_SECONDS)

    with driven(thread=thread) as world, ThreadPoolExecutor(1) as caller:
        reads = world.streams.workers.reads
        caller.submit(reads.consistent, read, None, "function 'count'")
        assert reading.wait(WITHIN_SECONDS)
        now[0] = 130.0
        assert thread.late() == thread.warning() == ""
        now[0] = 131.0
        said = "a read of states by function 'count' has taken 31 s so far; commits and queries of states wait for it"
        assert thread.late() == thread.warning() == said
        assert thread.warning() == ""  # it was said
        done.set()
        reads.now(lambda _: None)  # when it has come to its end
        assert thread.late() == ""


def test_t7_who_waits_when_the_topology_stops_is_told(world: Driven, reads: StateReads) -> None:
    commit(world, 7)
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(reads.consistent, lambda _: "answer", None)
        world.turn(world.close)
        with pytest.raises(TridentError, match="'t' was stopped"):
            waiting.result(WITHIN_SECONDS)
    with pytest.raises(TridentError, match="'t' was stopped"):
        reads.now(lambda _: 1)


def test_t7_who_waits_for_a_read_that_does_not_return_is_told_when_the_topology_has_ended() -> None:
    begun, end = threading.Event(), threading.Event()

    def stuck(_: object) -> None:
        begun.set()
        end.wait(WITHIN_SECONDS)

    shutdown = Shutdown(patience=0.01)
    with driven(shutdown=shutdown) as world, ThreadPoolExecutor(2) as callers:
        reads = world.streams.workers.reads
        reading = callers.submit(reads.now, stuck)
        assert begun.wait(WITHIN_SECONDS)
        behind = callers.submit(reads.consistent, lambda _: "answer", None)
        world.turn(world.close)
        for waiting in (reading, behind):
            with pytest.raises(TridentError, match="'t' was stopped"):
                waiting.result(WITHIN_SECONDS)
        assert len(shutdown.left_behind) == 1
        end.set()


SQL = SQLiteState("s.db", table="s").for_fields(schema_of("word string"), schema_of("count bigint").fields[0])
PIN = CommitIntent(TransactionAttempt(7, 0), "hash")


def recovered(factory: StateFactory, txid: int | None) -> Participant:
    state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
    made = AggregateParticipant(name="counts", state=state, aggregator=Count(), keys=1)
    made.recovered = CommitToken(txid, 1, 0) if txid else None
    return made


@pytest.mark.parametrize(
    ("upto", "torn"), [([6, 6], 0), ([7, 7], 0), ([6, None], 0), ([7, 6], 7), ([7, None], 7), ([9, 6], 9), ([9, 8], 9)]
)
def test_t7_after_a_crash_between_two_states_a_request_waits_for_the_replay(upto: list[int | None], torn: int) -> None:
    record = CoordinatorRecord(epoch=1, current_txid=7)
    assert partial_commit_of([recovered(SQL, txid) for txid in upto], record) == torn


def test_t7_a_state_that_does_not_remember_may_have_what_was_about_to_commit() -> None:
    states = [recovered(MemoryMapState.factory(), None), recovered(SQL, 6)]
    assert partial_commit_of(states, CoordinatorRecord(epoch=1, current_txid=7)) == 0
    assert partial_commit_of(states, CoordinatorRecord(epoch=1, current_txid=7, committing=(PIN,))) == 7


def test_t7_nobody_is_answered_where_another_process_may_have_led_while_states_were_read(reads: StateReads) -> None:
    leading, wanted = [None, FencedError("another one leads")], Read(lambda _: "answer", "a reader")

    def ensure_leading() -> None:
        if error := leading.pop(0):
            raise error

    reads.answer(wanted, 3, ensure_leading)
    with pytest.raises(FencedError):
        wanted.future.result()
