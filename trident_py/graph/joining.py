"""``merge`` and ``join``: combine several streams into one, within each batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from operator import and_

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Operation, RowFlow, named
from trident_py.rows.schema import arrow_schema, check_comparable, names_of, same_fields, schema_of, select, shown


@frozen
class Merge(Operation):
    """The rows of several streams, including duplicates, under the field names of the first."""

    title: str

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the field names of the first stream; a field may be null if it may be null in any stream."""
        first, *others = inputs
        for position, other in enumerate(others, start=2):
            if not same_fields(first, _renamed(other, first.names)):
                raise TopologyError(
                    f"stream {position} has the fields {other.simpleString()}, the first one {first.simpleString()}; "
                    f"names may differ, types and their order may not"
                )
        nullable = [any(each.fields[position].nullable for each in inputs) for position in range(len(first.fields))]
        return StructType(
            [StructField(f.name, f.dataType, null) for f, null in zip(first.fields, nullable, strict=True)]
        )

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        schema = self.output([flow.schema for flow in inputs])
        frames = [_plain(flow.native(), "_") for flow in inputs]
        return Flow.of(reduce(DataFrame.unionAll, frames).toDF(*schema.names), schema)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Concatenate the streams."""
        schema = self.output([flow.schema for flow in inputs])
        rows = Chained([flow.made() for flow in inputs], arrow_schema(schema))
        return RowFlow.of(rows, schema, travels=all(flow.travels for flow in inputs))


@frozen
class Chained:
    """The concatenated rows of several streams under the same field names."""

    streams: Sequence[Iterable[pa.RecordBatch]]
    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return named(chain.from_iterable(self.streams), self.schema)


@frozen
class Side:
    """One stream of a join.

    Attributes:
        keys: its key fields.
        is_optional: whether its fields become nulls if it has no partner row (Storm's ``OUTER``).
    """

    keys: tuple[str, ...]
    is_optional: bool

    def rest(self, schema: StructType) -> list[StructField]:
        """Return the other fields."""
        return [field for field in schema.fields if field.name not in self.keys]


@frozen
class Join(Operation):
    """The combinations of rows with equal keys in one batch; a null equals a null, as in groups.

    Attributes:
        sides: two or more, with equal numbers and types of keys.
        fields: the field names of the result: the keys, then the other fields of each side.
        preserve: the result has all fields of each side instead, including keys.
    """

    title: str
    sides: tuple[Side, ...]
    fields: tuple[str, ...]
    preserve: bool = False

    @property
    def how(self) -> str:
        """The join of two streams, as the user has named it."""
        found = tuple(side.is_optional for side in self.sides)
        return next(name for name, optional in _SIDES.items() if optional == found)

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the keys once, then the other fields; nullable if a partner may be missing."""
        rest = [
            StructField(field.name, field.dataType, field.nullable or side.is_optional)
            for side, source in zip(self.sides, inputs, strict=True)
            for field in self._rest(side, source)
        ]
        keys = self._keys(inputs)
        found = rest if self.preserve else [*keys, *rest]
        if len(found) != len(self.fields):
            first = "" if self.preserve else f"the keys {list(self.sides[0].keys)} and then "
            raise TopologyError(
                f"the result has {len(found)} fields, {first}"
                f"{[field.name for field in rest]}; named are {len(self.fields)}, {list(self.fields)}"
            )
        return schema_of(_renamed(StructType(found), self.fields))

    def _rest(self, side: Side, source: StructType) -> list[StructField]:
        return source.fields if self.preserve else side.rest(source)

    def _keys(self, inputs: Sequence[StructType]) -> list[StructField]:
        all_keys = [select(source, side.keys) for side, source in zip(self.sides, inputs, strict=True)]
        first = check_same_keys(all_keys)
        present = [keys for side, keys in zip(self.sides, all_keys, strict=True) if not side.is_optional]
        return [
            StructField(key.name, key.dataType, all(keys.fields[position].nullable for keys in present))
            for position, key in enumerate(first.fields)
        ]

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Chain joins of Spark, under field names that can't clash."""
        schema = self.output([flow.schema for flow in inputs])
        frames = [_plain(flow.native(), f"_{number}_") for number, flow in enumerate(inputs)]
        at = [
            {field.name: F.col(f"_{number}_{position}") for position, field in enumerate(flow.schema.fields)}
            for number, flow in enumerate(inputs)
        ]
        keys = [at[0][name] for name in self.sides[0].keys]
        joined, is_optional = frames[0], self.sides[0].is_optional
        for side, frame, of in zip(self.sides[1:], frames[1:], at[1:], strict=True):
            theirs = [of[name] for name in side.keys]
            equal = reduce(and_, [key.eqNullSafe(other) for key, other in zip(keys, theirs, strict=True)])
            joined = joined.join(frame, equal, _HOW[is_optional, side.is_optional])
            keys = [F.coalesce(key, other) for key, other in zip(keys, theirs, strict=True)]
            is_optional = is_optional and side.is_optional
        rest = [
            of[field.name]
            for side, flow, of in zip(self.sides, inputs, at, strict=True)
            for field in self._rest(side, flow.schema)
        ]
        return Flow.of(joined.select(*([] if self.preserve else keys), *rest).toDF(*schema.names), schema)


_HOW = {(False, False): "inner", (False, True): "left", (True, False): "right", (True, True): "full"}
"""Spark's join type, by whether the sides joined so far are optional, and whether the next one is."""

_SIDES = {"inner": (False, False), "left": (False, True), "outer": (True, True)}


def check_same_keys(keys: Sequence[StructType]) -> StructType:
    """Return the keys of the first stream, which are comparable with those of the others.

    Raises:
        TopologyError: they aren't comparable.
    """
    first, *others = keys
    check_comparable(first)
    for other in others:
        for ours, theirs in zip(first.fields, other.fields, strict=True):
            if not same_fields(StructType([ours]), _renamed(StructType([theirs]), [ours.name])):
                raise TopologyError(
                    f"the keys {ours.name!r} and {theirs.name!r} are {ours.dataType.simpleString()} and "
                    f"{theirs.dataType.simpleString()}; map one to the type of the other"
                )
    return first


def join_of(
    title: str,
    left_keys: str | Sequence[str],
    right_keys: str | Sequence[str],
    fields: str | Sequence[str],
    how: str,
    *,
    preserve: bool,
) -> Join:
    """Make a join of two streams, after the checks that need no knowledge of the inputs."""
    if how not in _SIDES:
        raise TopologyError(f"how is one of {', '.join(map(repr, _SIDES))}, not {shown(how)}")
    return _join(title, [left_keys, right_keys], fields, _SIDES[how], preserve)


def join_all_of(
    title: str,
    keys: Sequence[str | Sequence[str]],
    fields: str | Sequence[str],
    how: str | Sequence[str],
    *,
    preserve: bool,
) -> Join:
    """Make a join of several streams, after the checks that need no knowledge of the inputs."""
    sides = [how] * len(keys) if isinstance(how, str) else list(how)
    for each in sides:
        if each not in ("inner", "outer"):
            raise TopologyError(f"how is 'inner' or 'outer', or one of them for each stream, not {shown(each)}")
    if len(sides) != len(keys):
        raise TopologyError(f"say 'inner' or 'outer' for each of {len(keys)} streams, not {sides}")
    return _join(title, keys, fields, [each == "outer" for each in sides], preserve)


def _join(
    title: str,
    keys: Sequence[str | Sequence[str]],
    fields: str | Sequence[str],
    is_optional: Sequence[bool],
    preserve: bool,
) -> Join:
    named = [names_of(each) for each in keys]
    if not named[0] or len({len(each) for each in named}) > 1:
        raise TopologyError(f"name as many keys on each side, at least one, not {' and '.join(map(repr, named))}")
    sides = tuple(Side(each, optional) for each, optional in zip(named, is_optional, strict=True))
    return Join(title, sides, names_of(fields), preserve)


def _renamed(schema: StructType, names: Sequence[str]) -> StructType:
    if len(schema.fields) != len(names):
        return schema
    return StructType(
        [StructField(name, field.dataType, field.nullable) for name, field in zip(names, schema.fields, strict=True)]
    )


def _plain(frame: DataFrame, side: str) -> DataFrame:
    return frame.toDF(*[f"{side}{position}" for position in range(len(frame.columns))])
