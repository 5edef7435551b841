"""The vocabulary of the machine: events are values that nobody changes afterwards."""

from __future__ import annotations

import pytest
from attrs.exceptions import FrozenInstanceError

from coordinators.protocol.protocol import EmitBatch, Ticked
from tests.unit.coordinators.world import attempt


def test_a_tick_keeps_what_was_ready_then() -> None:
    ready = {1, 2}
    tick = Ticked(frozenset(ready))
    ready.add(3)
    assert tick == Ticked([2, 1])
    assert tick.ready == {1, 2}


def test_a_command_is_frozen_and_equal_by_value() -> None:
    command = EmitBatch(attempt("1:0"))
    assert command == EmitBatch(attempt("1:0"))
    with pytest.raises(FrozenInstanceError):
        command.attempt = attempt("1:1")  # type: ignore[misc]
