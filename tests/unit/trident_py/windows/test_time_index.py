"""The index of keys by time: it gives those that are due, in order, and touches few of the others."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.windows.driven import begun
from tests.unit.trident_py.windows.test_session_store import Counting
from trident_py.states.memory import MemoryMapState
from trident_py.windows import bins, time_index
from trident_py.windows.time_index import Entry, StoredBin, TimeIndex, bin_names

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND


def taken(index: TimeIndex, now: int) -> list[Entry]:
    return [entry for some in index.take(now) for entry in some]


delays = st.integers(1, 5000) | st.integers(1, 10**8) | st.integers(1, 10**15)
steps = st.lists(st.tuples(st.lists(delays, max_size=6), delays), max_size=12)


@pytest.mark.parametrize("few", [0, 3, 256])
@pytest.mark.parametrize("seal", [0, 10**6], ids=["sealed", "loose"])
@given(steps)
@settings(max_examples=60, deadline=None)
def test_it_gives_the_entries_that_are_due_in_order(
    seal: int, few: int, steps: Sequence[tuple[Sequence[int], int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins, "SEAL_BYTES", seal)
        patch.setattr(time_index, "_FEW_ROWS", few)
        state, now, stored, left, number = (
            begun(MemoryMapState()),
            NOW,
            dict[int, StoredBin](),
            list[tuple[int, str]](),
            0,
        )
        for after, later in steps:
            index = TimeIndex.stored(state, stored)
            entries = [(now + delay, f"key {number + place}") for place, delay in enumerate(after)]
            number += len(entries)
            index.add(entries, now)
            now += later
            left = sorted([*left, *entries])
            assert taken(index, now) == [entry for entry in left if entry[0] <= now]
            left = [entry for entry in left if entry[0] > now]
            stored = index.bins
            assert min((each.least for each in stored.values()), default=None) == (left[0][0] if left else None)
        state.commit_group()
        assert left or not list(state.get_tuples())


def test_entries_can_be_added_while_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_index, "_PORTION_ROWS", 1)
    index = TimeIndex.stored(begun(MemoryMapState()), {})
    index.add([(1, "a"), (5, "b"), (40, "c")], 0)
    found = []
    for some in index.take(9):
        found += some
        index.add([(10 if key == "a" else 100, key) for _, key in some], 9)
    assert found == [(1, "a"), (5, "b")]
    assert taken(index, 100) == [(10, "a"), (40, "c"), (100, "b")]


def test_the_entries_of_both_kinds_are_separate() -> None:
    state = begun(MemoryMapState())
    mine, other = (TimeIndex.stored(state, {}, kind) for kind in (0, 1))
    for few in (1, 300):  # a few that come next, and many
        for name, index in (("mine", mine), ("other", other)):
            index.add([(NOW + 1, f"{name} soon"), *((NOW + 5000 + n, f"{name} {n}") for n in range(few))], NOW)
        for name, index in (("mine", mine), ("other", other)):
            assert taken(index, NOW + 1) == [(NOW + 1, f"{name} soon")]
        assert not mine.bins.keys() & other.bins.keys()
        assert {key.split()[0] for _, key in taken(mine, NOW + 10**6)} == {"mine"}
        assert len(taken(other, NOW + 10**6)) == few


def test_times_before_1970_and_in_the_year_9999_have_bins() -> None:
    state = begun(MemoryMapState())
    index = TimeIndex.stored(state, {})
    far, old = 253_402_300_799 * SECOND, -62_135_596_800 * SECOND
    index.add([(far, "far"), (old, "old")], 0)
    assert taken(index, NOW) == [(old, "old")]
    assert taken(index, far) == [(far, "far")]
    assert index.bins == {}


def test_bins_are_wider_the_later_their_times_are() -> None:
    delays = [1, 10**5, 10**7, 10**9, 10**11, 10**13]
    widths = [1 << (int(name) & 63) for name in bin_names(np.array([NOW + each for each in delays]), NOW)]
    assert widths == sorted(widths)
    assert all(delay / 16 <= width <= max(delay / 8, 4096) for width, delay in zip(widths, delays, strict=True))


def test_a_step_reads_what_is_due_and_seldom_more() -> None:
    """100 000 entries over an hour: the head lists few bins, and an entry is read a few times in all."""
    state = Counting()
    begun(state)
    index = TimeIndex.stored(state, {})
    dice = random.Random(40)
    index.add([(NOW + dice.randrange(3600 * SECOND), f"key {n}") for n in range(100_000)], NOW)
    found, chunks = 0, state.reads
    for second in range(3601):
        found += len(taken(index, NOW + second * SECOND))
        assert len(index.bins) < 150
        if second == 1:
            first = state.reads - chunks
    assert found == 100_000
    assert first < 40
    assert state.reads - chunks < 5 * 3601
