"""Avro: conversion of a schema to a Spark type, and of values to bytes and back; needs fastavro."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

from pyspark.sql import types as t

from trident_py.errors import ConfigError, TopologyError
from trident_py.rows.schema import shown

DECIMAL_DIGITS_MAX = 38
_DIGITS = Context(prec=DECIMAL_DIGITS_MAX)
_EXACT = "trident-exact-decimal"
"""The logical type in fastavro for decimals that `_exact_decimal` reads."""

_PLAIN: Mapping[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "bytes": t.BinaryType(),
    "double": t.DoubleType(),
    "enum": t.StringType(),
    "fixed": t.BinaryType(),
    "float": t.FloatType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "string": t.StringType(),
}
_LOGICAL: Mapping[str, t.DataType] = {
    "date": t.DateType(),
    "local-timestamp-micros": t.TimestampNTZType(),
    "local-timestamp-millis": t.TimestampNTZType(),
    "timestamp-micros": t.TimestampType(),
    "timestamp-millis": t.TimestampType(),
}
_WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


def avro_schema(text: object) -> Any:
    """Return the schema of a JSON text, without logical types that Spark lacks; the annotated types stay.

    Raises:
        TopologyError: it is not an Avro schema.
        ConfigError: fastavro is not installed.
    """
    if not isinstance(text, str):
        raise TopologyError(f"value='avro' needs schema=, the Avro schema of values as JSON text, not {shown(text)}")
    fastavro = fastavro_module()
    try:
        schema = _known_logical_types(json.loads(text))
        fastavro.parse_schema(schema)
    except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise TopologyError(f"schema={shown(text)} is not an Avro schema: {type(error).__name__}: {error}") from error
    return schema


def avro_type(schema: Any) -> t.DataType:
    """Return the Spark type for a schema of `avro_schema`; every field may be NULL.

    Raises:
        TopologyError: there is no such type.
    """
    return _spark_type(fastavro_module().parse_schema(schema, expand=True))


def avro_fields(schema: Any, names: Collection[str]) -> t.StructType:
    """Return the Spark types of these fields of a record's schema, as of a file; other fields may have any type.

    Raises:
        TopologyError: there is no such type.
    """
    expanded = fastavro_module().parse_schema(_known_logical_types(schema), expand=True)
    found = (each for each in expanded["fields"] if each["name"] in names)
    return t.StructType([t.StructField(each["name"], _spark_type(each["type"])) for each in found])


def avro_decoder(schema: Any) -> Callable[[bytes], Any]:
    """Return a function that decodes a value of a schema of `avro_schema`; it raises ValueError for invalid bytes."""
    read = avro_reader(schema)
    return lambda value: read_to_end(read, BytesIO(value), len(value))


def avro_reader(writer: Any, reader: Any = None, others: Sequence[Any] = ()) -> Callable[[BytesIO], Any]:
    """Return a function that reads the next value of a stream; it raises ValueError for invalid bytes.

    Args:
        writer: the schema with which values were written.
        reader: the schema to which they are converted, by Avro's rules; None: as they were written.
        others: schemas to whose names ``writer`` refers.
    """
    fastavro = fastavro_module()
    for kind in ("bytes", "fixed"):
        fastavro.read.LOGICAL_READERS[f"{kind}-{_EXACT}"] = _exact_decimal
    named: dict[str, Any] = {}
    for each in others:
        _parsed(each, named)
    schemas = _parsed(writer, named), None if reader is None else _parsed(reader, {})
    read = fastavro.schemaless_reader

    def next_value(stream: BytesIO) -> Any:
        try:
            return read(stream, *schemas)
        except (EOFError, LookupError) as error:
            raise ValueError(f"{type(error).__name__} at byte {stream.tell()}: {error}") from error

    return next_value


def read_to_end(read: Callable[[BytesIO], Any], stream: BytesIO, size: int) -> Any:
    """Return the last value of a stream of ``size`` bytes.

    Raises:
        ValueError: it is not valid, or not the last one.
    """
    found = read(stream)
    if stream.tell() < size:
        raise ValueError(f"it ends at byte {stream.tell()} of {size}")
    return found


def avro_encoder(schema: Any) -> Callable[[BytesIO, Any], None]:
    """Return a function that writes a value of a schema of `avro_schema`; it raises any exception if it doesn't fit."""
    fastavro = fastavro_module()
    parsed = fastavro.parse_schema(schema)
    return lambda stream, value: fastavro.schemaless_writer(stream, parsed, value, strict=True)


