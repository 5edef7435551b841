"""Arrays, structs and maps in a column of JSON; structs and maps with text keys stand in it as objects."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as t

from trident_py.rows.json_rows import Codec, codec_of
from trident_py.rows.row import row_class
from trident_py.states.sql.columns import as_text

Convert = Callable[[Any], Any]


def is_nested(kind: t.DataType) -> bool:
    """Tell whether values of ``kind`` have parts."""
    return isinstance(kind, t.ArrayType | t.MapType | t.StructType)


def json_text(kind: t.DataType, checked: Callable[[str], str]) -> tuple[Convert, Convert]:
    """Return two conversions: from values of ``kind`` to ``checked`` JSON text, and back from what a client gives."""
    encode, decode = _codec(kind)

    def to_text(value: Any) -> str:
        return checked(as_text(json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)))

    return to_text, lambda stored: decode(json.loads(stored) if isinstance(stored, str | bytes) else stored)


def _codec(kind: t.DataType) -> Codec:
    match kind:
        case t.StructType():
            return _struct(kind)
        case t.ArrayType():
            encode, decode = map(_optional, _codec(kind.elementType))
            return lambda value: list(map(encode, _sequence(value))), lambda value: list(map(decode, value))
        case t.MapType():
            return _map(kind)
    if isinstance(kind, t.FloatType | t.DoubleType):
        encode, decode = codec_of(kind)
        # PostgreSQL's jsonb has no minus zero among its numbers; it is a text, as infinity is.
        return lambda value: encode(value) if value or math.copysign(1, value) > 0 else "-0.0", decode
    return codec_of(kind)


def _struct(kind: t.StructType) -> Codec:
    names, make = kind.names, row_class(tuple(kind.names))._make
    codecs = [tuple(map(_optional, _codec(each.dataType))) for each in kind.fields]

    def encode(value: Any) -> dict[str, Any]:
        parts = [value[name] for name in names] if isinstance(value, dict) else _sequence(value)
        return {name: to(part) for name, (to, _), part in zip(names, codecs, parts, strict=True)}

    return encode, lambda value: make([back(value[name]) for name, (_, back) in zip(names, codecs, strict=True)])


def _map(kind: t.MapType) -> Codec:
    (encode_key, decode_key), (encode, decode) = _codec(kind.keyType), map(_optional, _codec(kind.valueType))
    if isinstance(kind.keyType, t.StringType):
        return (
            lambda value: {encode_key(key): encode(item) for key, item in value.items()},
            lambda value: {decode_key(key): decode(item) for key, item in value.items()},
        )
    return (
        lambda value: [[encode_key(key), encode(item)] for key, item in value.items()],
        lambda value: {_hashable(decode_key(key)): decode(item) for key, item in value},
    )


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _sequence(value: Any) -> Any:
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        raise TypeError(value)
    return value


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
