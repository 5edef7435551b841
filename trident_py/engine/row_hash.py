"""A hash of rows that are in memory, by their values: no version of Python or of a library changes it.

Of ``repr`` none may be made: a text shows other characters escaped where Unicode has new ones, and an instant the class
of its time zone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from coordinators.fingerprint import Fingerprint
from trident_py.rows.row import column_values

KIND = "values"
"""What `hash_rows` is known by, where hashes are compared. It has to change with the hash."""

_MICROSECOND = timedelta(microseconds=1)


def hash_rows(table: pa.Table) -> Fingerprint:
    """That of the rows of ``table``."""
    texts = map(_dumps, zip(*map(_column, table.columns), strict=True))
    hashes = (int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) for text in texts)
    return Fingerprint(table.num_rows, sum(hashes), KIND)


def _column(column: pa.ChunkedArray) -> Iterable[Any]:
    values = column_values(column)
    return map(_listed, values) if pa.types.is_nested(column.type) else values


def _listed(value: Any) -> Any:
    """Lists for arrays, structs and maps: a map's keys are of any type, JSON's are texts."""
    if isinstance(value, dict):
        return [[_listed(key), _listed(item)] for key, item in value.items()]
    return list(map(_listed, value)) if isinstance(value, list | tuple) else value


def _as_json(value: Any) -> str | int:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case timedelta():
            return value // _MICROSECOND
    raise TypeError(f"a row cannot hold {value!r}")


_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_as_json).encode
