"""Rows as JSON, by their schema: values without a JSON type become text, and are restored exactly."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from pyspark.sql import types as t

from coordinators.values.canonical import Json

Codec: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""The conversion to JSON and back; neither function receives None."""


def json_rows(rows: Sequence[Sequence[Any]], schema: t.StructType) -> list[Json]:
    """Return ``rows``, which match ``schema``, as lists for JSON."""
    to_json, _ = _struct(schema)
    return [to_json(row) for row in rows]


def rows_of_json(rows: Sequence[Json], schema: t.StructType) -> list[tuple[Any, ...]]:
    """Return the rows that `json_rows` made."""
    _, from_json = _struct(schema)
    return [from_json(row) for row in rows]


def codec_of(kind: t.DataType) -> Codec:
    """Return the conversion of values of ``kind`` to JSON and back."""
    match kind:
        case t.StructType():
            return _struct(kind)
        case t.ArrayType():
            return _array(kind)
        case t.MapType():
            return _map(kind)
    return _CODECS.get(type(kind), _AS_IT_IS)


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _struct(kind: t.StructType) -> Codec:
    codecs = [codec_of(field.dataType) for field in kind.fields]
    encoders, decoders = ([_nullable(codec[way]) for codec in codecs] for way in (0, 1))

    def to_json(value: Any) -> Json:
        values = [value.get(name) for name in kind.names] if isinstance(value, dict) else value
        return [encode(part) for encode, part in zip(encoders, values, strict=True)]

    return to_json, lambda value: tuple(decode(part) for decode, part in zip(decoders, value, strict=True))


def _array(kind: t.ArrayType) -> Codec:
    encode, decode = map(_nullable, codec_of(kind.elementType))
    return lambda value: list(map(encode, value)), lambda value: list(map(decode, value))


def _map(kind: t.MapType) -> Codec:
    (encode_key, decode_key), (encode, decode) = (
        map(_nullable, codec_of(part)) for part in (kind.keyType, kind.valueType)
    )
    return (
        lambda value: [[encode_key(key), encode(item)] for key, item in value.items()],
        lambda value: {decode_key(key): decode(item) for key, item in value},
    )


def _float(value: float) -> Json:
    return float(value) if math.isfinite(value) else repr(float(value))


_AS_IT_IS: Codec = (lambda value: value, lambda value: value)
_INTEGER: Codec = (int, int)
_FLOAT: Codec = (_float, float)
_DATETIME: Codec = (datetime.isoformat, datetime.fromisoformat)
_CODECS: dict[type[t.DataType], Codec] = {
    t.BooleanType: (bool, bool),
    t.ByteType: _INTEGER,
    t.ShortType: _INTEGER,
    t.IntegerType: _INTEGER,
    t.LongType: _INTEGER,
    t.FloatType: _FLOAT,
    t.DoubleType: _FLOAT,
    t.DecimalType: (str, Decimal),
    t.StringType: (str, str),
    t.BinaryType: (lambda value: b64encode(value).decode(), b64decode),
    t.DateType: (date.isoformat, date.fromisoformat),
    t.TimestampType: _DATETIME,
    t.TimestampNTZType: _DATETIME,
}
