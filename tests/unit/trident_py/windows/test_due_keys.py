"""Keys by time: each is taken when its time has passed, however the bins are divided."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.windows.stored import Stored
from trident_py.windows import due_keys
from trident_py.windows.bins import Bins
from trident_py.windows.due_keys import FIELDS, DueKeys

times = st.integers(-(10**6), 10**6) | st.integers(0, 300)
steps = st.lists(st.tuples(st.lists(times, max_size=12), st.integers(0, 2000)), max_size=12)


def two(width: int) -> tuple[DueKeys, DueKeys]:
    bins = Bins(Stored(), FIELDS, {})
    return DueKeys(bins, 0, {}, width), DueKeys(bins, 1, {}, width)


@pytest.mark.parametrize("many", [0, 2, 1000])
@given(st.sampled_from([1, 16, 4096]), steps)
@settings(max_examples=100, deadline=None)
def test_keys_are_taken_when_their_time_has_passed(many: int, width: int, steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due_keys, "MANY_KEYS", many)
        mine, other = two(width)
        left, bound, number = dict[str, int](), -(10**6), 0
        for some, later in steps:
            new = {f"{number + place}": time for place, time in enumerate(some)}
            number += len(some)
            for each in (mine, other):
                each.put(list(new), list(new.values()))
            left |= new
            bound += later
            assert mine.least == min(left.values(), default=None)
            taken = [key for keys in mine.take(bound) for key in keys]
            assert sorted(taken) == sorted(key for key, time in left.items() if time < bound)
            left = {key: time for key, time in left.items() if time >= bound}
            check_bins(mine)
        assert len([key for keys in other.take(10**7) for key in keys]) == number
        assert not other.spans


def check_bins(keys: DueKeys) -> None:
    """Bins are there for their keys, and don't overlap."""
    last = None
    for start, span in sorted(keys.spans.items()):
        assert last is None or last <= start
        assert start <= span.least < span.stop
        assert span.keys > 0
        last = span.stop


def test_keys_can_be_put_while_others_are_taken() -> None:
    mine, _ = two(16)
    mine.put(["a", "b", "c"], [1, 5, 40])
    found = []
    for keys in mine.take(10):
        found += keys
        mine.put(keys, [10, *[100] * (len(keys) - 1)])
    assert found == ["a", "b"]
    assert [key for keys in mine.take(101) for key in keys] == ["a", "c", "b"]


def test_a_part_of_a_large_bin_is_read_again_and_again_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_keys, "MANY_KEYS", 10)
    mine, _ = two(1 << 20)
    mine.put([str(time) for time in range(10_000)], list(range(0, 10**6, 100)))
    assert len(mine.spans) == 1
    assert [list(keys) for keys in mine.take(101)] == [["0", "1"]]
    assert max(span.keys for span in mine.spans.values()) < 700
    assert sum(span.keys for span in mine.spans.values()) == 9998


def test_the_number_of_bins_grows_with_the_logarithm_of_the_time() -> None:
    mine, _ = two(1024)
    for day in range(3000):
        mine.put([str(day)], [day * 86_400_000_000])
    assert len(mine.spans) < 600
    check_bins(mine)
