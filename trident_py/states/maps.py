"""Any key-value store as a state: Storm's three maps over an `IBackingMap`.

What each makes of a key that transaction ``t`` updates, by what is stored for it::

    stored by            NonTransactionalMap   TransactionalMap      OpaqueMap
    nobody               from None             from None             from None
    a txid below t       from the value        from the value        from the value, which becomes prev
    t, this commit       from the value        from the value        from the value; prev stays
    t, an earlier try    from the value        not updated           from prev
    a txid above t       from the value        StateError            StateError

So the first counts a replay twice, the second needs a spout that gives the same batch again, and the third doesn't.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

from attrs import Attribute, define, field, frozen, validators

from coordinators.values.canonical import Json
from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.states import (
    AT_LEAST_ONCE,
    UNLESS_PAUSED,
    Key,
    MapState,
    RemovableMapState,
    Snapshottable,
    State,
    StateFactory,
    StateKind,
    T,
    ValueUpdater,
)
from trident_py.states.keys import encode_key, encode_keys
from trident_py.states.values import OpaqueValue, TransactionalValue, check_order


class IBackingMap(ABC, Generic[T]):
    """A key-value store, to be wrapped as a `NonTransactionalMap`, `TransactionalMap` or `OpaqueMap` (Storm ST13).

    ``T`` is what the wrapper keeps for a key: the value itself, a `TransactionalValue` or an `OpaqueValue`. It is made
    in the driver's process and called on the commit thread, by commits in txid order and by queries between them. What
    it raises fails the attempt, which is replayed. A put must be durable when it returns, and no value may ever be half
    written; several values of one call may be written one by one.
    """

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> Sequence[T | None]:
        """Return what is stored for each of ``keys``, which are lists, in their order; None where nothing is."""

    @abstractmethod
    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Store ``values[i]`` for ``keys[i]``; each key comes once."""

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Forget what is stored for each of ``keys``; to be overridden where updaters return `REMOVE`.

        Called for keys that have no value any more, which may have been forgotten already.

        Raises:
            StateError: it isn't overridden.
        """
        raise StateError(
            f"{type(self).__name__} has no multi_remove, and an updater, reducer or combiner returned REMOVE; give it "
            f"one that deletes the keys"
        )

    @property
    def removes(self) -> bool:
        """Whether keys can be deleted from it."""
        return type(self).multi_remove is not IBackingMap.multi_remove


def _not_negative(_: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        raise TopologyError(f"{attribute.name} is a number of keys, 0 for no limit, not {value!r}")


@define
class MicroBatchIBackingMap(IBackingMap[T]):
    """Calls a backing map with no more than so many keys at once; 0: with all (Storm ST23)."""

    delegate: IBackingMap[T]
    max_multi_get: int = field(default=0, kw_only=True, validator=_not_negative)
    max_multi_put: int = field(default=0, kw_only=True, validator=_not_negative)

    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return what is stored, asked for piece by piece."""
        return [value for part in _pieces(len(keys), self.max_multi_get) for value in self._got(keys[part])]

    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Store it piece by piece; what raises leaves the pieces before it stored."""
        for part in _pieces(len(keys), self.max_multi_put):
            self.delegate.multi_put(keys[part], values[part])

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Forget it piece by piece, as large as those of a put."""
        for part in _pieces(len(keys), self.max_multi_put):
            self.delegate.multi_remove(keys[part])

    @property
    def removes(self) -> bool:
        """Whether the backing map does."""
        return self.delegate.removes

    def _got(self, keys: Sequence[Key]) -> Sequence[T | None]:
        found = self.delegate.multi_get(keys)
        if len(found) != len(keys):
            raise StateError(f"{type(self.delegate).__name__}.multi_get gave {len(found)} values for {len(keys)} keys")
        return found


def _pieces(count: int, size: int) -> list[slice]:
    return [slice(start, start + (size or count)) for start in range(0, count, size or count or 1)]


