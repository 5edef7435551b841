"""The end of a topology: who waits is told when it has come, or why it has not."""

from __future__ import annotations

import pytest

from coordinators.values.errors import TridentError
from coordinators.values.shutdown import Shutdown


def test_who_waits_is_told_why_leadership_is_kept() -> None:
    shutdown = Shutdown()
    shutdown.hold("a state without a fence commits")
    with pytest.raises(TridentError, match="without a fence"):
        shutdown.wait(force=False)


def test_an_end_ends_all_reasons() -> None:
    shutdown = Shutdown()
    shutdown.hold("a state without a fence commits")
    shutdown.end()
    shutdown.wait(force=False)
    shutdown.wait(force=True)
    assert shutdown.held_by == ""
    assert shutdown.ended.is_set()


def test_a_forced_end_is_told_to_those_that_asked_before_and_to_those_that_come_late() -> None:
    shutdown, told = Shutdown(), []
    shutdown.when_forced(lambda: told.append("before"))
    shutdown.end()
    assert told == []
    shutdown.wait(force=True)
    shutdown.when_forced(lambda: told.append("late"))
    assert told == ["before", "late"]
