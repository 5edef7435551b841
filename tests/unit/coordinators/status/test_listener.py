"""Every event has its method, and is frozen."""

from __future__ import annotations

import pytest
from attrs.exceptions import FrozenInstanceError

from coordinators.status import listener
from coordinators.status.listener import CommittedEvent, TopologyEvent, TridentListener, tell_nobody
from coordinators.values.attempt import TransactionAttempt

EVENT = CommittedEvent(topology="wc", attempt=TransactionAttempt(7, 0), at=0.0)


def test_each_method_of_a_listener_is_for_one_kind_of_event() -> None:
    kinds = [each for each in vars(listener).values() if isinstance(each, type) and issubclass(each, TopologyEvent)]
    methods = sorted(each.method for each in kinds if hasattr(each, "method"))
    assert methods == sorted({name for name in vars(TridentListener) if name.startswith("on_")} - {"on_event"})
    assert len(methods) == 12


def test_all_events_can_be_heard_in_one_place() -> None:
    class All(TridentListener):
        heard: list[TopologyEvent]

        def __init__(self) -> None:
            self.heard = []

        def on_event(self, event: TopologyEvent) -> None:
            self.heard.append(event)

        def on_committed(self, event: CommittedEvent) -> None:
            raise AssertionError

    told = All()
    told.on_event(EVENT)
    assert told.heard == [EVENT]


def test_an_event_is_frozen_and_a_listener_need_not_listen() -> None:
    with pytest.raises(FrozenInstanceError):
        EVENT.rows = 3  # type: ignore[misc]
    TridentListener().on_event(EVENT)
    tell_nobody(EVENT)