@define
class CachedMap(IBackingMap[T]):
    """Remembers the ``size`` keys used last of a backing map, also that there is nothing for them (Storm ST20).

    It writes through: a value is remembered after the store has it (Storm remembers first, so that a put that failed
    looked as if it was made). Keys of a put that raised are forgotten, as nobody knows what the store has then. It is
    right as long as nobody else writes to the store; a new run starts with an empty one.
    """

    delegate: IBackingMap[T]
    size: int = field(validator=[validators.instance_of(int), validators.ge(1)])
    _known: OrderedDict[str, T | None] = field(factory=OrderedDict, init=False)

    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return what is stored; asks the store for unknown keys only, at once."""
        texts = encode_keys(keys)
        missing = {text: key for text, key in zip(texts, keys, strict=True) if text not in self._known}
        found: dict[str, T | None] = {text: self._known[text] for text in texts if text in self._known}
        if missing:
            found.update(zip(missing, self.delegate.multi_get(list(missing.values())), strict=True))
        self._remember(found)
        return [found[text] for text in texts]

    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        with self._changing(keys) as texts:
            self.delegate.multi_put(keys, values)
        self._remember(dict(zip(texts, values, strict=True)))

    def multi_remove(self, keys: Sequence[Key]) -> None:
        with self._changing(keys) as texts:
            self.delegate.multi_remove(keys)
        self._remember(dict.fromkeys(texts))

    @property
    def removes(self) -> bool:
        """Whether the backing map does."""
        return self.delegate.removes

    @contextmanager
    def _changing(self, keys: Sequence[Key]) -> Iterator[list[str]]:
        texts = encode_keys(keys)
        try:
            yield texts
        except BaseException:
            for text in texts:
                self._known.pop(text, None)
            raise

    def _remember(self, found: dict[str, Any]) -> None:
        for text, value in found.items():
            self._known[text] = value
            self._known.move_to_end(text)
        while len(self._known) > self.size:
            self._known.popitem(last=False)


B = TypeVar("B")
"""What the backing map holds for a key."""


@define(eq=False)
class BackedMap(RemovableMapState[T], Generic[T, B]):
    """What the three maps share.

    Updaters must make a new value, not change the old one in place: that may be kept as the previous one. A batch
    should update a key in one call: the store is written at the end of each.

    A key whose updater returns `REMOVE` gets None for a value, with the txid that a replay has to find; the next
    transaction deletes it from the store, by ``multi_remove``. If the process dies in between, the None stays, which is
    read as no value. A store that has no ``multi_remove`` refuses `REMOVE`; `multi_remove` of the map keeps the None.
    """

    _knows_replays: ClassVar[bool] = True

    backing: IBackingMap[B]
    _txid: int | None = field(default=None, init=False)
    _written: set[str] = field(factory=set, init=False)  # in this commit
    _gone: dict[str, Key] = field(factory=dict, init=False)  # without a value since the commit of `_gone_txid`
    _gone_txid: int | None = field(default=None, init=False)

    @classmethod
    def factory(cls, make_backing: Callable[[], IBackingMap[Any]], cache_size: int = 0) -> BackedMapFactory:
        """Make a factory for ``persistent_aggregate`` and ``partition_persist``.

        Args:
            make_backing: makes the store; called once per run, in the driver's process.
            cache_size: how many keys to remember, by a `CachedMap`; 0: none.

        Raises:
            TopologyError: ``make_backing`` is no function, or ``cache_size`` no such number.
        """
        return BackedMapFactory(cls, make_backing, cache_size)

    def begin_commit(self, txid: int) -> None:
        """Begin with the changes of ``txid``; what an earlier one removed is deleted from the store."""
        if self._gone_txid != txid:
            if self._gone:
                self.backing.multi_remove([list(key) for key in self._gone.values()])
            self._gone, self._gone_txid = {}, txid
        self._txid, self._written = txid, set()

    def commit(self, txid: int) -> None:
        """Do nothing: the store has everything already."""
        self._txid, self._written = None, set()

    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return the value of each key.

        Within a commit those that its transaction starts from, and what it wrote itself.
        """
        return [self._value(key, stored) for key, stored in zip(keys, self._stored(keys), strict=True)]

    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Set the value of each key, whatever it is now."""
        self.multi_update(keys, [_constant(value) for value in values])

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Forget the value of each key."""
        self.multi_update(keys, [_constant(REMOVE if self.backing.removes else None)] * len(keys))

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Replace the value of each key by what its updater makes of it; a key may come several times.

        Raises:
            StateError: it is not called within a commit, a key was written by a later transaction, or one is to be
                removed and the store can't.
        """
        txid = self._in_commit()
        distinct = {encode_key(key): key for key in keys}
        stored = dict(zip(distinct, self._stored(list(distinct.values())), strict=True))
        changed: dict[str, B] = {}
        gone: dict[str, bool] = {}
        values: list[Any] = []
        for key, updater in zip(keys, updaters, strict=True):
            text = encode_key(key)
            mine = text in self._written or text in changed
            if mine or not self._has(txid, stored[text]):
                removing = _Removing(updater)
                stored[text] = changed[text] = self._updated(txid, stored[text], mine, removing)
                gone[text] = removing.has_removed
            elif self.backing.removes and self._current(stored[text]) is None:
                gone[text] = True  # by a try of this transaction in another process
            values.append(self._current(stored[text]))
        self._store(distinct, changed, gone)
        return values

    def _store(self, keys: Mapping[str, Key], changed: Mapping[str, B], gone: Mapping[str, bool]) -> None:
        if any(gone.values()) and not self.backing.removes:
            self.backing.multi_remove([list(keys[text]) for text in gone if gone[text]])  # says who can't
        at_once = {text for text in gone if gone[text] and not self._knows_replays}
        put = {text: value for text, value in changed.items() if text not in at_once}
        if put:
            self.backing.multi_put([list(keys[text]) for text in put], list(put.values()))
        if at_once:
            self.backing.multi_remove([list(keys[text]) for text in gone if text in at_once])
        self._written.update(changed)
        for text, is_gone in gone.items():
            if is_gone and text not in at_once:
                self._gone[text] = keys[text]
            else:
                self._gone.pop(text, None)

    def _has(self, txid: int, stored: B | None) -> bool:
        """Tell whether ``stored``, which this commit didn't write, has the change of ``txid`` already."""
        return False

    @abstractmethod
    def _updated(self, txid: int, stored: B | None, mine: bool, updater: ValueUpdater[T]) -> B:
        """Return what to store; ``mine``: ``stored`` was written in this commit."""

    @abstractmethod
    def _current(self, stored: B | None) -> T | None:
        """Return the value of what is stored."""

    def _value(self, key: Key, stored: B | None) -> T | None:
        return self._current(stored)

    def _stored(self, keys: Sequence[Key]) -> Sequence[B | None]:
        found = self.backing.multi_get([list(key) for key in keys])
        if len(found) != len(keys):
            raise StateError(
                f"{type(self.backing).__name__}.multi_get gave {len(found)} values for {len(keys)} keys; it must give "
                f"one for each, None where there is none"
            )
        return found

    def _in_commit(self) -> int:
        if self._txid is None:
            raise StateError(f"{type(self).__name__} changes only between begin_commit and commit")
        return self._txid


