"""Which partition of its spout a row comes from, for the watermark: found at declaration, carried within a branch.

A spout says by `RowSource.partition_fields` which fields of its rows name the partition. Operations before a window may
drop or change these fields. So the branch of the window begins with an operation that adds one field before all others.
The operations after it copy this field without reading it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from trident_py.errors import TopologyError
from trident_py.graph.event_time import PARTITION, SpoutPartitions
from trident_py.graph.graph import Engine, Node, Source
from trident_py.graph.rowwise import RowOperation
from trident_py.rows.row import Row
from trident_py.rows.schema import names_of, select
from trident_py.spark.frames import column
from trident_py.worker.pipeline import Step, Values

_FIELD = StructField(PARTITION, StringType(), False)


def with_partition(fields: StructType) -> StructType:
    """Return the fields of rows that carry their partition."""
    return StructType([_FIELD, *fields.fields])


def check_partition_fields(source: Source) -> None:
    """Check the fields that name the partitions of a spout.

    Raises:
        TopologyError: a field is missing, or has a type that can't be used.
    """
    for each in select(source.schema, names_of(source.spout.partition_fields)).fields:
        if each.dataType not in (StringType(), IntegerType(), LongType()):
            raise TopologyError(
                f"partition_fields of {type(source.spout).__name__} has {each.name!r}, which is "
                f"{each.dataType.simpleString()}; use fields of type string, int or bigint"
            )


def traced(node: Node) -> SpoutPartitions:
    """Return the partitions of the spout of ``node``, or the reason why its rows can't be traced to them."""
    while node.source is None:
        if node.operation.carrying() is None:
            return SpoutPartitions(reason=f"they can't be traced through {node.operation.title}")
        node = node.inputs[0]
    spout = node.source.spout
    names = names_of(spout.partition_fields)
    return SpoutPartitions(names, "" if names else f"{type(spout).__name__} has no partition_fields")


def carry(node: Node) -> Node:
    """Return ``node`` with rows that carry their partition; they can be traced."""
    is_python = any(each.operation.engine(each.inputs) is Engine.PYTHON for each in node.ancestry)
    return _carried(node, is_native=not is_python)


def _carried(node: Node, *, is_native: bool) -> Node:
    if PARTITION in node.fields.names:
        raise TopologyError(
            f"{node.operation.title} has a field {PARTITION!r}, the name under which rows carry the partition of their "
            f"spout; to fix this: rename it, or name the partitions by by="
        )
    if node.source is not None:
        operation = _partitions(node.source, is_native=is_native)
        return Node(operation, (node,), with_partition(node.fields), None, node.phase)
    carrying = node.operation.carrying()
    if carrying is None:
        raise AssertionError(f"{node.operation.title} can't carry partitions")
    (before,) = (_carried(each, is_native=is_native) for each in node.inputs)
    return evolve(node, operation=carrying, inputs=(before,), schema=with_partition(node.fields))


@frozen(kw_only=True)
class PartitionStep(Step):
    """Adds the name of a row's partition, before all other fields."""

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        known: dict[Values, str] = {}  # rows have few partitions
        made: list[Values] = []
        for row, view in zip(rows, views, strict=True):
            name = known.get(view)
            if name is None:
                name = known[view] = "/".join(map(_written, view))
            made.append((name, *row))
        return made


_NULL = "%0"
_ESCAPES = (("%", "%25"), ("/", "%2F"))
"""Different values have different names: so ``/`` is only between them."""


def _written(value: object) -> str:
    """Return a value as it is in the name of a partition."""
    if value is None:
        return _NULL
    text = str(value)
    for each, escaped in _ESCAPES:
        text = text.replace(each, escaped)
    return text


def _column(name: str) -> Column:
    """Return the same for a column."""
    text = column(name).cast("string")
    for each, escaped in _ESCAPES:
        text = F.replace(text, F.lit(each), F.lit(escaped))
    return F.coalesce(text, F.lit(_NULL))


def _partitions(source: Source, *, is_native: bool) -> RowOperation:
    names = names_of(source.spout.partition_fields)

    def step(fields: StructType) -> Step:
        target = with_partition(fields)
        return PartitionStep(title=source.title, source=tuple(fields.names), in_fields=names, target=target)

    def native(frame: DataFrame, seen: Sequence[str], tags: Sequence[str]) -> DataFrame:
        name = F.concat_ws("/", *map(_column, names)).alias(PARTITION)
        return frame.select(*map(column, tags), name, *map(column, seen))

    return RowOperation(f"the partitions of {source.tx_id!r}", step, native if is_native else None)
