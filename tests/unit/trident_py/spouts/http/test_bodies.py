"""Bodies become rows of the declared fields, or are refused with line and field."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trident_py.errors import TopologyError
from trident_py.rows.schema import schema_of
from trident_py.spouts.http.bodies import ARROW_TYPE, BadBodyError, BodyReader

SCHEMA = "user string not null, amount decimal(6,2), at timestamp, tags array<string>, n int"
JSON = "application/x-ndjson"


@pytest.fixture
def reader() -> BodyReader:
    return BodyReader(schema_of(SCHEMA))


def rows(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8", "Application/JSON"])
def test_lines_of_json_are_rows_and_missing_fields_are_null(kind: str, reader: BodyReader) -> None:
    body = (
        b'{"user": "a", "amount": 1.5, "at": "2026-11-28T12:00:00Z", "tags": ["x", null], "n": 3}\n\n{"user": "b"}\r\n'
    )
    first, second = rows(reader.read(kind, body))
    at = datetime(2026, 11, 28, 12, tzinfo=UTC)
    assert first == {"user": "a", "amount": Decimal("1.50"), "at": at, "tags": ["x", None], "n": 3}
    assert second == {"user": "b", "amount": None, "at": None, "tags": None, "n": None}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", r"line 2 is not JSON"),
        (b"[" * 100_000, r"line 2 is not JSON"),
        (b"\xff", r"line 2 is not JSON"),
        (b"[1]", r"line 2 is no JSON object: \[1\]"),
        (b"{}", r"line 2: field 'user' is declared string NOT NULL, got None"),
        (b'{"user": 1}', r"line 2: field 'user' is declared string NOT NULL, got 1 \(int\)"),
        (b'{"user": "b", "amont": 1}', r"line 2: there is no field 'amont'; there are 'user', 'amount'"),
        (b'{"user": "b", "amount": 1.234}', r"line 2, field 'amount': .*more digits than a decimal\(6,2\)"),
        (b'{"user": "b", "at": "noon"}', r"line 2, field 'at': "),
        (b'{"user": "b", "tags": "x"}', r"line 2, field 'tags': "),
        (b'{"user": "b", "n": 2147483648}', r"line 2: field 'n' is declared int, got 2147483648"),
        (b'{"user": "\\ud800"}', r"line 2: field 'user'"),
    ],
)
def test_a_bad_line_is_named_with_its_field(line: bytes, why: str, reader: BodyReader) -> None:
    with pytest.raises(BadBodyError, match=why):
        reader.read(JSON, b'{"user": "a"}\n' + line)


def test_an_arrow_stream_is_rows_in_the_order_of_the_declared_fields() -> None:
    reader = BodyReader(schema_of("user string, day date, n bigint"))
    table = pa.table({"n": pa.array([1, 2], pa.int32()), "day": [date(2026, 1, 2), None], "user": ["a", "b"]})
    found = reader.read(ARROW_TYPE, arrow(table))
    assert found.schema.types == [pa.string(), pa.date32(), pa.int64()]
    assert rows(found)[0] == {"user": "a", "day": date(2026, 1, 2), "n": 1}


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"user": ["a"]}, r"the body has the fields \['user'\]; the declared ones are 'user', 'n', 'at'"),
        ({"user": ["a"], "n": ["x"], "at": [None]}, r"field 'n' is string, not int32"),
        ({"user": ["a"], "n": [2**31], "at": [None]}, r"field 'n' is int64, not int32"),
        ({"user": [None], "n": [1], "at": [None]}, r"field 'user' is NOT NULL, and has 1 nulls"),
        (
            {"user": ["a"], "n": [1], "at": pa.array([2**62], pa.timestamp("us"))},
            r"field 'at' has a time that is not in the years 1 to 9999",
        ),
    ],
)
def test_arrow_data_of_other_fields_are_refused_by_name(columns: dict[str, Any], why: str) -> None:
    reader = BodyReader(schema_of("user string not null, n int, at timestamp_ntz"))
    with pytest.raises(BadBodyError, match=why):
        reader.read(ARROW_TYPE, arrow(pa.table(columns)))


def test_what_is_no_arrow_stream_or_has_no_row_is_refused(reader: BodyReader) -> None:
    whole = arrow(pa.table({"user": ["a" * 100]}))
    for body in (b"", b"x", whole[: len(whole) // 2]):
        with pytest.raises(BadBodyError, match="not an Arrow stream"):
            reader.read(ARROW_TYPE, body)
    for body in (b"", b"\n \n"):
        with pytest.raises(BadBodyError, match="the body has no row"):
            reader.read(JSON, body)


def test_another_content_type_is_refused(reader: BodyReader) -> None:
    with pytest.raises(LookupError, match="not 'text/csv'"):
        reader.read("text/csv", b"")


def test_a_type_that_json_has_not_is_refused_at_the_declaration() -> None:
    with pytest.raises(TopologyError, match="'raw' is binary"):
        BodyReader(schema_of("raw binary"))
