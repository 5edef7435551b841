"""What the hash of rows in memory depends on: their values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from coordinators.fingerprint import Fingerprint
from trident_py.engine.row_hash import hash_rows
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of

AT = datetime(2026, 7, 1, 12, 30, 15, 123456, UTC)
VALUES: dict[str, Sequence[Any]] = {
    "boolean": [True, False],
    "bigint": [2**62, 0, -1],
    "double": [0.1, float("inf"), float("nan"), -0.0, 0.0],
    "decimal(38,10)": [Decimal("1.5"), Decimal(0)],
    "string": ["wörd", "", "\x00\u0870", "1"],
    "binary": [b"\x00\n\xff", b""],
    "date": [date(1582, 10, 4)],
    "timestamp": [AT, AT + timedelta(microseconds=1)],
    "timestamp_ntz": [datetime(1969, 7, 20, 20, 17, 40)],  # noqa: DTZ001
    "array<int>": [[1, None], [], [None, 1]],
    "map<int, string>": [{1: "b", 2: None}, {1: None, 2: "b"}, {}],
    "map<date, array<binary>>": [{date(2026, 1, 1): [b"a"]}],
    "struct<a: int, b: array<timestamp>>": [(1, [AT]), (None, None)],
}


def hashed(kind: str, values: Sequence[Any]) -> Fingerprint:
    schema = schema_of(f"n {kind}, id int")
    return hash_rows(arrow_table([(value, 7) for value in values], schema))


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_of_every_type_has_a_hash_of_its_own_in_any_order(kind: str) -> None:
    values = [*VALUES[kind], None]
    assert len({hashed(kind, [value]).sum for value in values}) == len(values)
    whole = hashed(kind, values)
    assert whole == hashed(kind, values[::-1])
    assert whole.rows == len(values)
    assert whole.agrees(sum((hashed(kind, [value]) for value in values), Fingerprint(0, 0)))


def test_the_hash_is_the_same_in_each_version_of_python_and_of_libraries() -> None:
    """Written down as it is: it stands in records."""
    schema = schema_of(", ".join(f"f{number} {kind}" for number, kind in enumerate(VALUES)))
    row = tuple(values[0] for values in VALUES.values())
    assert hash_rows(arrow_table([row], schema)) == Fingerprint(1, 17389171748318617077, "values")


@pytest.mark.parametrize("zone", [ZoneInfo("Europe/Vienna"), timezone(timedelta(hours=3))])
def test_an_instant_has_one_hash_in_any_time_zone(zone: Any) -> None:
    assert hashed("timestamp", [AT.astimezone(zone)]) == hashed("timestamp", [AT])


def test_no_rows_and_rows_without_fields_have_a_hash() -> None:
    assert hash_rows(arrow_schema(schema_of("n int")).empty_table()) == Fingerprint(0, 0, "values")
    assert hash_rows(pa.table({})).rows == 0
