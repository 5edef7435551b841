"""The text that stands for the values of a key: one for equal keys, different for different ones, NULLs and types kept.

It is a JSON array. Strings, integers, booleans, NULLs, arrays and ordinary floats stand in it as JSON; everything else
as an object that names its type. SQL's own equality would not do: there a NULL equals nothing, so that a group of NULLs
would start anew in every batch.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from json.encoder import encode_basestring
from typing import Any

from coordinators.values.canonical import Json
from trident_py.errors import StateError
from trident_py.rows.schema import clipped, columns_of

UNGROUPED = "[]"
"""The text of the key of values that are not grouped."""

_ITSELF = frozenset({str, int, bool, type(None)})
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def encode_key(key: Sequence[Any]) -> str:
    """Return the canonical text of ``key``.

    Equal is what Spark groups together: 0.0 and -0.0, every NaN, decimals of one value, instants in any time zone.

    Raises:
        StateError: a value is of a type that cannot be a key.
    """
    (text,) = encode_keys([key])
    return text


def encode_keys(keys: Sequence[Sequence[Any]]) -> list[str]:
    """Return the texts of keys of the same fields: column by column, a fifth of the time for strings and integers.

    Raises:
        StateError: a value is of a type that cannot be a key.
        ValueError: the keys have different numbers of values.
    """
    if len(widths := set(map(len, keys))) > 1:
        raise ValueError(
            f"keys of one state have the same number of values, not {' and '.join(map(str, sorted(widths)))}"
        )
    columns = [_encoded(column) for column in columns_of(keys, max(widths, default=0))]
    if len(columns) == 1:
        return [f"[{part}]" for part in columns[0]]
    return [f"[{','.join(parts)}]" for parts in zip(*columns, strict=True)] if columns else [UNGROUPED] * len(keys)


def _encoded(column: Sequence[Any]) -> Iterable[str]:
    kinds = set(map(type, column))
    if kinds == {str}:
        return map(encode_basestring, column)
    if kinds == {int}:
        return map(str, column)
    return (_dumps(value if type(value) in _ITSELF else _tagged(value)) for value in column)


_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def _tagged(value: Any) -> Json:
    for kind, encode in _ENCODERS:
        if isinstance(value, kind):
            return encode(value)
    raise StateError(
        f"{value!r} ({type(value).__name__}) cannot be part of a state's key; group by strings, numbers, booleans, "
        f"dates, times, bytes, or arrays and structs of them"
    )


def _float(value: float) -> Json:
    if math.isfinite(value):
        return float(value) + 0.0  # -0.0 + 0.0 is 0.0
    return {"float": "nan" if math.isnan(value) else repr(float(value))}


def _decimal(value: Decimal) -> Json:
    if not value.is_finite():
        raise StateError(f"{value!r} cannot be part of a state's key; a decimal must be a number")
    return {"decimal": str(value.normalize(_EXACT)) if value else "0"}


def _datetime(value: datetime) -> Json:
    if value.tzinfo is None:
        return {"timestamp_ntz": value.isoformat()}
    return {"timestamp": value.astimezone(UTC).isoformat()}


def _struct(values: Iterable[Any]) -> Json:
    return {"struct": [_tagged(value) for value in values]}


_ENCODERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Json]], ...] = (
    (type(None), lambda _: None),
    (str, str),
    (bool, bool),
    (int, int),
    (float, _float),
    (Decimal, _decimal),
    (datetime, _datetime),
    (date, lambda value: {"date": value.isoformat()}),
    (time, lambda value: {"time": value.isoformat()}),
    (timedelta, lambda value: {"interval": value // _MICROSECOND}),
    ((bytes, bytearray), lambda value: {"bytes": b64encode(value).decode()}),
    (list, lambda value: [_tagged(item) for item in value]),
    (tuple, _struct),
    (dict, lambda value: _struct(value.values())),  # as Arrow gives a struct
)


def decode_key(text: str) -> tuple[Any, ...]:
    """Return the values of the key that has this text; a struct as a tuple, a timestamp in UTC.

    Raises:
        StateError: it is the text of no key.
    """
    try:
        return tuple(map(_decoded, json.loads(text)))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise StateError(f"{clipped(text)} is not the text of a key; to fix this: restore the store") from error


def _decoded(part: Json) -> Any:
    if isinstance(part, list):
        return [_decoded(item) for item in part]
    if not isinstance(part, dict):
        return part
    ((kind, value),) = part.items()
    return _DECODERS[kind](value)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "interval": lambda value: value * _MICROSECOND,
    "bytes": b64decode,
    "struct": lambda values: tuple(map(_decoded, values)),
}


def keys_of(columns: Sequence[Sequence[Any]], count: int) -> list[tuple[Any, ...]]:
    """Return the key of each row: its values in the first ``count`` columns."""
    return list(zip(*columns[:count], strict=True)) if count else [()] * len(columns[0])
