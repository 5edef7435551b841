"""`MergedChanges`: the changes of several transactions, combined so that two statements write all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import localcontext
from operator import add
from typing import Any

from attrs import define, field
from pyspark.sql.types import DecimalType, IntegralType

from trident_py.interfaces.operations import EXACT_DECIMALS
from trident_py.states.sql.columns import TypedColumn

_COMBINED: Mapping[str, Callable[[Any, Any], Any]] = {"sum": add, "min": min, "max": max}


def can_combine(column: TypedColumn) -> bool:
    """Return true if Python combines values of ``column`` exactly as the database does."""
    return isinstance(column.kind, IntegralType | DecimalType)


@define(kw_only=True)
class _Change:
    """The change of one key.

    Attributes:
        key: the stored values of the key columns.
        born: the first transaction that changes it.
        before: the value that all transactions but the last one merge.
        before_txid: the last but one; 0: there is only one.
        last: the value that the last one merges.
    """

    key: tuple[Any, ...]
    born: int
    last: Any
    last_txid: int
    before: Any = None
    before_txid: int = 0


@define
class MergedChanges:
    """Collects the values that the members of a group merge.

    In the end, each row must be as if each member had written alone. It has the txid of the last member that changed
    it, and the value before that member. So the values of the earlier members are written first, under the txid of the
    last but one, and then the value of the last one.

    Attributes:
        column: of the values.
        merge: how two values are combined, as in `CombinerAggregator.merge`.
    """

    column: TypedColumn
    merge: str
    _is_decimal: bool = field(init=False)
    _changes: dict[str, _Change] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._is_decimal = isinstance(self.column.kind, DecimalType)

    def add(self, txid: int, texts: Sequence[str], columns: Sequence[Iterable[Any]]) -> None:
        """Add the values of a member.

        Args:
            txid: of the member; not below those that were added before.
            texts: the text of each key.
            columns: the stored values, of the key columns and then of the value.
        """
        changes = self._changes
        for text, (*key, value) in zip(texts, zip(*columns, strict=True), strict=True):
            change = changes.get(text)
            if change is None:
                changes[text] = _Change(key=tuple(key), born=txid, last=value, last_txid=txid)
            elif change.last_txid == txid:
                change.last = self._combined(change.last, value)
            else:
                change.before = self._combined(change.before, change.last)
                change.before_txid, change.last, change.last_txid = change.last_txid, value, txid

    def written(self) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of each statement, in the order of the keys' texts, with their stamps."""
        changes = sorted(self._changes.items())
        yield [
            (*each.key, each.before, text, each.before_txid, each.born) for text, each in changes if each.before_txid
        ]
        yield [(*each.key, each.last, text, each.last_txid, each.born) for text, each in changes]

    def _combined(self, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        if not self._is_decimal:
            return _COMBINED[self.merge](left, right)
        with localcontext(EXACT_DECIMALS):
            return _COMBINED[self.merge](left, right)
