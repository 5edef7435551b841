"""What the hash of rows in memory depends on: their values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from coordinators.values.canonical import Fingerprint
from trident_py.rows.row import CHUNK_ROWS, hash_rows, hash_tables
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
    assert hash_rows(arrow_table([row], schema)) == Fingerprint(1, 13243147551061280298, "rows")


@pytest.mark.parametrize("kind", VALUES)
def test_the_hash_is_the_same_however_rows_are_cut_into_arrow_data(kind: str) -> None:
    values = [*VALUES[kind], None] * 700
    schema = schema_of(f"n {kind}, id int")
    table = arrow_table([(value, number % 3) for number, value in enumerate(values)], schema)
    whole = hash_rows(table)
    for size in (1, 1000, CHUNK_ROWS + 1):
        cut = [table.slice(first, size) for first in range(0, table.num_rows, size)]
        assert hash_rows(pa.concat_tables(cut)) == whole
        assert sum((hash_rows(batch) for each in cut for batch in each.to_batches()), Fingerprint(0, 0)) == whole


@pytest.mark.parametrize("kind", VALUES)
def test_tables_that_are_hashed_together_have_the_hashes_that_each_has_alone(kind: str) -> None:
    rows = arrow_table([(value, 7) for value in [*VALUES[kind], None]], schema_of(f"n {kind}, id int"))
    parts = [rows.slice(0, 1), rows.slice(0, 0), rows, rows.slice(1), rows.slice(0, 0)]
    assert hash_tables(parts) == [hash_rows(each) for each in parts]
    many = [rows.slice(number % 3, number % 2 + 1) for number in range(CHUNK_ROWS)]
    assert hash_tables([*many, rows]) == [hash_rows(each) for each in [*many, rows]]
    assert hash_tables([rows.slice(0, 0)]) == [hash_rows(rows.slice(0, 0))]


def test_what_a_null_hides_is_not_hashed() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([1, 2]).buffers()[1]])
    assert hash_rows(pa.table({"n": hidden})) == hash_rows(pa.table({"n": [1, None]}))


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1, 2**18])
def test_one_byte_anywhere_in_a_long_value_makes_another_hash(size: int) -> None:
    values = [b"a" * size, b"a" * (size - 1) + b"b", b"b" + b"a" * (size - 1), b"a" * (size - 1), b"a" * (size + 1)]
    assert len({hashed("binary", [value]).sum for value in values}) == len(values)
    assert hashed("binary", [b"", *values, b"x"]) == hashed("binary", values[::-1]) + hashed("binary", [b"x", b""])


def test_values_of_different_fields_are_not_confused() -> None:
    schema = schema_of("a string, b string, c array<double>")
    rows = [("x", "y", []), ("y", "x", []), ("xy", "", []), ("", "", [1.0, 2.0]), ("", "", [2.0, 1.0])]
    assert len({hash_rows(arrow_table([row], schema)).sum for row in rows}) == len(rows)


@pytest.mark.parametrize("zone", [ZoneInfo("Europe/Vienna"), timezone(timedelta(hours=3))])
def test_an_instant_has_one_hash_in_any_time_zone(zone: Any) -> None:
    assert hashed("timestamp", [AT.astimezone(zone)]) == hashed("timestamp", [AT])


def test_no_rows_and_rows_without_fields_have_a_hash() -> None:
    assert hash_rows(arrow_schema(schema_of("n int")).empty_table()) == Fingerprint(0, 0, "rows")
    assert hash_rows(pa.table({})).rows == 0
