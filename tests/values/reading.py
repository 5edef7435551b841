"""Values as Arrow's readers give them, as the Python values of Spark's types that the odd values are written in."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as t

from trident_py.rows.schema import schema_of


def type_of(ddl: str) -> t.DataType:
    """Return the type of a DDL text."""
    return schema_of(f"v {ddl}")["v"].dataType


def spark_value(value: Any, kind: t.DataType) -> Any:
    """Return what a reader that knows no Spark gives as a value of a Spark type: structs are tuples, maps dicts."""
    if value is None:
        return None
    match kind:
        case t.StructType():
            given = list(value.values()) if isinstance(value, dict) else list(value)
            return tuple(spark_value(each, field.dataType) for each, field in zip(given, kind.fields, strict=True))
        case t.ArrayType():
            return [spark_value(each, kind.elementType) for each in value]
        case t.MapType():
            pairs = value.items() if isinstance(value, dict) else value
            return {key: spark_value(each, kind.valueType) for key, each in pairs}
    return value
