"""Any key-value store as a state: Storm's three maps over an `IBackingMap`.

The effect of an update of a key by transaction ``t``, by the txid that is stored for the key:

| stored txid | `NonTransactionalMap` | `TransactionalMap` | `OpaqueMap` |
| --- | --- | --- | --- |
| no value | from None | from None | from None |
| below ``t`` | from the value | from the value | from the value, which becomes prev |
| ``t``, this commit | from the value | from the value | from the value; prev stays |
| ``t``, an earlier attempt | from the value | not updated | from prev |
| above ``t`` | from the value | `StateError` | `StateError` |

So the first counts a replay twice. The second needs a spout that replays exactly the same batch. The third does not.
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
    """A key-value store, to be wrapped as a `NonTransactionalMap`, `TransactionalMap` or `OpaqueMap`.

    ``T`` is the stored type: the value itself, a `TransactionalValue` or an `OpaqueValue`. The store is made in the
    driver's process and called on the commit thread, by commits in txid order and by queries between them. An
    exception that it raises fails the attempt, which is replayed. A put must be durable when it returns, and a value
    must never be written in part. Several values of one call may be written one by one.
    """

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> Sequence[T | None]:
        """Return the stored value of each of ``keys``, which are lists, in their order; None for a key without one."""

    @abstractmethod
    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Store ``values[i]`` for ``keys[i]``; each key comes once."""

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Delete the values of ``keys``; override it if updaters return `REMOVE`.

        It is called for keys that have no value any more. Some of them may have been deleted already.

        Raises:
            StateError: it isn't overridden.
        """
        raise StateError(
            f"{type(self).__name__} has no multi_remove, and an updater, reducer or combiner returned REMOVE; to fix "
            f"this: add a multi_remove that deletes the keys"
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
    """Splits calls of a backing map, so that each has at most ``max_multi_…`` keys; 0: no limit."""

    delegate: IBackingMap[T]
    max_multi_get: int = field(default=0, kw_only=True, validator=_not_negative)
    max_multi_put: int = field(default=0, kw_only=True, validator=_not_negative)

    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Read the values in calls of at most ``max_multi_get`` keys."""
        return [value for part in _pieces(len(keys), self.max_multi_get) for value in self._got(keys[part])]

    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Store the values in calls of at most ``max_multi_put`` keys; if one raises, earlier ones stay stored."""
        for part in _pieces(len(keys), self.max_multi_put):
            self.delegate.multi_put(keys[part], values[part])

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Delete the values in calls of at most ``max_multi_put`` keys."""
        for part in _pieces(len(keys), self.max_multi_put):
            self.delegate.multi_remove(keys[part])

    @property
    def removes(self) -> bool:
        """Whether keys can be deleted from the wrapped map."""
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
    """Caches the ``size`` most recently used keys of a backing map, including keys without a value.

    It writes through: a value is cached after the store has it. (Storm caches it first, so a failed put looked like a
    successful one.) If a put raises, its keys are removed from the cache, because the stored values are then unknown.
    The cache is right as long as no other process writes to the store. A new run starts with an empty cache.
    """

    delegate: IBackingMap[T]
    size: int = field(validator=[validators.instance_of(int), validators.ge(1)])
    _known: OrderedDict[str, T | None] = field(factory=OrderedDict, init=False)

    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return the stored values; keys that are not cached are read in one call."""
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
        """Whether keys can be deleted from the cached map."""
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
"""The type that the backing map stores for a key."""


@define(eq=False)
class BackedMap(RemovableMapState[T], Generic[T, B]):
    """The common part of the three maps.

    Updaters must return a new value and not change the old one, which may be kept as the previous value. A batch should
    update each key in one call only, because the store is written at the end of each call.

    If the updater of a key returns `REMOVE`, it is stored as None, with the txid by which a replay recognises it.
    The next transaction deletes the key from the store, by ``multi_remove``. If the process dies before that, the None
    stays, and is read as no value. If the store has no ``multi_remove``, `REMOVE` is refused; the map's own
    `multi_remove` then stores None.
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
            cache_size: the number of keys that a `CachedMap` keeps; 0: no cache.

        Raises:
            TopologyError: ``make_backing`` is not a function, or ``cache_size`` is not a number of keys.
        """
        return BackedMapFactory(cls, make_backing, cache_size)

    def begin_commit(self, txid: int) -> None:
        """Begin with the changes of ``txid``; delete the keys that an earlier transaction removed from the store."""
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

        Within a commit, these are the values before its transaction, with the transaction's own changes.
        """
        return [self._value(key, stored) for key, stored in zip(keys, self._stored(keys), strict=True)]

    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Set the value of each key, whether or not it has one."""
        self.multi_update(keys, [_constant(value) for value in values])

    def multi_remove(self, keys: Sequence[Key]) -> None:
        self.multi_update(keys, [_constant(REMOVE if self.backing.removes else None)] * len(keys))

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Replace the value of each key by the result of its updater; a key may occur several times.

        Raises:
            StateError: the call is outside a commit, a later transaction wrote a key, or the store can't remove one.
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
            self.backing.multi_remove(
                [list(keys[text]) for text in gone if gone[text]]
            )  # raises an error that names the store
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
        """Return whether ``stored``, which this commit didn't write, contains the change of ``txid`` already."""
        return False

    @abstractmethod
    def _updated(self, txid: int, stored: B | None, mine: bool, updater: ValueUpdater[T]) -> B:
        """Return the new value to store; ``mine``: ``stored`` was written in this commit."""

    @abstractmethod
    def _current(self, stored: B | None) -> T | None:
        """Return the value in the stored object."""

    def _value(self, key: Key, stored: B | None) -> T | None:
        return self._current(stored)

    def _stored(self, keys: Sequence[Key]) -> Sequence[B | None]:
        found = self.backing.multi_get([list(key) for key in keys])
        if len(found) != len(keys):
            raise StateError(
                f"{type(self.backing).__name__}.multi_get gave {len(found)} values for {len(keys)} keys; to fix this: "
                f"return one for each key, None for a key without a value"
            )
        return found

    def _in_commit(self) -> int:
        if self._txid is None:
            raise StateError(f"{type(self).__name__} changes only between begin_commit and commit")
        return self._txid


