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
        before: what all transactions but the last one have merged.
        before_txid: the last but one; 0: there is only one.
        last: what the last one has merged.
    """

    key: tuple[Any, ...]
    born: int
    last: Any
    last_txid: int
    before: Any = None
    before_txid: int = 0


@define
class MergedChanges:
    """Collects what the members of a group merge.

    In the end, each row must be as if each member had written alone: it has the txid of the last member that changed
    it, and the value before that member. So what the earlier members merge is written first, under the txid of the last
    but one, and then what the last one merges.

    Attributes:
        merge: how two values are combined, as in `CombinerAggregator.merge`.
    """

    merge: str
    _changes: dict[str, _Change] = field(factory=dict, init=False)

    def add(self, txid: int, texts: Sequence[str], columns: Sequence[Iterable[Any]]) -> None:
        """Add what ``txid`` merges.

        Args:
            txid: a member; not below those that were added before.
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
        with localcontext(EXACT_DECIMALS):
            return _COMBINED[self.merge](left, right)
