"""What a handle says about its topology, and which topologies a process has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

import trident_py
from coordinators.backends.local import LocalCoordination
from coordinators.driver.loop import DriverLoop, Inbox
from coordinators.protocol.messages import Broken, WishesChanged
from coordinators.record.store import InMemoryRecordStore
from coordinators.record.wishes import Action, Hold, Wish
from coordinators.status.candidate import Candidate
from coordinators.values.errors import FencedError, TridentError
from tests.unit.coordinators.world import Numbers, World
from trident_py.engine.monitoring.listeners import Listeners
from trident_py.engine.ports.requests import Requests
from trident_py.query import TridentQuery, ensure_not_leading_here, started

WITHIN_SECONDS = 60
PLACE = "zoo:2181/trident"


@pytest.fixture
def closing() -> Iterator[Event]:
    """The end of a topology waits for it."""
    event = Event()
    event.set()
    yield event
    event.set()


def running(name: str, closing: Event, requests: Requests | None = None) -> TridentQuery:
    """A topology over an in-memory world with nothing to do."""
    world, inbox = World(spouts={"lines": Numbers(upto=0)}), Inbox()
    world.start()

    def close(_: BaseException | None) -> None:
        closing.wait(WITHIN_SECONDS)

    loop = DriverLoop(name, inbox, close, world.driver)
    loop.start()
    asked, coordination = requests or Requests(name, {}), LocalCoordination()
    query = TridentQuery(name, loop, Listeners(), Candidate(name), asked, coordination=coordination, place=PLACE)
    return started(query)


def operated(query: TridentQuery, action: Action) -> None:
    """An operator wishes something of it."""
    driver = query._loop.driver
    assert driver is not None
    assert isinstance(driver.store, InMemoryRecordStore)
    driver.store.coordination.wish(Wish(action, action))
    query._loop.inbox.post(WishesChanged())


def test_active_lists_by_name_what_runs_in_this_process(closing: Event) -> None:
    first, second = running("first", closing), running("second", closing)
    assert trident_py.active() == {"first": first, "second": second}
    first.stop()
    assert trident_py.active() == {"second": second}
    second.stop()
    assert trident_py.active() == {}


def test_a_handle_is_shown_in_one_line(closing: Event) -> None:
    query = running("wc", closing)
    while query.status.leads_since is None:  # until its first turn
        query._loop.ended.wait(0.001)
    pattern = r"<TridentQuery wc: (processing|waiting for data), 0 transactions committed, leads since \d\d:\d\d:\d\d>"
    assert re.fullmatch(pattern, repr(query))
    query.stop()
    assert repr(query) == "<TridentQuery wc: stopped, 0 transactions committed>"


def test_a_second_start_in_the_same_process_says_so_at_once_and_how_to_get_hold_of_the_first(closing: Event) -> None:
    query = running("wc", closing)
    pattern = r"'wc' runs in this process already.*trident_py\.active\(\)\['wc'\]\.stop\(\)"
    with pytest.raises(FencedError, match=pattern):
        ensure_not_leading_here("wc", PLACE)
    ensure_not_leading_here("wc", "another ZooKeeper")
    ensure_not_leading_here("other", PLACE)
    query.stop()
    ensure_not_leading_here("wc", PLACE)


def test_a_pause_holds_when_it_returns(closing: Event) -> None:
    query = running("wc", closing)
    while query.status.leads_since is None:  # until its first turn
        query._loop.ended.wait(0.001)
    query.pause()
    assert query.status["is_paused"]
    assert query.status["message"] == "paused"
    query.stop()


def test_a_resume_says_if_an_operator_holds_the_topology_back_all_the_same(closing: Event) -> None:
    query = running("test", closing)
    query.pause()
    assert query.resume() is False
    operated(query, Action.PAUSE)
    while query.status.standing.hold is not Hold.PAUSED:
        query._loop.ended.wait(0.001)
    query.pause()
    assert query.resume() is True
    assert query.status.is_paused
    assert query.status.message == "paused, as an operator wishes; `trident resume test` lifts that"
    with pytest.raises(TridentError, match="is paused, as an operator wishes; `trident resume test` first"):
        query.process_all_available(WITHIN_SECONDS)
    operated(query, Action.RESUME)
    while query.status.is_paused:
        query._loop.ended.wait(0.001)
    assert query.resume() is False
    query.stop()


def test_what_was_left_behind_is_told_by_the_status(closing: Event) -> None:
    query = running("wc", closing)
    query._loop.shutdown.left_behind = ["'trident-lines-emitter' in emit_batch, app.py, line 3"]
    query.stop()
    assert (
        query.status["message"] == "stopped; left behind: thread 'trident-lines-emitter' in emit_batch, app.py, line 3"
    )


def test_who_waits_is_told_when_the_topology_has_ended_and_not_before(closing: Event) -> None:
    query = running("wc", closing)
    closing.clear()
    query._loop.inbox.post(Broken(TridentError("enough")))
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(query.process_all_available)
        with pytest.raises(TimeoutError, match="'wc' was still busy"):
            query.process_all_available(timeout=0.01)
        assert not waiting.done()
        closing.set()
        with pytest.raises(TridentError, match="enough"):
            waiting.result(WITHIN_SECONDS)
        assert not query.is_active