@define(eq=False)
class NonTransactionalMap(BackedMap[T, Any]):
    """Just the values: a transaction that is replayed is counted again (Storm ST14)."""

    _knows_replays: ClassVar[bool] = False

    def _updated(self, txid: int, stored: T | None, mine: bool, updater: ValueUpdater[T]) -> T:
        return updater(stored)

    def _current(self, stored: T | None) -> T | None:
        return stored


@define(eq=False)
class TransactionalMap(BackedMap[T, TransactionalValue[T]]):
    """Each value with the txid that wrote it: exactly-once behind a spout that gives the same batch again (Storm ST15).

    A replay leaves a key alone that an earlier try of its transaction has written. Storm's applies a transaction that
    is behind the stored one again; here that is an error.
    """

    def _has(self, txid: int, stored: TransactionalValue[T] | None) -> bool:
        if stored is not None:
            check_order(stored.txid, txid)
        return stored is not None and stored.txid == txid

    def _updated(
        self, txid: int, stored: TransactionalValue[T] | None, mine: bool, updater: ValueUpdater[T]
    ) -> TransactionalValue[T]:
        return TransactionalValue(txid, updater(self._current(stored)))

    def _current(self, stored: TransactionalValue[T] | None) -> T | None:
        return stored.value if stored else None