@define(eq=False)
class NonTransactionalMap(BackedMap[T, Any]):
    """Values without a txid: a transaction that is replayed is counted again."""

    _knows_replays: ClassVar[bool] = False

    def _updated(self, txid: int, stored: T | None, mine: bool, updater: ValueUpdater[T]) -> T:
        return updater(stored)

    def _current(self, stored: T | None) -> T | None:
        return stored


@define(eq=False)
class TransactionalMap(BackedMap[T, TransactionalValue[T]]):
    """Values with the txid that wrote them: exactly-once if the spout replays the same batch.

    A replay doesn't update a key that an earlier attempt of its transaction has written. If a transaction is older than
    the stored one, it raises an error; Storm's map applies it again.
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
    """Values with their txid and their previous value: exactly-once even if a replay has other rows.

    A replay starts from the value that its key had before the transaction. The failed attempt may have written a key
    that the replay doesn't contain. As long as the process lives, that key is set back to its previous value too. For
    this, the map remembers the keys that it wrote until the transaction has committed. (Storm's map never sets it back,
    and the next update counts it.) If the process dies in the middle of a commit, such a key keeps the value of the
    failed attempt. With ``Replay.EXACT`` of the spout there are no such keys.
    """

    _failed: dict[str, Key] = field(factory=dict, init=False)
    _failed_txid: int | None = field(default=None, init=False)

    def begin_commit(self, txid: int) -> None:
        """Begin with the changes of ``txid``; first undo the writes of its earlier attempts."""
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
    """An updater that returns None if ``updater`` returns `REMOVE`, and records it.

    Attributes:
        has_removed: whether ``updater`` returned `REMOVE`.
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
    """One key of a map state, as a state of one value."""

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
    """Makes a map over the store that ``make_backing`` makes; see `BackedMap.factory`."""

    map_class: type[BackedMap[Any, Any]]
    make_backing: Callable[[], IBackingMap[Any]]
    cache_size: int = 0

    def __attrs_post_init__(self) -> None:
        if not callable(self.make_backing) or isinstance(self.make_backing, IBackingMap):
            raise TopologyError(
                f"{self.map_class.__name__}.factory takes a function that makes a backing map, because the state is "
                f"made when the topology starts, not {self.make_backing!r}"
            )
        if type(self.cache_size) is not int or self.cache_size < 0:
            raise TopologyError(f"cache_size is a number of keys, 0 for no cache, not {self.cache_size!r}")

    @property
    def kind(self) -> StateKind:  # type: ignore[override]
        """The kind of the map class."""
        return _KINDS[self.map_class]

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """The guarantee of a map that compares txids, or of one that doesn't."""
        return AT_LEAST_ONCE if self.kind is StateKind.NON_TRANSACTIONAL else UNLESS_PAUSED

    def identity(self) -> Mapping[str, Json]:
        """Return the name of the map class, which determines the stored form of the values."""
        return {"map": self.map_class.__name__}

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        """Return the map over its own store.

        Raises:
            StateError: ``make_backing`` returned an object that is not an `IBackingMap`.
        """
        backing = self.make_backing()
        if not isinstance(backing, IBackingMap):
            raise StateError(f"{self!r}: {self.make_backing!r} must make an IBackingMap, it made {backing!r}")
        return self.map_class(CachedMap(backing, self.cache_size) if self.cache_size else backing)

    def __repr__(self) -> str:
        made = getattr(self.make_backing, "__name__", repr(self.make_backing))
        return f"{self.map_class.__name__} over {made}"
