"""A state in the driver's memory: for tests, interactive use, and values that may start anew with each run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from decimal import localcontext
from typing import Any, Generic, TypeAlias

from attrs import define, field

from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import (
    GroupState,
    ITupleCollection,
    Key,
    RemovableMapState,
    StateFactory,
    StateKind,
    T,
    ValueUpdater,
)
from trident_py.states.fenced import EXACT_DECIMALS, Fence
from trident_py.states.keys import encode_key

_Entry: TypeAlias = tuple[Key, T]
_STATE = "the state in memory"


@define
class _Transaction(Generic[T]):
    """An open transaction, the last one so far of those that commit together.

    Attributes:
        members: all of those.
        base: where it does not start from the committed values: those before the attempt that it replaces, and what
            the transactions before it among them have made of these.
        changes: what it has made of the keys that it touched. None: there is no such key.
    """

    members: Sequence[SinkTransaction]
    base: Mapping[str, _Entry[T] | None]
    changes: dict[str, _Entry[T] | None] = field(factory=dict)
    thread: int = field(factory=threading.get_ident)


class MemoryMapState(GroupState[T], RemovableMapState[T], ITupleCollection):
    """Values by key in memory, with the semantics of Storm's class of this name (opaque) and one thing more.

    A replay finds every key as it was before the attempt that it replaces, also a key that the replay doesn't contain.
    Make it with `MemoryMapState.factory`.
    """

    volatile = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._committed: dict[str, _Entry[T]] = {}
        self._before: dict[str, _Entry[T] | None] = {}  # what the last transaction changed, as it was before
        self._fence: Fence | None = None
        self._open: _Transaction[T] | None = None

    @classmethod
    def factory(cls) -> MemoryMapStateFactory:
        """Make such states; for one ``persistent_aggregate`` or ``partition_persist``, and one run at a time."""
        return MemoryMapStateFactory()

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: refuse older epochs from now on."""
        with self._lock:
            self._fence = (self._fence or Fence(topology, epoch)).raised(topology, epoch, _STATE)
            self._open = None  # of a leader that was taken over
            return self._fence.token

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open ``members``; gives up a transaction that was left open."""
        self.rollback()
        with self._lock:
            if self._fence is None:
                raise StateError(
                    f"attempt {members[0].attempt}: {_STATE} was not recovered", attempt=members[0].attempt
                )
            due, redo = self._fence.due(members, _STATE)
            self._open = _Transaction(members, self._before if redo else {}) if due else None
            return due

    def begin_member(self, tx: SinkTransaction) -> None:
        """Begin with ``tx``, which starts from what was changed before."""
        opened = self._in_transaction()
        opened.base, opened.changes = {**opened.base, **opened.changes}, {}

    def commit_group(self) -> None:
        """Make the changes visible, all at once."""
        with self._lock:
            opened = self._in_transaction()
            fence = self._fence and self._fence.after(opened.members)
            self._before = {text: self._found(opened.base, text) for text in opened.changes}
            for text, entry in (*opened.base.items(), *opened.changes.items()):
                if entry is None:
                    self._committed.pop(text, None)
                else:
                    self._committed[text] = entry
            self._fence, self._open = fence, None

    def rollback(self) -> None:
        """Give up the open transaction."""
        self._open = None

    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return the value of each key; None where there is none."""
        opened = self._open
        with self._lock:
            if opened is None or opened.thread != threading.get_ident():
                entries = [self._committed.get(encode_key(key)) for key in keys]
            else:
                entries = [self._current(opened, encode_key(key)) for key in keys]
        return [entry and entry[1] for entry in entries]

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Replace the value of each key by what its updater makes of it."""
        opened = self._in_transaction()
        values = []
        with localcontext(EXACT_DECIMALS):
            for key, updater in zip(keys, updaters, strict=True):
                text = encode_key(key)
                entry = self._current(opened, text)
                value = updater(entry and entry[1])
                opened.changes[text] = (key, value)
                values.append(value)
        return values

    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Set the value of each key."""
        opened = self._in_transaction()
        for key, value in zip(keys, values, strict=True):
            opened.changes[encode_key(key)] = (key, value)

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Forget the value of each key; it is gone from this moment in the transaction."""
        opened = self._in_transaction()
        for key in keys:
            opened.changes[encode_key(key)] = None

    def get_tuples(self) -> list[tuple[Any, ...]]:
        """Return the committed values: for each key its values, then the value."""
        with self._lock:
            return [(*key, value) for key, value in self._committed.values()]

    def values(self) -> dict[tuple[Any, ...], T]:
        """Return the committed values by key, as they are at this moment; arrays and structs in a key as tuples."""
        with self._lock:
            entries = list(self._committed.values())
        return {_hashable(tuple(key)): value for key, value in entries}

    def _in_transaction(self) -> _Transaction[T]:
        if self._open is None:
            raise StateError(f"{_STATE} changes only between begin_transaction and end_transaction")
        return self._open

    def _current(self, opened: _Transaction[T], text: str) -> _Entry[T] | None:
        return opened.changes[text] if text in opened.changes else self._found(opened.base, text)

    def _found(self, base: Mapping[str, _Entry[T] | None], text: str) -> _Entry[T] | None:
        return base[text] if text in base else self._committed.get(text)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        value = tuple(value.values())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


class MemoryMapStateFactory(StateFactory):
    """Makes a `MemoryMapState`, empty for each run, and shows what is in it."""

    guarantee = "exactly-once while the process lives; lost with the process"
    kind = StateKind.FENCED
    volatile = True

    def __init__(self) -> None:
        self._state: MemoryMapState[Any] = MemoryMapState()

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> MemoryMapState[Any]:
        """Make an empty state; that of an earlier run is forgotten."""
        self._state = MemoryMapState()
        return self._state

    def values(self) -> dict[tuple[Any, ...], Any]:
        """Return the committed values of the run that started last, by key.

        A snapshot, from any thread, also after the run.

        What is not grouped has the key ``()``.
        """
        return self._state.values()
