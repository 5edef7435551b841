"""Threads are started as they are needed, make every call that was taken, and are named when they don't end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from trident_py.engine.threads.threads import Threads

WITHIN_SECONDS = 60


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def until() -> float:
    return time.monotonic() + WITHIN_SECONDS


def test_calls_of_one_thread_are_made_in_order_and_none_is_lost() -> None:
    threads, made = Threads("one"), list[int]()
    for number in range(1000):
        assert threads.submit(partial(made.append, number))
    threads.close()
    assert threads.wait(until())
    assert made == list(range(1000))
    assert not threads.submit(lambda: made.append(-1))
    assert threads.busy() == []


def test_as_many_calls_run_side_by_side_as_there_may_be_threads() -> None:
    together = threading.Barrier(4, timeout=WITHIN_SECONDS)
    threads = Threads("four", 4)
    for _ in range(3):
        threads.submit(together.wait)
    together.wait()
    threads.close()
    assert threads.wait(until())


def test_a_thread_that_does_not_return_is_named_with_the_place_where_it_is(let_go: threading.Event) -> None:
    threads, begun = Threads("stuck"), threading.Event()

    def user_code() -> None:
        begun.set()
        let_go.wait()

    threads.submit(user_code)
    assert begun.wait(WITHIN_SECONDS)
    threads.close()
    assert not threads.wait(0)
    [busy] = threads.busy()
    assert busy.startswith("'stuck' in user_code, ")
    assert "test_threads.py, line " in busy
