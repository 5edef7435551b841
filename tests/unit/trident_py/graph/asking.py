"""States to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trident_py.interfaces.states import ReadOnlyMapState, ReadOnlyState, StateFactory


class Lengths(ReadOnlyState, ReadOnlyMapState[int]):
    """The length of each key."""

    def multi_get(self, keys: Sequence[Any]) -> list[int | None]:
        return [len(word) or None for (word,) in keys]


class LengthsFactory(StateFactory):
    def make_state(self, *_: Any) -> Lengths:
        return Lengths()
