"""The stored forms of a value in a backing map, with the txid that tells a replay from the next transaction."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Generic

from attrs import frozen

from trident_py.errors import StateError
from trident_py.interfaces.states import T


@frozen
class TransactionalValue(Generic[T]):
    """A value, and the transaction that wrote it."""

    txid: int
    value: T | None


@frozen
class OpaqueValue(Generic[T]):
    """A value, the transaction that wrote it, and the value before that transaction."""

    curr_txid: int
    curr: T | None
    prev: T | None = None

    def get(self, txid: int | None) -> T | None:
        """Return the value from which transaction ``txid`` starts, without the writes of its earlier attempts.

        With None for ``txid``, return the current value, as in Storm.

        Raises:
            StateError: a later transaction wrote the value.
        """
        if txid is None:
            return self.curr
        check_order(self.curr_txid, txid)
        return self.prev if self.curr_txid == txid else self.curr

    def update(self, txid: int, value: T | None) -> OpaqueValue[T]:
        """Return a copy with ``value`` written by transaction ``txid``.

        Raises:
            StateError: a later transaction wrote the stored value.
        """
        return OpaqueValue(txid, value, self.get(txid))


def check_order(stored: int, txid: int) -> None:
    """Refuse a transaction that is older than the stored one; Storm's TransactionalMap would apply it again.

    Raises:
        StateError: ``txid`` is less than ``stored``.
    """
    if txid < stored:
        raise StateError(
            f"transaction {txid} is before the state, which has a value of transaction {stored}: it was filled by "
            f"another topology, or ZooKeeper was restored from the past; to fix this: use another store, or restore "
            f"the state and ZooKeeper from one moment",
            txid=txid,
        )


class Serializer(ABC, Generic[T]):
    """Converts values to bytes and back, for stores that keep bytes."""

    @abstractmethod
    def serialize(self, value: T) -> bytes:
        """Return the bytes of ``value``.

        Raises:
            StateError: the value can't be serialized.
        """

    @abstractmethod
    def deserialize(self, data: bytes) -> T:
        """Return the value of ``data``.

        Raises:
            StateError: the bytes can't be read; unreadable bytes never count as "no value".
        """


class JSONNonTransactionalSerializer(Serializer[Any]):
    """The value itself as JSON, in UTF-8."""

    def serialize(self, value: Any) -> bytes:
        return _dumped(value)

    def deserialize(self, data: bytes) -> Any:
        return _loaded(data)


class JSONTransactionalSerializer(Serializer[TransactionalValue[Any]]):
    """``[txid, value]``."""

    def serialize(self, value: TransactionalValue[Any]) -> bytes:
        return _dumped([value.txid, value.value])

    def deserialize(self, data: bytes) -> TransactionalValue[Any]:
        return TransactionalValue(*_parts(data, 2))


class JSONOpaqueSerializer(Serializer[OpaqueValue[Any]]):
    """``[curr_txid, curr, prev]``."""

    def serialize(self, value: OpaqueValue[Any]) -> bytes:
        return _dumped([value.curr_txid, value.curr, value.prev])

    def deserialize(self, data: bytes) -> OpaqueValue[Any]:
        return OpaqueValue(*_parts(data, 3))


def _dumped(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StateError(
            f"{value!r} can't be stored as JSON ({error}); to fix this: use your own Serializer"
        ) from error
    if json.loads(text) != _listed(value):
        raise StateError(f"{value!r} would not be equal after JSON; to fix this: use your own Serializer")
    return text.encode()


def _listed(value: Any) -> Any:
    """Return ``value`` with lists instead of tuples, the only change that JSON may make to it."""
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return {key: _listed(item) for key, item in value.items()} if isinstance(value, dict) else value


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise StateError(f"the stored value {data[:80]!r} is not JSON ({error}); to fix this: restore it") from error


def _parts(data: bytes, count: int) -> list[Any]:
    parts = _loaded(data)
    if not isinstance(parts, list) or len(parts) != count or type(parts[0]) is not int:
        raise StateError(
            f"the stored value {data[:80]!r} is not a list of a txid and {count - 1} more: it was written by another "
            f"kind of state; to fix this: use another store"
        )
    return parts
