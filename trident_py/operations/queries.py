"""The built-in queries, for ``Stream.state_query``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.types import StructField, StructType

from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import (
    ITupleCollection,
    QueryFunction,
    ReadOnlyMapState,
    ReadOnlySnapshottable,
)


class MapGet(QueryFunction[ReadOnlyMapState[Any], Any]):
    """Looks up the value of a key: the input fields in their order. One output field, null for a missing key.

    The key must also have the types of the group fields: ``1`` and ``"1"`` are two keys.
    """

    needs = (ReadOnlyMapState,)

    def check(self, seen: StructType | None, keys: StructType | None, out: StructType) -> None:
        """Check that the input fields form a key of the state."""
        _check_one_value(self, out)
        if keys is None or seen is None:
            return
        if not keys.names:
            raise TopologyError("the state is not grouped, so it has no keys; query it with SnapshotGet()")
        if list(map(_kind, seen.fields)) != list(map(_kind, keys.fields)):
            raise TopologyError(
                f"the keys of the state are {keys.simpleString()}, and what is asked for is {seen.simpleString()}; "
                f"name a field for each part of the key, of its type"
            )

    def batch_retrieve(self, state: ReadOnlyMapState[Any], args: Sequence[Any]) -> Sequence[Any]:
        return state.multi_get([list(row) for row in args])

    def execute(self, row: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit((result,))


class SnapshotGet(QueryFunction[Any, Any]):
    """Looks up the one value of a state that is not grouped, for every row: one output field."""

    needs = (ReadOnlySnapshottable, ReadOnlyMapState)

    def check(self, seen: StructType | None, keys: StructType | None, out: StructType) -> None:
        """Check that the state has one value."""
        _check_one_value(self, out)
        if keys is not None and keys.names:
            raise TopologyError(f"the state has a value for each {keys.simpleString()}; query it with MapGet()")

    def batch_retrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Read the value once for all rows; in a map, an ungrouped value has the empty key."""
        value = state.get() if isinstance(state, ReadOnlySnapshottable) else state.multi_get([[]])[0]
        return [value] * len(args)

    def execute(self, row: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit((result,))


class TupleCollectionGet(QueryFunction[Any, Sequence[Any]]):
    """Lists the content of a state, for every row: an output field for each part of the key, and one for the value.

    If a state has several shards, it lists the shard with the row's key, as in Storm.
    """

    needs = (ITupleCollection,)

    def check(self, seen: StructType | None, keys: StructType | None, out: StructType) -> None:
        """Check that there is an output field for each part of a key, and one for the value."""
        if keys is not None and len(out.names) != len(keys.names) + 1:
            raise TopologyError(f"the state holds {keys.names} and a value: so many fields come out, not {out.names}")

    def batch_retrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return [list(state.get_tuples())] * len(args)

    def execute(self, row: Any, result: Sequence[Any], collector: TridentCollector) -> None:
        """Emit the tuples in order."""
        for values in result:
            collector.emit(values)


def _check_one_value(function: QueryFunction[Any, Any], out: StructType) -> None:
    if len(out.fields) != 1:
        raise TopologyError(f"{type(function).__name__} gives one value: one field, not {out.names}")


def _kind(field: StructField) -> str:
    """Return the kind of a key's type; integers of all sizes have one kind, and so have floats and decimals."""
    for kind in (t.IntegralType, t.DecimalType, t.FractionalType, t.StringType):
        if isinstance(field.dataType, kind):
            return kind.__name__
    return field.dataType.typeName()
