"""A state in the driver's memory: for tests, interactive use, and values that may start anew with each run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import localcontext
from heapq import merge
from itertools import islice
from typing import Any, Generic

from attrs import define, field, frozen

from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import EXACT_DECIMALS
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import (
    FencedState,
    ITupleCollection,
    Key,
    StateFactory,
    StateKind,
    T,
    ValueUpdater,
)
from trident_py.states.fenced import Expiry, Fence, WriteTimes, checked_ttl, milliseconds, portion
from trident_py.states.keys import encode_key

_STATE = "the state in memory"


@frozen
class _Entry(Generic[T]):
    """A key with its value.

    Attributes:
        time: the time of the transaction that wrote it, in milliseconds since 1970.
    """

    key: Key
    value: T
    time: int


@define
class _Transaction(Generic[T]):
    """The open group of transactions that commit together, with the changes of its latest member.

    Attributes:
        members: all transactions of the group.
        base: the entries that differ from the committed ones when the latest member begins. They are the ones from
            before the attempt that the group replaces, with the changes of the earlier members.
        changes: the changes of the latest member, by key. None: the key has no value.
        time: the time of the latest member, in milliseconds since 1970; 0: no member has begun.
        expiry: the keys that have expired as of the latest member.
    """

    members: Sequence[SinkTransaction]
    base: Mapping[str, _Entry[T] | None]
    expiry: Expiry
    changes: dict[str, _Entry[T] | None] = field(factory=dict)
    time: int = 0
    thread: int = field(factory=threading.get_ident)


class MemoryMapState(FencedState[T], ITupleCollection):
    """Values by key in memory, opaque like Storm's class of this name.

    Unlike Storm's, a replay finds every key as it was before the attempt that it replaces, even a key that the replay
    doesn't contain. Make it with `MemoryMapState.factory`.
    """

    volatile = True

    def __init__(self, ttl: timedelta | None = None) -> None:
        self._ttl = milliseconds(ttl)
        self._expiry = Expiry()
        self._times = WriteTimes()
        self._lock = threading.Lock()
        self._committed: dict[str, _Entry[T]] = {}
        self._before: dict[str, _Entry[T] | None] = {}  # the entries before the last transaction
        self._fence: Fence | None = None
        self._open: _Transaction[T] | None = None

    @classmethod
    def factory(cls, *, ttl: timedelta | None = None) -> MemoryMapStateFactory:
        """Make a factory, for one ``persistent_aggregate`` or ``partition_persist`` and one run at a time.

        Args:
            ttl: how long a key stays without a write, by the times of transactions; None: forever.

        Raises:
            TopologyError: ``ttl`` is not a length of time.
        """
        return MemoryMapStateFactory(ttl)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: refuse older epochs from now on."""
        with self._lock:
            self._fence = (self._fence or Fence(topology, epoch)).raised(topology, epoch, _STATE)
            self._open = None  # of a leader that was taken over
            return self._fence.token

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open ``members``; abort a transaction that was left open."""
        self.rollback()
        with self._lock:
            if self._fence is None:
                raise StateError(
                    f"attempt {members[0].attempt}: {_STATE} was not recovered", attempt=members[0].attempt
                )
            due, redo = self._fence.due(members, _STATE)
            self._open = _Transaction(members, self._before if redo else {}, self._expiry) if due else None
            return due

    def begin_member(self, tx: SinkTransaction) -> None:
        """Begin with ``tx``, which starts from the changes of the members before it."""
        opened = self._in_transaction()
        if opened.time:
            self._expire(opened)
        opened.base, opened.changes = {**opened.base, **opened.changes}, {}
        opened.time, opened.expiry = tx.time, opened.expiry.after(tx.time, self._ttl)

    def commit_group(self) -> None:
        """Make all changes visible at once."""
        with self._lock:
            opened = self._in_transaction()
            self._expire(opened)
            fence = self._fence and self._fence.after(opened.members)
            self._before = {text: self._found(opened.base, text) for text in opened.changes}
            for text, entry in {**opened.base, **opened.changes}.items():
                before = self._committed.pop(text, None)
                self._times.move(text, before.time if before else None, entry.time if entry else None)
                if entry is not None:
                    self._committed[text] = entry
            self._fence, self._open, self._expiry = fence, None, opened.expiry

    def _expire(self, opened: _Transaction[T]) -> None:
        """Remove a portion of the expired keys, in the order of times and keys."""
        if opened.expiry.upto is None:
            return
        some = islice(self._expired(opened), portion(len(opened.changes)))
        opened.changes.update(dict.fromkeys([text for _, text in some]))

    def _expired(self, opened: _Transaction[T]) -> Iterator[tuple[int, str]]:
        expiry, touched = opened.expiry, {**opened.base, **opened.changes}
        mine = [(entry.time, text) for text, entry in touched.items() if entry and expiry.has_expired(entry.time)]
        return merge(sorted(mine), (each for each in self._times.upto(expiry.upto) if each[1] not in touched))

    def rollback(self) -> None:
        self._open = None

    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        opened, texts = self._open, [encode_key(key) for key in keys]
        if opened is not None and opened.thread == threading.get_ident():
            with self._lock:
                return [self._current(opened, text) for text in texts]
        with self._lock:
            return [self._value(self._committed.get(text), self._expiry) for text in texts]

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Replace the value of each key by the result of its updater; `REMOVE` removes the key."""
        opened = self._in_transaction()
        values: list[Any] = []
        with localcontext(EXACT_DECIMALS):
            for key, updater in zip(keys, updaters, strict=True):
                value = updater(self._current(opened, encode_key(key)))
                self._put(opened, key, value)
                values.append(None if value is REMOVE else value)
        return values

    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Set the value of each key."""
        opened = self._in_transaction()
        for key, value in zip(keys, values, strict=True):
            self._put(opened, key, value)

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Remove each key, from this moment in the transaction."""
        self.multi_put(keys, [REMOVE] * len(keys))

    def get_tuples(self) -> list[tuple[Any, ...]]:
        """Return the committed values: for each key its values, then the value."""
        return [(*entry.key, entry.value) for entry in self._entries()]

    def values(self) -> dict[tuple[Any, ...], T]:
        """Return the committed values by key, as of now; arrays and structs in a key become tuples."""
        return {_hashable(tuple(entry.key)): entry.value for entry in self._entries()}

    def _entries(self) -> list[_Entry[T]]:
        with self._lock:
            return [entry for entry in self._committed.values() if not self._expiry.has_expired(entry.time)]

    def _in_transaction(self) -> _Transaction[T]:
        if self._open is None:
            raise StateError(f"{_STATE} changes only between begin_group and commit_group")
        return self._open

    def _put(self, opened: _Transaction[T], key: Key, value: Any) -> None:
        opened.changes[encode_key(key)] = None if value is REMOVE else _Entry(key, value, opened.time)

    def _current(self, opened: _Transaction[T], text: str) -> T | None:
        entry = opened.changes[text] if text in opened.changes else self._found(opened.base, text)
        return self._value(entry, opened.expiry)

    def _value(self, entry: _Entry[T] | None, expiry: Expiry) -> T | None:
        return None if entry is None or expiry.has_expired(entry.time) else entry.value

    def _found(self, base: Mapping[str, _Entry[T] | None], text: str) -> _Entry[T] | None:
        return base[text] if text in base else self._committed.get(text)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        value = tuple(value.values())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


class MemoryMapStateFactory(StateFactory):
    """Makes a `MemoryMapState`, which is empty for each run, and returns its contents."""

    guarantee = "exactly-once while the process lives; lost with the process"
    kind = StateKind.FENCED
    volatile = True

    def __init__(self, ttl: timedelta | None = None) -> None:
        self.ttl = checked_ttl(ttl)
        self._state: MemoryMapState[Any] = MemoryMapState(ttl)

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> MemoryMapState[Any]:
        """Make an empty state; the state of an earlier run is dropped."""
        self._state = MemoryMapState(self.ttl)
        return self._state

    def values(self) -> dict[tuple[Any, ...], Any]:
        """Return the committed values of the latest run, by key.

        It is a snapshot. It can be called on any thread, and after the run.

        Values that are not grouped have the key ``()``.
        """
        return self._state.values()
