"""A run that is watched until all input is processed: what keeps it from ending, and what doesn't."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from rich.console import Console

from coordinators.backends.local import LocalCoordination
from coordinators.record.wishes import Action, Wish
from trident_py.cli.watch import Watch
from trident_py.operations.builtin import Count
from trident_py.query import TridentQuery
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.topology import TridentTopology


def started(coordination: LocalCoordination, *words: str) -> TridentQuery:
    topology = TridentTopology("words")
    spout = FixedBatchSpout("word string", 1, *((word,) for word in words))
    topology.new_stream("lines", spout).group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "n")
    return topology.start(coordination=coordination)


def test_it_ends_once_all_input_is_processed() -> None:
    query = started(LocalCoordination(), "to", "be")
    assert Watch(query, Console(quiet=True)).until_end(once=True)
    assert query.status.last_committed == 2


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
