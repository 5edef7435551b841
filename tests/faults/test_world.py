"""How what a world has started comes to its end."""

from __future__ import annotations

import signal
from contextlib import ExitStack

import pytest

from tests.faults.world import ended_in_order


def test_who_is_told_to_end_stops_what_was_started() -> None:
    before, stopped = signal.getsignal(signal.SIGTERM), list[str]()
    with pytest.raises(KeyboardInterrupt):
        _told_to_end(stopped)
    assert stopped == ["a server"]
    assert signal.getsignal(signal.SIGTERM) is before


def _told_to_end(stopped: list[str]) -> None:
    with ended_in_order(), ExitStack() as stack:
        stack.callback(stopped.append, "a server")
        signal.raise_signal(signal.SIGTERM)
