"""Windows as arithmetic: which rows fire when, against plain lists, however the rows are cut into batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trident_py
from trident_py import windows
from trident_py.errors import TopologyError
from trident_py.windows.windows import (
    MICROS,
    ArrivalWindow,
    SlidingCount,
    SlidingDuration,
    TumblingCount,
    TumblingDuration,
    Window,
    WindowProgress,
)


class Fed:
    """Feeds a window, and notes what it fires: trigger, and the numbers of its rows."""

    def __init__(self, window: ArrivalWindow) -> None:
        self.window = window
        self.progress = WindowProgress()
        self.keep = 0
        self.fired: list[tuple[int, list[int]]] = []

    def feed(self, rows: int, now: float = 0) -> list[list[int]]:
        """Feed ``rows`` rows at ``now``, in seconds; returns what that fires."""
        step = self.window.advance(self.progress, rows, round(now * MICROS))
        found = [(each.trigger, list(range(each.start, each.stop))) for each in step.fired]
        assert all(numbers and numbers[0] >= self.keep for _, numbers in found), "a row was given up too early"
        assert self.keep <= step.keep <= step.after.seen == self.progress.seen + rows
        self.progress, self.keep = step.after, step.keep
        self.fired += found
        return [numbers for _, numbers in found]


# --- by count ---------------------------------------------------------------------------------------------------------


def test_w2_a_sliding_count_fires_on_partial_content_until_it_is_full() -> None:
    fed = Fed(SlidingCount(5, 2))
    assert fed.feed(1) == []
    assert fed.feed(1) == [[0, 1]]
    assert fed.feed(6) == [[0, 1, 2, 3], [1, 2, 3, 4, 5], [3, 4, 5, 6, 7]]
    assert fed.fired[-1][0] == 4
    assert fed.feed(0) == []


def test_w1_a_tumbling_count_has_each_row_once() -> None:
    fed = Fed(TumblingCount(3))
    assert [fed.feed(rows) for rows in (2, 5, 0, 2)] == [[], [[0, 1, 2], [3, 4, 5]], [], [[6, 7, 8]]]
    assert [trigger for trigger, _ in fed.fired] == [1, 2, 3]
    assert fed.keep == 9


counts = st.builds(lambda slide, more: (slide + more, slide), st.integers(1, 6), st.integers(0, 8))


@given(counts, st.lists(st.integers(0, 12), max_size=12))
def test_w2_windows_by_count_do_not_depend_on_how_rows_are_cut_into_batches(
    sizes: tuple[int, int], batches: list[int]
) -> None:
    length, slide = sizes
    fed = Fed(SlidingCount(length, slide) if slide < length else TumblingCount(length))
    for rows in batches:
        fed.feed(rows)
    expected: list[tuple[int, list[int]]] = []
    held: list[int] = []
    for number in range(sum(batches)):  # one by one
        held = [*held, number][-length:]
        if (number + 1) % slide == 0:
            expected.append(((number + 1) // slide, held))
    assert fed.fired == expected


# --- by time ----------------------------------------------------------------------------------------------------------


def test_w2_a_tumbling_duration_fires_with_the_first_batch_after_its_end() -> None:
    fed = Fed(TumblingDuration(10))
    assert fed.feed(2, 1003) == []
    assert fed.feed(1, 1009.999999) == []
    assert fed.feed(1, 1010) == [[0, 1, 2]]
    assert fed.fired == [(1010 * MICROS, [0, 1, 2])]
    assert fed.feed(0, 1019) == []
    assert fed.feed(0, 1050) == [[3]]
    assert fed.feed(0, 2000) == []
    assert fed.progress.panes == ()


def test_w2_a_sliding_duration_fires_every_boundary_that_has_passed_in_order() -> None:
    fed = Fed(SlidingDuration(timedelta(seconds=4), 2))
    assert fed.feed(1, 101) == []
    assert fed.feed(1, 102.5) == [[0]]
    assert fed.feed(1, 107) == [[0, 1], [1]]
    assert fed.feed(0, 1_000_000_000) == [[2], [2]]
    assert [trigger // MICROS for trigger, _ in fed.fired] == [102, 104, 106, 108, 110]


YEAR_SECONDS = 365 * 24 * 3600


def test_where_the_time_goes_back_a_window_with_rows_keeps_its_own_which_goes_on() -> None:
    fed = Fed(TumblingDuration(10))
    fed.feed(1, 1005)
    assert fed.feed(1, 1005 + YEAR_SECONDS) == [[0]]
    assert fed.feed(1, 1006) == []
    assert fed.feed(0, 1015) == []
    assert fed.feed(0, 1016) == [[1, 2]]
    assert fed.fired[-1][0] == (1010 + YEAR_SECONDS) * MICROS


def test_a_window_without_rows_takes_the_time_that_it_is_given() -> None:
    fed = Fed(TumblingDuration(10))
    fed.feed(1, 1005 + YEAR_SECONDS)
    assert fed.feed(0, 1015 + YEAR_SECONDS) == [[0]]
    fed.feed(1, 1008)
    assert fed.feed(0, 1010) == [[1]]
    assert fed.fired[-1][0] == 1010 * MICROS


def test_windows_fire_all_week_after_one_batch_with_a_clock_that_was_a_year_ahead() -> None:
    fed, minute = Fed(TumblingDuration(60)), 60
    for number in range(10):
        fed.feed(1, number * minute)
    fed.feed(1, 10 * minute + YEAR_SECONDS)
    before = len(fed.fired)
    for number in range(11, 11 + 7 * 24 * 60):
        fed.feed(1, number * minute)
    assert len(fed.fired) - before >= 7 * 24 * 60 - 2
    assert fed.progress.seen - fed.keep <= 2


def test_batches_between_two_boundaries_change_nothing_but_the_rows() -> None:
    """So an empty one has nothing to store."""
    fed = Fed(SlidingDuration(10, 1))
    fed.feed(3, 1000.1)
    before = fed.progress
    fed.feed(0, 1000.9)
    assert fed.progress == before


durations = st.builds(lambda slide, more: (slide + more, slide), st.integers(1, 9), st.integers(0, 20))
steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 15)), max_size=15)


@given(durations, st.integers(1, 50), steps)
def test_w2_windows_by_time_have_the_rows_that_came_in_their_time(
    sizes: tuple[int, int], start: int, batches: list[tuple[int, int]]
) -> None:
    length, slide = sizes
    fed = Fed(SlidingDuration(length, slide) if slide < length else TumblingDuration(length))
    came: list[int] = []  # when each row did
    expected: list[tuple[int, list[int]]] = []
    now = start
    for rows, later in batches:
        for end in range(now + 1, now + later + 1):
            numbers = [number for number, time in enumerate(came) if end - length <= time < end]
            if end % slide == 0 and numbers:
                expected.append((end * MICROS, numbers))
        now += later
        came += [now] * rows
        fed.feed(rows, now)
    assert fed.fired == expected


moments = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100)), max_size=15)


@given(durations, moments)
def test_a_window_by_time_tells_the_first_moment_at_which_it_fires_without_more_rows(
    sizes: tuple[int, int], batches: list[tuple[int, int]]
) -> None:
    """Also where the times go back."""
    window = SlidingDuration(*sizes)
    fed = Fed(window)
    for rows, now in batches:
        fed.feed(rows, now)
        due = window.next_firing_at(fed.progress)
        assert (due is None) == (not fed.progress.panes)
        if due is not None:
            assert due > now * MICROS
            assert window.advance(fed.progress, 0, due).fired
            assert not window.advance(fed.progress, 0, due - 1).fired


def test_a_window_by_count_waits_for_rows_only() -> None:
    assert SlidingCount(5, 2).next_firing_at(WindowProgress(3)) is None


@given(durations, steps)
def test_what_a_window_by_time_remembers_is_bounded(sizes: tuple[int, int], batches: list[tuple[int, int]]) -> None:
    fed, clock = Fed(SlidingDuration(*sizes)), 0
    for rows, later in [*batches, *[(1, 1)] * 40]:
        clock += later
        fed.feed(rows, clock)
        assert len(fed.progress.panes) <= 2 * sizes[0] / sizes[1] + 2


# --- how they are declared --------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, Sequence[Any], str]] = {
    "no rows": (TumblingCount, [0], "length of a window is a number of rows from 1, not 0"),
    "not a number": (SlidingCount, [5, "2"], "slide of a window is a number of rows from 1, not '2'"),
    "a truth": (TumblingCount, [True], "a number of rows from 1, not True"),
    "long slides": (SlidingCount, [5, 6], "a window of length 5 can't slide by 6"),
    "long sliding": (SlidingDuration, [1, timedelta(seconds=2)], r"a window of length 1\.0 can't slide by 2\.0"),
    "no time": (TumblingDuration, [0], r"length of a window is 0\.001 s or longer, not 0\.0 s"),
    "short slides": (SlidingDuration, [1, timedelta(0)], "slide of a window is"),
    "for ever": (TumblingDuration, [float("inf")], "a duration is a finite number of seconds or a timedelta, not inf"),
    "words": (TumblingDuration, ["1 minute"], "a finite number of seconds or a timedelta, not '1 minute'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_window_that_cannot_be_is_an_error_at_once(case: str) -> None:
    kind, sizes, message = WRONG[case]
    with pytest.raises(TopologyError, match=message):
        kind(*sizes)


KINDS: Iterable[Window] = (TumblingCount(5), SlidingCount(5, 2), TumblingDuration(5), SlidingDuration(5, 0.5))


def test_windows_are_values_with_names() -> None:
    assert [each.slug for each in KINDS] == [
        "tumbling_count_5",
        "sliding_count_5_2",
        "tumbling_micros_5000000",
        "sliding_micros_5000000_500000",
    ]
    assert [each.is_timed for each in KINDS] == [False, False, True, True]
    assert TumblingDuration(timedelta(minutes=1)) == TumblingDuration(60)
    assert repr(SlidingCount(5, 2)) == "SlidingCount(length=5, slide=2)"
    for each in KINDS:
        name = type(each).__name__
        assert getattr(trident_py, name) is getattr(windows, name)
