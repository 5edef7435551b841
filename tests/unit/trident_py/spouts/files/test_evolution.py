"""Files with other fields than the schema: which stop a topology, and which are read."""

from __future__ import annotations

import pytest

from trident_py import SpoutError
from trident_py.spouts.files.evolution import Evolution, check_once


@pytest.mark.parametrize(
    ("evolution", "names", "message"),
    [
        (Evolution(), ["a", "b", "c"], ""),
        (Evolution(), ["a", "c", "c", "b"], ""),
        (Evolution(), ["a", "b", "a"], "file 'f': it has the field 'a' 2 times; to fix this: leave it out"),
        (Evolution(), ["a"], "file 'f' has no field 'b'; it has a; to fix this"),
        (Evolution(adds=True), ["a"], ""),
        (Evolution(adds=True), ["c"], "file 'f' has no field 'a'"),
        (Evolution(is_found=True), ["a", "b", "c"], "has the field 'c', which was not found at the start"),
        (Evolution(is_found=True, adds=True), ["a", "b", "c"], ""),
    ],
)
def test_fields_of_a_file_are_compared_with_the_schema(evolution: Evolution, names: list[str], message: str) -> None:
    if message:
        with pytest.raises(SpoutError, match=message):
            evolution.check("f", names, ["a", "b"])
    else:
        evolution.check("f", names, ["a", "b"])


def test_a_name_that_is_there_twice_is_found() -> None:
    check_once(["a", "A"])
    with pytest.raises(ValueError, match="it has the field 'a' 3 times"):
        check_once(["b", "a", "a", "a"])
