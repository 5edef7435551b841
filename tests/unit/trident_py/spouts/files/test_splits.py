from __future__ import annotations

import pytest

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.identity import Identity
from trident_py.spouts.files.splits import Split

IDENTITY = Identity((1, 2), 5, "head", "head")


@pytest.mark.parametrize(
    ("stored", "split", "cursor"),
    [
        (["a", 0, 5], Split("a", 0, 5, 5, None), 5),
        (["a", 0, 5, 9], Split("a", 0, 5, 9, None), [5, 9]),
        (["a", 0, 5, 5, [1, 2, "head"]], Split("a", 0, 5, 5, IDENTITY), [5, 5, [1, 2, "head"]]),
        (["a", 3, 3, 5, [1, 2, "head"]], Split("a", 3, 3, 5, IDENTITY), [3, 5, [1, 2, "head"]]),
    ],
)
def test_an_extent_is_read_as_this_version_and_the_one_before_store_it(
    stored: list[Json], split: Split, cursor: Json
) -> None:
    assert Split.parse(stored) == split
    assert split.cursor == cursor
    if split.identity:
        assert split.stored == stored


@pytest.mark.parametrize("stored", [[], ["a", 0], ["a", "0", 5], ["a", 0, 5, 5, [1]], ["a", 0, 5, 5, [1, 2, "h"], 6]])
def test_what_another_version_has_stored_is_refused(stored: list[Json]) -> None:
    with pytest.raises(SpoutError, match="which this version cannot read"):
        Split.parse(stored)
