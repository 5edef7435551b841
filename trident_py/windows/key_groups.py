"""The data of a state in groups of keys: each group is read and written by itself, so tasks can share the work.

The group of a key depends only on the key. A name in the state begins with the number of its group.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from trident_py.interfaces.states import Key, RemovableMapState, ValueUpdater
from trident_py.windows.event_store import HEAD

Place: TypeAlias = tuple[str, int]
"""A key of the state."""

GROUPS = 16
"""The number of groups; stored data depends on it. So many tasks can work on one state."""


@define
class GroupedState:
    """A state with its keys in groups, in one transaction. It writes all changes at once, by `flush`.

    Attributes:
        inner: the state.
    """

    inner: RemovableMapState[bytes]
    _read: dict[Place, bytes | None] = field(factory=dict, init=False)
    _changed: dict[Place, bytes | None] = field(factory=dict, init=False)  # None: removed

    def groups(self, numbers: Sequence[int]) -> list[KeyGroup]:
        """Return these groups, whose heads are read at once."""
        found = [KeyGroup(self, number) for number in numbers]
        heads = [each.own(HEAD) for each in found]
        self._read.update(zip(heads, self.inner.multi_get(heads), strict=True))
        return found

    def get(self, keys: Sequence[Place]) -> list[bytes | None]:
        """Return the value of each key."""
        found: dict[Place, bytes | None] = {}
        known = ChainMap(found, self._changed, self._read)
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            found.update(zip(missing, self.inner.multi_get(missing), strict=True))
        return [known[key] for key in keys]

    def put(self, keys: Sequence[Place], values: Sequence[bytes | None]) -> None:
        """Set the value of each key, or remove it."""
        self._changed.update(zip(keys, values, strict=True))

    def flush(self) -> None:
        """Write the changes."""
        kept = {key: value for key, value in self._changed.items() if value is not None}
        if kept:
            self.inner.multi_put(list(kept), list(kept.values()))
        if gone := [key for key in self._changed if key not in kept]:
            self.inner.multi_remove(gone)
        self._changed.clear()


@frozen
class KeyGroup(RemovableMapState[bytes]):
    """One group, which is a state to those that read and write it."""

    _of: GroupedState
    number: int

    def own(self, key: Key) -> Place:
        """Return the key under which the state has a value of this group."""
        name, slot = key
        return f"{self.number}:{name}", slot

    def multi_get(self, keys: Sequence[Key]) -> list[bytes | None]:
        return self._of.get([*map(self.own, keys)])

    def multi_put(self, keys: Sequence[Key], values: Sequence[bytes]) -> None:
        self._of.put([*map(self.own, keys)], values)

    def multi_remove(self, keys: Sequence[Key]) -> None:
        self._of.put([*map(self.own, keys)], [None] * len(keys))

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[bytes]]) -> list[bytes]:
        raise AssertionError("data by time is read and put, never updated")

    def begin_commit(self, txid: int) -> None:
        """Do nothing: the state commits."""

    def commit(self, txid: int) -> None:
        """Do nothing: the state commits."""
