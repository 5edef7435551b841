"""Listeners of users': whatever one of them does, the others hear everything, and nobody waits."""

from __future__ import annotations

import logging
import time
from threading import Event, current_thread, main_thread

import pytest
from attrs import define, field

from coordinators.status.listener import CommittedEvent, EmittedEvent, EndedEvent, TopologyEvent, TridentListener
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.monitoring.listeners import EventThread, ListenerCalls, Listeners, listening
from trident_py.errors import ConfigError

PATIENCE_SECONDS = 60


def committed(txid: int) -> CommittedEvent:
    return CommittedEvent(topology="wc", attempt=TransactionAttempt(txid, 0), at=0.0)


ENDED = EndedEvent(topology="wc", at=0.0)


@define(eq=False)
class Hearing(TridentListener):
    """Keeps what it hears, when it may."""

    may: Event = field(factory=Event)
    begun: Event = field(factory=Event)
    heard: list[TopologyEvent] = field(factory=list)

    def on_committed(self, event: CommittedEvent) -> None:
        self.begun.set()
        assert self.may.wait(PATIENCE_SECONDS)
        assert current_thread() is not main_thread()
        self.heard.append(event)

    def on_ended(self, event: EndedEvent) -> None:
        self.heard.append(event)


class Raising(TridentListener):
    """Raises, each time."""

    def on_committed(self, event: CommittedEvent) -> None:
        raise ValueError(f"no {event.attempt}")

    def on_emitted(self, event: EmittedEvent) -> None:
        raise SystemExit


def test_a_listener_hears_everything_in_order_also_what_waits_when_the_topology_ends() -> None:
    hearing = Hearing()
    listeners = listening("wc", [hearing])
    events = [*map(committed, range(1, 100)), ENDED]
    for event in events:
        listeners.tell(event)
    hearing.may.set()
    listeners.close()
    assert hearing.heard == events
    assert listeners.progress.recent()[-1]["txid"] == 99
    assert listeners.dropped == 0


def test_one_that_raises_goes_on_and_hurts_nobody_and_is_logged_once_for_each_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hearing = Hearing()
    hearing.may.set()
    listeners = listening("wc", [Raising(), hearing])
    emitted = EmittedEvent(topology="wc", attempt=TransactionAttempt(1, 0), at=0.0)
    for event in (committed(1), emitted, committed(2), committed(3), emitted):
        listeners.tell(event)
    listeners.close()
    assert hearing.heard == [committed(1), committed(2), committed(3)]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    raised = [str(record.exc_info[1]).partition(":")[0] for record in errors if record.exc_info]
    assert raised == ["ValueError", "SystemExit"]
    assert "topology wc: the listener Raising raised in on_committed" in errors[0].getMessage()


def test_of_more_than_may_wait_the_oldest_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    hearing = Hearing()
    slow = EventThread("wc", "the listener Hearing", ListenerCalls("wc", hearing), waiting_max=2)
    listeners = Listeners(others=[slow])
    listeners.tell(committed(1))
    assert hearing.begun.wait(PATIENCE_SECONDS)
    for event in (committed(2), committed(3), committed(4), ENDED):
        listeners.tell(event)
    hearing.may.set()
    listeners.close()
    assert hearing.heard == [committed(1), committed(4), ENDED]
    assert listeners.dropped == 2
    assert [record.getMessage() for record in caplog.records] == [
        "topology wc: the listener Hearing is too slow for its events; the oldest are dropped"
    ]


def test_the_end_waits_a_limited_time_for_one_that_does_not_return(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trident_py.engine.monitoring.listeners.DELIVER_SECONDS", 0.01)
    hearing = Hearing()
    listeners = listening("wc", [hearing])
    listeners.tell(committed(1))
    assert hearing.begun.wait(PATIENCE_SECONDS)
    listeners.tell(ENDED)
    listeners.close()
    assert "is not waited for any longer; 1 events are left" in caplog.text
    hearing.may.set()


def test_one_that_heard_nothing_has_no_thread_to_wait_for() -> None:
    listening("wc", [Hearing()]).close()


def test_a_class_is_no_listener() -> None:
    with pytest.raises(ConfigError, match="'wc': a listener is an instance of TridentListener, not"):
        listening("wc", [Hearing])  # type: ignore[list-item]


def test_one_that_takes_many_at_once_is_given_them_together() -> None:
    taken: list[list[TopologyEvent]] = []
    gathering = EventThread(
        "wc", "the history", lambda events: taken.append(list(events)), at_once_max=3, gather_seconds=PATIENCE_SECONDS
    )
    events = [*map(committed, range(1, 5)), ENDED]
    for event in events:
        gathering.tell(event)
    gathering.close()  # ends the wait for more
    gathering.join(time.monotonic() + PATIENCE_SECONDS)
    assert taken == [events[:3], events[3:]]
