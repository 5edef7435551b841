"""Several streams into one, within each batch: ``merge`` and ``join``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Literal, TypeAlias, get_args

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructField, StructType

from coordinators.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph import Operation
from trident_py.planner.flow import Flow
from trident_py.schema import check_comparable, names_of, same_fields, schema_of, select, shown

How: TypeAlias = Literal["inner", "left", "outer"]


@frozen
class Merge(Operation):
    """The rows of several streams, duplicates and all, under the names of the first (Storm T12)."""

    title: str

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """The first one's names; a field may be null where it may be in any of the streams."""
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
        """``UNION ALL``."""
        schema = self.output([flow.schema for flow in inputs])
        frames = [_plain(flow.native(), "_") for flow in inputs]
        return Flow.of(reduce(DataFrame.unionAll, frames).toDF(*schema.names), schema)


@frozen(kw_only=True)
class Join(Operation):
    """The pairs of rows with equal keys, in one batch (Storm T13, T15).

    Attributes:
        left_keys: fields of the first stream.
        right_keys: fields of the second, of the same types; a null equals a null, as it does for ``group_by``.
        fields: the names of the result: of the keys, then of the left stream's other fields, then of the right one's.
        how: which rows without a partner stay, with nulls: ``"left"`` the left ones, ``"outer"`` all, ``"inner"`` none.
    """

    title: str
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    fields: tuple[str, ...]
    how: How

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """The keys once, then what else there is; nullable where a partner may be missing."""
        left, right = inputs
        keys, right_keys = select(left, self.left_keys), select(right, self.right_keys)
        check_comparable(keys)
        for ours, theirs in zip(keys.fields, right_keys.fields, strict=True):
            if not same_fields(StructType([ours]), _renamed(StructType([theirs]), [ours.name])):
                raise TopologyError(
                    f"the keys {ours.name!r} and {theirs.name!r} are {ours.dataType.simpleString()} and "
                    f"{theirs.dataType.simpleString()}; map one to the type of the other"
                )
        rest = [
            *(_optional(field, self.how == "outer") for field in _without(left, self.left_keys)),
            *(_optional(field, self.how != "inner") for field in _without(right, self.right_keys)),
        ]
        found = [*(_optional(field, self.how == "outer") for field in keys.fields), *rest]
        if len(found) != len(self.fields):
            raise TopologyError(
                f"the result has {len(found)} fields, the keys {list(self.left_keys)} and then "
                f"{[field.name for field in rest]}; named are {len(self.fields)}, {list(self.fields)}"
            )
        return schema_of(_renamed(StructType(found), self.fields))

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """A join of Spark's, under names that can't clash."""
        left, right = inputs
        schema = self.output([left.schema, right.schema])
        on = [
            (_at(left.schema, ours, "_left"), _at(right.schema, theirs, "_right"))
            for ours, theirs in zip(self.left_keys, self.right_keys, strict=True)
        ]
        joined = _plain(left.native(), "_left").join(
            _plain(right.native(), "_right"),
            reduce(and_, [ours.eqNullSafe(theirs) for ours, theirs in on]),
            "full" if self.how == "outer" else self.how,
        )
        columns = [
            *(F.coalesce(ours, theirs) for ours, theirs in on),
            *(_at(left.schema, field.name, "_left") for field in _without(left.schema, self.left_keys)),
            *(_at(right.schema, field.name, "_right") for field in _without(right.schema, self.right_keys)),
        ]
        return Flow.of(joined.select(*columns).toDF(*schema.names), schema)


def join_of(
    title: str,
    left_keys: str | Sequence[str],
    right_keys: str | Sequence[str],
    fields: str | Sequence[str],
    how: str,
) -> Join:
    """Checks what can be checked without knowing the inputs."""
    ours, theirs, names = names_of(left_keys), names_of(right_keys), names_of(fields)
    if not ours or len(ours) != len(theirs):
        raise TopologyError(f"name as many keys on either side, at least one, not {list(ours)} and {list(theirs)}")
    for each in get_args(How):
        if how == each:
            return Join(title=title, left_keys=ours, right_keys=theirs, fields=names, how=each)
    raise TopologyError(f"how is one of {', '.join(map(repr, get_args(How)))}, not {shown(how)}")


def _renamed(schema: StructType, names: Sequence[str]) -> StructType:
    if len(schema.fields) != len(names):
        return schema
    return StructType(
        [StructField(name, field.dataType, field.nullable) for name, field in zip(names, schema.fields, strict=True)]
    )


def _optional(field: StructField, missing: bool) -> StructField:
    return StructField(field.name, field.dataType, field.nullable or missing)


def _without(schema: StructType, names: Sequence[str]) -> list[StructField]:
    return [field for field in schema.fields if field.name not in names]


def _plain(frame: DataFrame, side: str) -> DataFrame:
    return frame.toDF(*[f"{side}{position}" for position in range(len(frame.columns))])


def _at(schema: StructType, name: str, side: str) -> Column:
    return F.col(f"{side}{schema.names.index(name)}")