def _parsed(schema: Any, named: dict[str, Any]) -> Any:
    """Return a schema in the form that fastavro reads by; add its names to ``named``."""
    return fastavro_module().parse_schema(_with_exact_decimals(_known_logical_types(schema)), named_schemas=named)


def _with_exact_decimals(schema: Any) -> Any:
    match schema:
        case dict():
            renamed = {"logicalType": _EXACT} if schema.get("logicalType") == "decimal" else {}
            return {name: _with_exact_decimals(each) for name, each in schema.items()} | renamed
        case list():
            return [_with_exact_decimals(each) for each in schema]
    return schema


def _exact_decimal(stored: bytes, schema: Mapping[str, Any], _: object = None) -> Decimal:
    """Return a decimal with all of its digits; fastavro's own reader rounds one that has too many."""
    if not stored:
        raise ValueError("a decimal has no bytes")
    unscaled = int.from_bytes(stored, "big", signed=True)
    if abs(unscaled) >= 10 ** schema["precision"]:
        raise ValueError(f"a decimal has more than {schema['precision']} digits")
    return Decimal(unscaled).scaleb(-schema.get("scale", 0), _DIGITS)


def _spark_type(schema: Any) -> t.DataType:
    """Return the type for a schema with expanded names."""
    match schema:
        case {"type": "record", "fields": [_, *_] as fields}:
            return t.StructType([t.StructField(each["name"], _spark_type(each["type"])) for each in fields])
        case {"type": "array", "items": items}:
            return t.ArrayType(_spark_type(items))
        case {"type": "map", "values": values}:
            return t.MapType(t.StringType(), _spark_type(values))
        case {"logicalType": _}:
            return _logical(schema)
        case {"type": inner} if schema.get("size") != 0:  # a few bytes may say that an array has billions of nothing
            return _spark_type(inner)
        case str() if schema in _PLAIN:
            return _PLAIN[schema]
        case list():
            return _union(schema)
    raise _has_no_type(schema)


def _logical(schema: Mapping[str, Any]) -> t.DataType:
    match schema:
        case {"logicalType": "decimal", "precision": int(digits)} if digits <= DECIMAL_DIGITS_MAX:
            return t.DecimalType(digits, schema.get("scale", 0))
        case {"logicalType": str(kind)} if kind in _LOGICAL:
            return _LOGICAL[kind]
    raise _has_no_type(schema)


def _union(branches: Sequence[Any]) -> t.DataType:
    """Return the type of the one branch that isn't null; for numbers of two sizes, the larger one."""
    kinds = [each["type"] if isinstance(each, dict) and set(each) == {"type"} else each for each in branches]
    present = [each for each in kinds if each != "null"]
    if len(present) == 1:
        return _spark_type(present[0])
    named = frozenset(each for each in present if isinstance(each, str))
    if len(present) == len(named) and named in _WIDENED:
        return _PLAIN[_WIDENED[named]]
    raise _has_no_type(branches)


def _has_no_type(schema: Any) -> TopologyError:
    return TopologyError(
        f"Spark has no type for {shown(schema)} in an Avro schema; to fix this: read value='binary', and decode it in "
        f"a map"
    )


def _known_logical_types(schema: Any) -> Any:
    match schema:
        case dict():
            is_known = schema.get("logicalType") in {*_LOGICAL, "decimal"}
            kept = {name: each for name, each in schema.items() if is_known or name != "logicalType"}
            return {name: _known_logical_types(each) if name in _NESTED else each for name, each in kept.items()}
        case list():
            return [_known_logical_types(each) for each in schema]
    return schema


_NESTED = {"type", "fields", "items", "values"}


def fastavro_module() -> Any:
    """Import fastavro.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import fastavro
        import fastavro.read
        import fastavro.schema
    except ImportError as error:
        raise ConfigError(f"Avro needs fastavro ({error}): pip install 'trident-py[avro]'") from error
    return fastavro
