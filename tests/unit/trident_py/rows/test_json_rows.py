from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.canonical import canonical_json
from trident_py.rows.row import json_rows, rows_of_json
from trident_py.rows.schema import schema_of


def through_json(ddl: str, value: Any) -> Any:
    schema = schema_of(ddl)
    ((back,),) = rows_of_json(json.loads(canonical_json(json_rows([(value,)], schema))), schema)
    return back


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("x string", "größe\n"),
        ("x bigint", 2**63 - 1),
        ("x boolean", True),
        ("x double", 0.1),
        ("x double", math.inf),
        ("x decimal(10,2)", Decimal("12.50")),
        ("x date", date(2024, 2, 29)),
        ("x timestamp", datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=UTC)),
        ("x timestamp_ntz", datetime(2024, 2, 29, 12)),  # noqa: DTZ001
        ("x binary", b"\x00\xff"),
        ("x array<date>", [date(2024, 2, 29), None]),
        ("x map<int,binary>", {1: b"a", 2: None}),
        ("x struct<a: decimal(4,1), b: array<double>>", (Decimal("1.5"), [-math.inf])),
    ],
)
def test_a_value_of_every_type_comes_back(ddl: str, value: Any) -> None:
    assert through_json(ddl, value) == value
    assert through_json(ddl, None) is None


def test_nan_comes_back() -> None:
    assert math.isnan(through_json("x double", math.nan))


def test_a_struct_may_be_given_as_a_dict() -> None:
    assert through_json("x struct<a: int, b: string>", {"b": "x"}) == (None, "x")


@given(st.lists(st.tuples(st.text(), st.integers(), st.none() | st.binary(), st.floats(allow_nan=False))))
def test_rows_come_back_in_order(rows: list[tuple[Any, ...]]) -> None:
    schema = schema_of("a string, b bigint, c binary, d double")
    assert rows_of_json(json.loads(canonical_json(json_rows(rows, schema))), schema) == rows
