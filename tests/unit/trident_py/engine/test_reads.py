"""Who reads states waits for its turn on the commit thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from coordinators.attempt import CommitToken, TransactionAttempt
from coordinators.record import CommitPin, CoordinatorRecord
from trident_py.engine.assembly import torn_upto
from trident_py.engine.commit_thread import CommitThread
from trident_py.engine.participants import Participant
from trident_py.engine.reads import StateReads, States
from trident_py.engine.states import AggregateParticipant
from trident_py.engine.threads import Threads
from trident_py.errors import TridentError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.rows.schema import schema_of
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState

WITHIN_SECS = 60


@pytest.fixture
def commits() -> Iterator[Threads]:
    threads = Threads("commits")
    yield threads
    threads.close()


@pytest.fixture
def reads(commits: Threads) -> StateReads:
    made = StateReads("wordcount", {})
    made.open(commits)
    return made


def test_s15_a_read_runs_on_the_commit_thread_and_gives_its_result(reads: StateReads) -> None:
    assert reads.now(lambda _: threading.current_thread().name).startswith("commits")
    assert reads.consistent(lambda states: dict(states), None) == {}
    assert not reads.is_busy


def test_s15_what_a_read_raises_comes_back(reads: StateReads) -> None:
    with pytest.raises(ZeroDivisionError):
        reads.now(lambda _: 1 // 0)
    assert reads.now(lambda _: 1) == 1


def test_t7_a_request_waits_until_all_states_have_the_transaction_and_a_batch_does_not(reads: StateReads) -> None:
    reads.committing(7)
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(reads.consistent, lambda _: "answer", None)
        assert reads.now(lambda _: "part") == "part"
        with pytest.raises(TimeoutError):
            reads.consistent(lambda _: pytest.fail("it was given up"), 0.01)
        assert not waiting.done()
        reads.now(lambda _: reads.committed(6))  # a run that a replay has gone through only in part
        assert not waiting.done()
        reads.now(lambda _: reads.committed(7))
        assert waiting.result() == "answer"


def test_t7_who_takes_longer_than_it_should_is_named(commits: Threads) -> None:
    now = [100.0]
    thread = CommitThread(30.0, lambda: now[0])
    reads = StateReads("wordcount", {}, thread)
    reads.open(commits)
    reading, done = threading.Event(), threading.Event()

    def read(_: States) -> None:
        reading.set()
        done.wait()

    with ThreadPoolExecutor(1) as caller:
        caller.submit(reads.consistent, read, None, "function 'count'")
        reading.wait()
        now[0] = 130.0
        assert thread.late() == thread.warning() == ""
        now[0] = 131.0
        said = (
            "a read of states by function 'count' has taken 31 s so far; commits, and whoever asks states, wait for it"
        )
        assert thread.late() == thread.warning() == said
        assert thread.warning() == ""  # it was said
        done.set()
    reads.now(lambda _: None)  # when it has come to its end
    assert thread.late() == ""


def test_t7_who_waits_when_the_topology_stops_is_told(reads: StateReads, commits: Threads) -> None:
    reads.committing(7)
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(reads.consistent, lambda _: "answer", None)
        while not reads._waiting:
            reads.now(lambda _: None)
        commits.close()
        reads.close()
        with pytest.raises(TridentError, match="'wordcount' was stopped"):
            waiting.result()
    with pytest.raises(TridentError, match="'wordcount' was stopped"):
        reads.now(lambda _: 1)


def test_t7_who_waits_for_a_read_that_does_not_return_is_told_when_the_topology_has_ended(reads: StateReads) -> None:
    begun, end = threading.Event(), threading.Event()

    def stuck(_: object) -> None:
        begun.set()
        end.wait()

    with ThreadPoolExecutor(2) as callers:
        reading = callers.submit(reads.now, stuck)
        assert begun.wait(WITHIN_SECS)
        behind = callers.submit(reads.consistent, lambda _: "answer", None)
        reads.close()
        for waiting in (reading, behind):
            with pytest.raises(TridentError, match="'wordcount' was stopped"):
                waiting.result(WITHIN_SECS)
        end.set()


SQL = SQLiteState("s.db", table="s").for_fields(schema_of("word string"), schema_of("count bigint").fields[0])
PIN = CommitPin(TransactionAttempt(7, 0), "hash")


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
    assert torn_upto([recovered(SQL, txid) for txid in upto], record) == torn


def test_t7_a_state_that_does_not_remember_may_have_what_was_about_to_commit() -> None:
    states = [recovered(MemoryMapState.factory(), None), recovered(SQL, 6)]
    assert torn_upto(states, CoordinatorRecord(epoch=1, current_txid=7)) == 0
    assert torn_upto(states, CoordinatorRecord(epoch=1, current_txid=7, committing=(PIN,))) == 7
