"""Key-value stores below a map: the interface that users implement, and a cache in front of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic

from attrs import Attribute, define, field, validators

from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.states import Key, T
from trident_py.states.keys import encode_keys


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
