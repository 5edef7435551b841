"""The queries that come with the product, for ``Stream.state_query``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trident_py.collector import TridentCollector
from trident_py.states.base import (
    ITupleCollection,
    QueryFunction,
    ReadOnlyMapState,
    ReadOnlySnapshottable,
)


class MapGet(QueryFunction[ReadOnlyMapState[Any], Any]):
    """The value of the key that the input fields are, in their order: one output field, null where there is none.

    The key must have the group fields' types, too: ``1`` and ``"1"`` are two keys (Storm B4).
    """

    needs = (ReadOnlyMapState,)

    def batch_retrieve(self, state: ReadOnlyMapState[Any], args: Sequence[Any]) -> Sequence[Any]:
        """All keys at once."""
        return state.multi_get([list(row) for row in args])

    def execute(self, row: Any, result: Any, collector: TridentCollector) -> None:
        """The value."""
        collector.emit((result,))


class SnapshotGet(QueryFunction[Any, Any]):
    """The one value of a state that is not grouped, for every row: one output field (Storm B5)."""

    needs = (ReadOnlySnapshottable, ReadOnlyMapState)

    def batch_retrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        """One read for all; what is not grouped has the empty key in a map."""
        value = state.get() if isinstance(state, ReadOnlySnapshottable) else state.multi_get([[]])[0]
        return [value] * len(args)

    def execute(self, row: Any, result: Any, collector: TridentCollector) -> None:
        """The value."""
        collector.emit((result,))


class TupleCollectionGet(QueryFunction[Any, Sequence[Any]]):
    """All that is in a state, for every row: an output field for each part of the key, and one for the value.

    A state is one partition here, so it is really all; Storm's gives what is in the row's own partition (Storm B6).
    """

    needs = (ITupleCollection,)

    def batch_retrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """One read for all."""
        return [list(state.get_tuples())] * len(args)

    def execute(self, row: Any, result: Sequence[Any], collector: TridentCollector) -> None:
        """One tuple after the other."""
        for values in result:
            collector.emit(values)
