"""The value and the timers of a key, as a function sees them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from trident_py.operations import KeyedFunction, KeyState, Timers

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_a_value_is_a_row_until_it_is_cleared() -> None:
    state = KeyState(("n", "word"))
    assert state.get() is None
    state.update([1, "a"])
    assert (state.get().n, state.get()["word"]) == (1, "a")
    state.update(state.get())
    state.clear()
    assert state.get() is None


def test_a_value_that_is_no_row_is_refused() -> None:
    state = KeyState(("n",))
    with pytest.raises(TypeError, match="the value of a key is a tuple, list or Row, not 3"):
        state.update(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(1, 2\) has 2 values, for the 1 fields"):
        state.update((1, 2))


def test_a_timer_is_set_once_and_deleted() -> None:
    timers, elsewhere = Timers(now=NOON), timezone(timedelta(hours=2))
    timers.set(NOON + timedelta(seconds=1))
    timers.set((NOON + timedelta(seconds=1)).astimezone(elsewhere))
    timers.set(NOON)
    assert timers.pending == [NOON, NOON + timedelta(seconds=1)]
    timers.delete(NOON)
    timers.delete(NOON)
    assert timers.pending == [NOON + timedelta(seconds=1)]


@pytest.mark.parametrize("at", [datetime(2024, 5, 1), 12, None])  # noqa: DTZ001 - that is what is refused
def test_a_time_without_a_zone_is_refused(at: datetime) -> None:
    with pytest.raises(TypeError, match="a timer is set for a datetime with a time zone, not"):
        Timers(now=NOON).set(at)


def test_a_function_needs_no_timers() -> None:
    assert KeyedFunction.on_timer(None, None, NOON, KeyState(()), Timers(now=NOON)) is None  # type: ignore[arg-type]
