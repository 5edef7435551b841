"""JSON values of Spark's types."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.rows.schema import shown

_FLOAT32_END = 2.0**128 * (1 - 2.0**-25)
"""The limit from which a number is infinite as a float of 32 bits."""

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECODER = json.JSONDecoder()
_SPACES = frozenset(" \t\r\n")
_BELOW_MICROS = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def check_json_type(kind: t.DataType, name: str = "value") -> None:
    """Check that JSON has values of this type; ``name`` is the name of the field.

    Raises:
        TopologyError: it has none.
    """
    match kind:
        case t.StructType():
            for field in kind.fields:
                check_json_type(field.dataType, field.name)
        case t.ArrayType():
            check_json_type(kind.elementType, name)
        case t.MapType(keyType=t.StringType()):
            check_json_type(kind.valueType, name)
        case t.MapType():
            raise TopologyError(
                f"the field {name!r} is {kind.simpleString()}, and keys in JSON are texts; to fix this: declare it as "
                f"map<string, …>"
            )
        case t.BinaryType():
            raise TopologyError(
                f"the field {name!r} is binary, and JSON has no such values; to fix this: declare it as string, and "
                f"decode it in a map"
            )


def json_decoder(kind: t.DataType) -> Callable[[bytes], Any]:
    """Return a function that decodes a value of a type checked by `check_json_type`; it raises for invalid bytes."""
    convert = converter(kind)
    return lambda value: convert(json.loads(value, parse_float=Decimal))


def converter(kind: t.DataType) -> Callable[[Any], Any]:
    """Return a function that converts JSON to values of a Spark type; types that JSON lacks are texts there."""
    match kind:
        case t.StructType():
            return _struct(kind)
        case t.ArrayType():
            item = _nullable(converter(kind.elementType))
            return lambda value: list(map(item, _checked(value, list)))
        case t.MapType():
            item = _nullable(converter(kind.valueType))
            return lambda value: {key: item(each) for key, each in _checked(value, dict).items()}
        case t.DecimalType():
            return _decimal(kind)
    return _PLAIN.get(type(kind), lambda value: value)


def _struct(kind: t.StructType) -> Callable[[Any], Any]:
    """Return a function that converts an object: missing fields become NULL, other fields are left out."""
    converters = {field.name: _nullable(converter(field.dataType)) for field in kind.fields}
    return lambda value: {name: convert(_checked(value, dict).get(name)) for name, convert in converters.items()}


def json_places(data: bytes) -> list[tuple[int, int]]:
    """Return the begin and end of each value in a JSON array, or of the one value that isn't an array.

    Raises:
        ValueError: it isn't JSON.
    """
    text = data.decode("latin-1")  # each byte as one character; those that aren't ASCII are inside texts
    at = _next(text, 0)
    if text[at : at + 1] == "[":
        places, at = _items(text, at + 1)
    else:
        places = [(at, _DECODER.raw_decode(text, at)[1])]
        at = places[0][1]
    if _next(text, at) < len(text):
        raise ValueError(f"more begins at byte {_next(text, at)}, behind the end of the value")
    return places


def _items(text: str, at: int) -> tuple[list[tuple[int, int]], int]:
    """Return the places of the items of an array, and its end."""
    places: list[tuple[int, int]] = []
    at = _next(text, at)
    while places or text[at : at + 1] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        places.append((at, end))
        at = _next(text, end)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            raise ValueError(f"there is no ',' or ']' at byte {at}")
        at = _next(text, at + 1)
    return places, at + 1


def _next(text: str, at: int) -> int:
    """Return the place of the first character that isn't white space."""
    while text[at : at + 1] in _SPACES:
        at += 1
    return at


def unknown_field(value: Any, kind: t.DataType) -> str:
    """Return the name of a field that a JSON value has and the type hasn't; empty: it has no such field."""
    match value, kind:
        case dict(), t.StructType():
            inner = {each.name: each.dataType for each in kind}
            more = next((name for name in value if name not in inner), "")
            return more or next(filter(None, (unknown_field(value[each], inner[each]) for each in value)), "")
        case list(), t.ArrayType():
            return next(filter(None, (unknown_field(each, kind.elementType) for each in value)), "")
        case dict(), t.MapType():
            return next(filter(None, (unknown_field(each, kind.valueType) for each in value.values())), "")
    return ""


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{shown(value)} is no {kind.__name__}")
    return value


def _decimal(kind: t.DecimalType) -> Callable[[Any], Decimal]:
    unit = Decimal((0, (1,), -kind.scale))
    exact = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])

    def convert(value: Any) -> Decimal:
        if type(value) not in (int, Decimal, str) or (type(value) is str and not _NUMBER.fullmatch(value)):
            raise TypeError(f"{shown(value)} is no number")
        try:
            return exact.quantize(Decimal(value), unit)
        except ArithmeticError as error:
            raise ValueError(f"{shown(value)} has more digits than a {kind.simpleString()}") from error

    return convert


def _float(value: Any, end: float) -> Any:
    if type(value) not in (int, Decimal):  # NaN and Infinity are floats, though they aren't JSON
        return value
    found = float(value)
    if abs(found) >= end:
        raise OverflowError(f"{shown(value)} is too large")
    return found


def _instant(text: str) -> datetime:
    """Return a moment; a text without a time zone is UTC."""
    moment = _to_micros(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)  # in years 1 to 9999 there


def _local(text: str) -> datetime:
    moment = _to_micros(text)
    if moment.tzinfo is not None:
        raise ValueError(f"{shown(text)} has a time zone, and a timestamp_ntz has none")
    return moment


def _to_micros(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if _BELOW_MICROS.search(text):
        raise ValueError(f"{shown(text)} has digits below the microsecond, which a timestamp has not")
    return moment


_PLAIN: Mapping[type[t.DataType], Callable[[Any], Any]] = {
    t.DateType: date.fromisoformat,
    t.DoubleType: lambda value: _float(value, math.inf),
    t.FloatType: lambda value: _float(value, _FLOAT32_END),
    t.TimestampNTZType: _local,
    t.TimestampType: _instant,
}