@define(eq=False)
class OpaqueMap(BackedMap[T, OpaqueValue[T]]):
    """Each value with its txid and the one before: exactly-once also where a replay has other rows (Storm ST16, ST17).

    A replay starts from the value that its key had before the transaction. A key that the failed attempt wrote and the
    replay doesn't contain goes back to that value too, as long as the process lives: the map remembers what it wrote
    until the transaction has committed (Storm's never goes back there, and its next update counts it). If the process
    dies in mid-commit, such a key keeps what the dead attempt wrote; a spout with ``Replay.EXACT`` leaves none.
    """

    _failed: dict[str, Key] = field(factory=dict, init=False)
    _failed_txid: int | None = field(default=None, init=False)

    def begin_commit(self, txid: int) -> None:
        """Begin with the changes of ``txid``; what an earlier try of it wrote is taken back first."""
        if self._failed_txid != txid:
            self._failed, self._failed_txid = {}, txid
        super().begin_commit(txid)
        left = list(self._failed.values())
        found = zip(left, self._stored(left) if left else [], strict=True)
        undo = [(list(key), stored) for key, stored in found if stored is not None and stored.curr_txid == txid]
        if undo:
            before = [OpaqueValue(txid, stored.prev, stored.prev) for _, stored in undo]
            self.backing.multi_put([key for key, _ in undo], before)
        born: dict[str, Key] = {encode_key(key): key for key, stored in undo if stored.prev is None}
        self._gone = born if self.backing.removes else {}

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Replace the value of each key by what its updater makes of it; a key may come several times."""
        self._failed.update({encode_key(key): key for key in keys})
        return super().multi_update(keys, updaters)

    def _updated(
        self, txid: int, stored: OpaqueValue[T] | None, mine: bool, updater: ValueUpdater[T]
    ) -> OpaqueValue[T]:
        if stored is None:
            return OpaqueValue(txid, updater(None))
        if mine:
            return OpaqueValue(txid, updater(stored.curr), stored.prev)
        return stored.update(txid, updater(stored.get(txid)))

    def _current(self, stored: OpaqueValue[T] | None) -> T | None:
        return stored.curr if stored else None

    def _value(self, key: Key, stored: OpaqueValue[T] | None) -> T | None:
        if stored is None or self._txid is None or encode_key(key) in self._written:
            return self._current(stored)
        return stored.get(self._txid)


class _Removing:
    """An updater that gives None where ``updater`` gives `REMOVE`, and remembers it.

    Attributes:
        has_removed: whether it did.
    """

    def __init__(self, updater: ValueUpdater[Any]) -> None:
        self._updater = updater
        self.has_removed = False

    def __call__(self, stored: Any) -> Any:
        value = self._updater(stored)
        self.has_removed = value is REMOVE
        return None if self.has_removed else value


def _constant(value: Any) -> ValueUpdater[Any]:
    return lambda _: value


@define(eq=False)
class SnapshottableMap(Snapshottable[T]):
    """One key of a map state, as a state of one value (Storm ST22)."""

    state: MapState[T]
    key: Key

    def begin_commit(self, txid: int) -> None:
        self.state.begin_commit(txid)

    def commit(self, txid: int) -> None:
        self.state.commit(txid)

    def get(self) -> T | None:
        """Return the value of the key."""
        return self.state.multi_get([self.key])[0]

    def update(self, updater: ValueUpdater[T]) -> T:
        """Replace the value of the key."""
        return self.state.multi_update([self.key], [updater])[0]

    def set(self, value: T) -> None:
        """Set the value of the key."""
        self.state.multi_put([self.key], [value])


_KINDS: dict[type[BackedMap[Any, Any]], StateKind] = {
    NonTransactionalMap: StateKind.NON_TRANSACTIONAL,
    TransactionalMap: StateKind.TRANSACTIONAL,
    OpaqueMap: StateKind.OPAQUE,
}


@frozen
class BackedMapFactory(StateFactory):
    """Makes a map over a store that ``make_backing`` makes; see `BackedMap.factory`."""

    map_class: type[BackedMap[Any, Any]]
    make_backing: Callable[[], IBackingMap[Any]]
    cache_size: int = 0

    def __attrs_post_init__(self) -> None:
        if not callable(self.make_backing) or isinstance(self.make_backing, IBackingMap):
            raise TopologyError(
                f"{self.map_class.__name__}.factory takes a function that makes a backing map, as the state is made "
                f"when the topology starts, not {self.make_backing!r}"
            )
        if type(self.cache_size) is not int or self.cache_size < 0:
            raise TopologyError(f"cache_size is a number of keys, 0 for no cache, not {self.cache_size!r}")

    @property
    def kind(self) -> StateKind:  # type: ignore[override]
        """The map's."""
        return _KINDS[self.map_class]

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """That of a map which compares txids, or not."""
        return AT_LEAST_ONCE if self.kind is StateKind.NON_TRANSACTIONAL else UNLESS_PAUSED

    def identity(self) -> Mapping[str, Json]:
        """Return what the values are kept as."""
        return {"map": self.map_class.__name__}

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        """Return the map, over a store of its own."""
        backing = self.make_backing()
        if not isinstance(backing, IBackingMap):
            raise StateError(f"{self!r}: {self.make_backing!r} must make an IBackingMap, it made {backing!r}")
        return self.map_class(CachedMap(backing, self.cache_size) if self.cache_size else backing)

    def __repr__(self) -> str:
        made = getattr(self.make_backing, "__name__", repr(self.make_backing))
        return f"{self.map_class.__name__} over {made}"
