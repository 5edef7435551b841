"""The odd values of each type that Spark's rows can have, as Python has them. Every store meets all of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

_BEFORE_1883 = timezone(timedelta(hours=-4, minutes=-56, seconds=-2))  # New York's own time
_WITH_SECONDS = timezone(timedelta(minutes=19, seconds=32))  # Amsterdam's, until 1937
_DIGITS = "12345678901234567890123456789012345678"


def _bounds(bits: int) -> dict[str, Any]:
    return {"least": -(2 ** (bits - 1)), "greatest": 2 ** (bits - 1) - 1, "zero": 0, "minus one": -1}


_FLOATS: dict[str, Any] = {
    "zero": 0.0,
    "minus zero": -0.0,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "half": 0.5,
}
_TEXTS: dict[str, Any] = {
    "empty": "",
    "blank": " ",
    "trailing blanks": "a  ",
    "leading blanks": "  a",
    "lower": "straße",
    "upper": "STRASSE",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "nul": "a\0b",
    "lone surrogate": "a\ud800b",
    "emoji": "👩\u200d👩\u200d👧\u200d👦",
    "beyond the basic plane": "\U0010ffff",
    "byte order mark": "\ufeffa",
    "tab": "a\tb",
    "newline": "a\nb",
    "carriage return": "a\rb",
    "both": "a\r\nb",
    "line separator": "a\u2028b",
    "control": "a\x01\x1b[31m\x7fb",
    "null of COPY": "\\N",
    "end of COPY": "\\.",
    "backslashes": "C:\\new\\table\\101",
    "trailing backslash": "a\\",
    "quote": "a'b",
    "double quotes": 'a"b""c',
    "quote and backslash": 'a\\"b',
    "separators": "a,b;c|d",
    "formula": "=1+1",
    "null as text": "null",
    "NULL as text": "NULL",
    "number as text": "007",
    "true as text": "true",
    "braces": "{a,NULL}",
    "percent": "%s %(a)s {} $1 ?",
    "path": "../a/b=c%2F",
    "comment": "'; DROP TABLE x; --",
}
_DATES: dict[str, Any] = {
    "year 1": date(1, 1, 1),
    "year 9999": date(9999, 12, 31),
    "in the gap of 1582": date(1582, 10, 10),
    "after the gap": date(1582, 10, 15),
    "before 1883": date(1850, 6, 1),
    "before 1970": date(1969, 12, 31),
    "epoch": date(1970, 1, 1),
    "leap day": date(2000, 2, 29),
}
_NAIVE: dict[str, Any] = {
    "year 1": datetime(1, 1, 1),
    "year 9999": datetime(9999, 12, 31, 23, 59, 59, 999999),
    "in the gap of 1582": datetime(1582, 10, 10, 12),
    "before 1883": datetime(1850, 6, 1, 12, 0, 0, 1),
    "before 1970": datetime(1969, 12, 31, 23, 59, 59, 999999),
    "epoch": datetime(1970, 1, 1),
    "millisecond": datetime(2024, 2, 29, 1, 2, 3, 4000),
    "microsecond": datetime(2024, 2, 29, 1, 2, 3, 4),
    "in the gap of a spring": datetime(2024, 3, 31, 2, 30),
    "beyond 2038": datetime(2038, 1, 19, 3, 14, 8),
    "beyond 2262": datetime(2262, 4, 11, 23, 47, 16, 854776),
}
_INSTANTS: dict[str, Any] = {
    **{name: at.replace(tzinfo=UTC) for name, at in _NAIVE.items()},
    "zone before 1883": datetime(1850, 6, 1, 12, tzinfo=_BEFORE_1883),
    "offset with seconds": datetime(1920, 1, 1, tzinfo=_WITH_SECONDS),
    "first of two": datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    "second of two": datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
}

ODD: Mapping[str, Mapping[str, Any]] = {
    "boolean": {"true": True, "false": False},
    "tinyint": _bounds(8),
    "smallint": _bounds(16),
    "int": _bounds(32),
    "bigint": {**_bounds(64), "beyond double": 2**53 + 1},
    "float": {
        **_FLOATS,
        "greatest": 3.4028234663852886e38,
        "least": -3.4028234663852886e38,
        "smallest": 1.401298464324817e-45,
        "all digits": 16777215.0,
    },
    "double": {
        **_FLOATS,
        "greatest": sys.float_info.max,
        "least": -sys.float_info.max,
        "smallest": 5e-324,
        "all digits": 0.1 + 0.2,
        "whole": 1e15,
        "beyond integers": 2.0**53 + 2,
    },
    "decimal(38,0)": {
        "greatest": Decimal("9" * 38),
        "least": Decimal("-" + "9" * 38),
        "all digits": Decimal(_DIGITS),
        "zero": Decimal(0),
        "negative scale": Decimal("5E+3"),
    },
    "decimal(38,18)": {
        "all digits": Decimal(_DIGITS[:20] + "." + _DIGITS[20:]),
        "smallest": Decimal("1E-18"),
        "negative": Decimal("-1.5"),
        "trailing zeros": Decimal("1.500"),
        "minus zero": Decimal("-0.0"),
        "negative scale": Decimal("5E+3"),
    },
    "decimal(38,38)": {"all digits": Decimal("0." + _DIGITS), "smallest": Decimal("1E-38"), "zero": Decimal(0)},
    "decimal(20,2)": {"beyond double": Decimal("90071992547409.93"), "negative": Decimal("-0.01")},
    "string": _TEXTS,
    "binary": {"empty": b"", "nul": b"\0", "all bytes": bytes(range(256)), "not text": b"\xff\xfe\\x41"},
    "date": _DATES,
    "timestamp": _INSTANTS,
    "timestamp_ntz": _NAIVE,
    "array<string>": {"empty": [], "of null": [None], "of texts": ["", None, *[_TEXTS["braces"], 'a"\\b\n,', "NULL"]]},
    "array<double>": {"odd": [math.inf, -math.inf, 5e-324, -0.0, None]},
    "map<string,int>": {"empty": {}, "null value": {"a": None, "": 1}, "odd keys": {'a"\\b\n': 1, "👩": 2, " ": 3}},
    "struct<a:int,b:string>": {"of nulls": (None, None), "odd": (-(2**31), "\\N\t'\"")},
    "array<struct<a:map<string,array<array<bigint>>>>>": {
        "five deep": [({"k": [[1, None, 2**62], [], None]},), ({},), (None,), None],
    },
}
"""By DDL type: odd values by name. None and a text of 10 MB come besides: `NULL`, `HUGE`."""

NULL = None
HUGE = "0123456789" * 1024 * 1024
"""A text of 10 MB."""


def same(stored: Any, value: Any) -> bool:
    """Tell whether a reader of a store got the very value: signs of zero, NaN, types, and instants count."""
    if isinstance(value, float):
        return isinstance(stored, float) and (stored.hex() == value.hex() or (stored != stored and value != value))
    if isinstance(value, Decimal):
        return isinstance(stored, Decimal) and stored == value
    if isinstance(value, Mapping):
        return (
            isinstance(stored, Mapping)
            and stored.keys() == value.keys()
            and all(same(stored[key], each) for key, each in value.items())
        )
    if isinstance(value, list | tuple):
        return (
            isinstance(stored, list | tuple)
            and len(stored) == len(value)
            and all(same(one, other) for one, other in zip(stored, value, strict=True))
        )
    if isinstance(value, datetime):
        return isinstance(stored, datetime) and bool(stored == value)
    return type(stored) is type(value) and bool(stored == value)
