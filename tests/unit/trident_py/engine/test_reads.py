"""Who reads states waits for its turn on the commit thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from trident_py.engine.reads import StateReads
from trident_py.errors import TridentError


@pytest.fixture
def commits() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="commits") as executor:
        yield executor


@pytest.fixture
def reads(commits: ThreadPoolExecutor) -> StateReads:
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


def test_t7_a_request_waits_until_all_states_have_the_transaction_and_a_batch_does_not(
    reads: StateReads, commits: ThreadPoolExecutor
) -> None:
    reads.is_torn = True
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(reads.consistent, lambda _: "answer", None)
        assert reads.now(lambda _: "part") == "part"
        with pytest.raises(TimeoutError):
            reads.consistent(lambda _: pytest.fail("it was given up"), 0.01)
        assert not waiting.done()
        commits.submit(reads.committed).result()
        assert waiting.result() == "answer"


def test_t7_who_waits_when_the_topology_stops_is_told(reads: StateReads, commits: ThreadPoolExecutor) -> None:
    reads.is_torn = True
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(reads.consistent, lambda _: "answer", None)
        while not reads._waiting:
            commits.submit(lambda: None).result()
        commits.shutdown()
        reads.close()
        with pytest.raises(TridentError, match="'wordcount' was stopped"):
            waiting.result()
    with pytest.raises(TridentError, match="'wordcount' was stopped"):
        reads.now(lambda _: 1)
