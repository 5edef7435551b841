"""Stores of a user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from trident_py.errors import FailedException
from trident_py.interfaces.states import Key
from trident_py.states.maps import IBackingMap


@define
class Store(IBackingMap[Any]):
    """A store in a dict, which can break in the middle of a put."""

    entries: dict[tuple[Any, ...], Any] = field(factory=dict)
    calls: list[str] = field(factory=list)
    breaks_after: int | None = None

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        assert all(type(key) is list for key in keys)
        self.calls.append(f"get {len(keys)}")
        return [self.entries.get(tuple(key)) for key in keys]

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        assert all(type(key) is list for key in keys)
        assert len({tuple(key) for key in keys}) == len(keys)
        self.calls.append(f"put {len(keys)}")
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            if number == self.breaks_after:
                raise FailedException("the store is gone")
            self.entries[tuple(key)] = value


class Deleting(Store):
    """One whose keys can be deleted."""

    def multi_remove(self, keys: Sequence[Key]) -> None:
        assert all(type(key) is list for key in keys)
        self.calls.append(f"remove {len(keys)}")
        for key in keys:
            self.entries.pop(tuple(key), None)
