"""A run that is watched until all input is processed: what keeps it from ending, and what doesn't."""

from __future__ import annotations

import os
import signal
import threading
from uuid import uuid4

import pytest
from rich.console import Console

from coordinators.backends.local import LocalCoordination
from coordinators.record.wishes import Action, Wish
from tests.topologies import until
from trident_py.cli.watch import Watch
from trident_py.operations.builtin import Count
from trident_py.query import TridentQuery
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.topology import TridentTopology


def started(coordination: LocalCoordination, *words: str, cycle: bool = False) -> TridentQuery:
    topology = TridentTopology("words")
    spout = FixedBatchSpout("word string", 1, *((word,) for word in words), cycle=cycle)
    topology.new_stream("lines", spout).group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "n")
    return topology.start(coordination=coordination)


def test_it_ends_once_all_input_is_processed() -> None:
    query = started(LocalCoordination(), "to", "be")
    assert Watch(query, Console(quiet=True)).until_end(once=True)
    assert query.status.last_committed == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_of_either_kind_lets_what_is_under_way_commit(number: signal.Signals) -> None:
    query, before = started(LocalCoordination(), "to", "be", cycle=True), signal.getsignal(number)

    def interrupt() -> None:
        until(lambda: bool(query.status.last_committed) and signal.getsignal(number) is not before)
        os.kill(os.getpid(), number)

    user = threading.Thread(target=interrupt, daemon=True)
    user.start()
    watch = Watch(query, Console(quiet=True))
    assert watch.until_end(once=False)
    user.join()
    assert watch.asked_to_stop == 1
    assert query.status.transactions == ()


def test_while_an_operator_holds_it_back_it_stays_and_ends_when_that_is_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    coordination = LocalCoordination()
    with started(coordination, "to") as query:
        query.process_all_available()
    coordination.wish("words", Wish(uuid4().hex, Action.PAUSE))
    refused, ask, ended = threading.Event(), TridentQuery.process_all_available, list[bool]()

    def asked(query: TridentQuery, timeout: float | None = None) -> None:
        try:
            ask(query, timeout)
        finally:
            refused.set()

    def resume() -> None:
        refused.wait()
        coordination.wish("words", Wish(uuid4().hex, Action.RESUME))
        ended.append(query.await_termination(timeout=60))
        query.stop()

    monkeypatch.setattr(TridentQuery, "process_all_available", asked)
    query = started(coordination, "to", "be")
    operator = threading.Thread(target=resume, daemon=True)
    operator.start()
    assert Watch(query, Console(quiet=True)).until_end(once=True)
    operator.join()
    assert (ended, query.status.last_committed) == ([True], 2)
