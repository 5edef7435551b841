"""The number of rows of a DataFrame and their hash, computed by Spark while it reads them, for a fingerprint.

The hash depends neither on the order of the rows, nor on their partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as t

from coordinators.values.canonical import Fingerprint
from trident_py.spark.frames import column

KIND = "frame"
"""The kind of these hashes, which is compared with them. It must change with the hash."""

_LOW = 0xFFFFFFFF


def counted(schema: t.StructType, *, hashing: bool) -> list[Column]:
    """Return the expressions to observe for rows with these fields.

    The hash is summed in two halves, because the sum of the whole would overflow.
    """
    rows = F.count(F.lit(1)).alias("rows")
    if not hashing:
        return [rows]
    # Spark's hash ignores null: without the second part, (null, 1) and (1, null) would be equal.
    values = [_comparable(column(each.name), each.dataType) for each in schema.fields]
    row = F.xxhash64(*values, *(column(each.name).isNull() for each in schema.fields))
    return [
        rows,
        F.sum(row.bitwiseAND(F.lit(_LOW))).alias("low"),
        F.sum(F.shiftrightunsigned(row, 32)).alias("high"),
    ]


def fingerprint_of(observed: Mapping[str, Any] | None) -> Fingerprint:
    """Return the fingerprint from the observed values of `counted`; ``None`` means that there are no rows."""
    found = observed or {}
    total = (found.get("low") or 0) + ((found.get("high") or 0) << 32)
    return Fingerprint(found.get("rows") or 0, total % 2**64, KIND)


def _comparable(values: Column, kind: t.DataType) -> Column:
    """Convert the values to a type that Spark can hash: maps become their entries, in the order of the keys."""
    if not _has_map(kind):
        return values
    match kind:
        case t.MapType():
            entry = t.StructType([t.StructField("key", kind.keyType), t.StructField("value", kind.valueType)])
            return F.array_sort(F.transform(F.map_entries(values), lambda each: _struct(each, entry.fields)))
        case t.ArrayType():
            return F.transform(values, lambda each: _comparable(each, kind.elementType))
        case t.StructType():
            return F.when(values.isNotNull(), _struct(values, kind.fields))
    raise AssertionError(f"{kind.simpleString()} holds no map")


def _struct(values: Column, fields: Sequence[t.StructField]) -> Column:
    return F.struct(*(_comparable(values.getField(each.name), each.dataType).alias(each.name) for each in fields))


def _has_map(kind: t.DataType) -> bool:
    return "map<" in kind.simpleString()
