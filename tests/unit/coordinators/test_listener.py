"""Every event has its method, and is frozen."""

from __future__ import annotations

import pytest
from attrs.exceptions import FrozenInstanceError

from coordinators import listener
from coordinators.attempt import TransactionAttempt
from coordinators.listener import CommittedEvent, TopologyEvent, TridentListener, tell_nobody


def test_each_method_of_a_listener_is_for_one_kind_of_event() -> None:
    kinds = [each for each in vars(listener).values() if isinstance(each, type) and issubclass(each, TopologyEvent)]
    methods = sorted(each.method for each in kinds if hasattr(each, "method"))
    assert methods == sorted(name for name in vars(TridentListener) if name.startswith("on_"))
    assert len(methods) == 8


def test_an_event_is_frozen_and_a_listener_need_not_listen() -> None:
    event = CommittedEvent(topology="wc", attempt=TransactionAttempt(7, 0), at=0.0)
    with pytest.raises(FrozenInstanceError):
        event.rows = 3  # type: ignore[misc]
    TridentListener().on_committed(event)
    tell_nobody(event)
