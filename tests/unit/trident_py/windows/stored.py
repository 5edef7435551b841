"""A state in a dictionary, which tells the keys that are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trident_py.interfaces.states import RemovableMapState


class Stored(RemovableMapState[Any]):
    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.read: list[Any] = []
        self.written: list[Any] = []

    def begin_commit(self, txid: int) -> None: ...

    def commit(self, txid: int) -> None: ...

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        self.read += keys
        return [self.values.get(key) for key in keys]

    def multi_put(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self.written += keys
        self.values |= zip(keys, values, strict=True)

    def multi_remove(self, keys: Sequence[Any]) -> None:
        self.written += keys
        for key in keys:
            self.values.pop(key, None)

    def multi_update(self, keys: Sequence[Any], updaters: Sequence[Any]) -> list[Any]:
        raise AssertionError("windows and joins put values")
