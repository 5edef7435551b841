from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.rows.row import row_class, rows_of
from trident_py.rows.schema import (
    append,
    arrow_array,
    arrow_schema,
    arrow_table,
    names_of,
    same_fields,
    schema_of,
    select,
    shown,
)

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def field(ddl: str) -> t.StructField:
    return schema_of(f"x {ddl}").fields[0]


# --- fields -----------------------------------------------------------------------------------------------------------


def test_a_schema_is_a_text_or_a_struct_type() -> None:
    struct = t.StructType([t.StructField("word", t.StringType())])
    assert schema_of("word string") == struct
    assert schema_of(struct) == struct


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "a schema is a DDL string such as 'word string' or a StructType, not None"),
        (("word", "string"), "not .*tuple"),
        (t.StructType(), "at least one field"),
        ("a int, b int, A string", "the field 'A' is named twice"),
        ("a struct<b: int, b: int>", "the field 'b' is named twice"),
        ("a int, _report bigint", "can't be named '_report'"),
        (t.StructType([t.StructField("", t.LongType())]), "can't be named ''"),
        (t.StructType([t.StructField("a", t.DayTimeIntervalType())]), "'a' has the type interval day to second"),
        (t.StructType([t.StructField("a", t.ArrayType(t.NullType()))]), "'a' has the type void"),
        (t.StructType([t.StructField("a", t.MapType(t.StringType(), t.VariantType()))]), "'a' has the type variant"),
    ],
)
def test_a_schema_that_rows_cannot_have_is_an_error(schema: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        schema_of(schema)


def test_fields_are_selected_in_the_order_asked_for() -> None:
    assert select(schema_of("a int, b string, c double"), ("c", "a")) == schema_of("c double, a int")


def test_a_field_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(TopologyError, match="there is no field 'd'; there are 'a', 'b'"):
        select(schema_of("a int, b string"), ("a", "d"))
    with pytest.raises(TopologyError, match="'a' is named twice"):
        select(schema_of("a int, b string"), ("a", "a"))


def test_fields_are_appended_under_new_names_only() -> None:
    assert append(schema_of("a int"), schema_of("b int")) == schema_of("a int, b int")
    with pytest.raises(TopologyError, match="there is a field 'A' already; there are 'a'"):
        append(schema_of("a int"), schema_of("A int"))


def test_field_names_are_one_or_several() -> None:
    assert names_of("word") == ("word",)
    assert names_of(["a", "b"]) == ("a", "b")
    with pytest.raises(TopologyError, match="a field name is a string, not 3"):
        names_of([3])  # type: ignore[list-item]


def test_fields_are_the_same_whatever_may_be_null() -> None:
    left = schema_of("a int NOT NULL, b array<struct<c: map<string, int>>>")
    right = t.StructType(
        [
            t.StructField("a", t.IntegerType()),
            t.StructField(
                "b",
                t.ArrayType(
                    t.StructType([t.StructField("c", t.MapType(t.StringType(), t.IntegerType(), False), False)]), False
                ),
            ),
        ]
    )
    assert same_fields(left, right)
    assert not same_fields(left, schema_of("a int, b array<struct<c: map<string, bigint>>>"))
    assert not same_fields(left, schema_of("b int, a int"))


def test_a_long_value_is_cut_for_a_message() -> None:
    assert shown("a") == "'a' (str)"
    assert len(shown("a" * 1000)) < 130


# --- Arrow ------------------------------------------------------------------------------------------------------------


def test_the_arrow_types_are_those_that_spark_takes() -> None:
    schema = schema_of(
        "a boolean, b tinyint, c smallint, d int NOT NULL, e bigint, f float, g double, h string, i binary, j date, "
        "k timestamp, l timestamp_ntz, m decimal(9, 2), n array<int>, o map<string, double>, p struct<q: int NOT NULL>"
    )
    assert arrow_schema(schema) == pa.schema(
        [
            ("a", pa.bool_()),
            ("b", pa.int8()),
            ("c", pa.int16()),
            pa.field("d", pa.int32(), nullable=False),
            ("e", pa.int64()),
            ("f", pa.float32()),
            ("g", pa.float64()),
            ("h", pa.string()),
            ("i", pa.binary()),
            ("j", pa.date32()),
            ("k", pa.timestamp("us", tz="UTC")),
            ("l", pa.timestamp("us")),
            ("m", pa.decimal128(9, 2)),
            ("n", pa.list_(pa.field("element", pa.int32()))),
            ("o", pa.map_(pa.string(), pa.float64())),
            ("p", pa.struct([pa.field("q", pa.int32(), nullable=False)])),
        ]
    )


GOOD = [
    ("boolean", [True, None, np.True_], [True, None, True]),
    ("int", [1, None, np.int64(2)], [1, None, 2]),
    ("bigint", [2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    ("double", [1.5, 1, None, np.float32(0.5)], [1.5, 1.0, None, 0.5]),
    ("decimal(5, 2)", [Decimal("1.5"), 3, None], [Decimal("1.50"), Decimal("3.00"), None]),
    ("string", ["a", "日本", None], ["a", "日本", None]),
    ("binary", [b"a", bytearray(b"b"), None], [b"a", b"b", None]),
    ("date", [date(2024, 2, 29), None], [date(2024, 2, 29), None]),
    ("timestamp", [NOON, NOON.astimezone(timezone(timedelta(hours=9))), None], [NOON, NOON, None]),
    ("timestamp", [NOON.replace(tzinfo=None)], [NOON]),
    ("timestamp_ntz", [NOON.replace(tzinfo=None), None], [NOON.replace(tzinfo=None), None]),
    ("array<int>", [[1, None], (2,), np.array([3], "int32"), None], [[1, None], [2], [3], None]),
    ("map<string, int>", [{"a": 1, "b": None}, {}, None], [{"a": 1, "b": None}, {}, None]),
    ("struct<a: int, b: string>", [(1, "x"), SparkRow(a=2, b=None), None], [(1, "x"), (2, None), None]),
    ("struct<a: int, b: string>", [{"b": "x"}, {"a": 1, "b": "y"}], [(None, "x"), (1, "y")]),
    ("array<struct<a: map<string, array<int>>>>", [[({"k": [1]},)]], [[({"k": [1]},)]]),
]


@pytest.mark.parametrize(
    ("ddl", "values", "expected"), GOOD, ids=[f"{ddl} {index}" for index, (ddl, _, _) in enumerate(GOOD)]
)
def test_python_values_come_back_from_arrow(ddl: str, values: list[Any], expected: list[Any]) -> None:
    array = arrow_array(values, field(ddl))
    batch = pa.RecordBatch.from_arrays([array], names=["x"])
    assert [row.x for row in rows_of(batch)] == expected


BAD = [
    ("boolean", 1),
    ("boolean", "true"),
    ("int", True),
    ("int", 1.0),
    ("int", "1"),
    ("int", 2**31),
    ("tinyint", 128),
    ("bigint", 2**63),
    ("double", True),
    ("double", "1.5"),
    ("double", 2**60 + 1),
    ("double", Decimal(1)),
    ("decimal(5, 2)", 1.5),
    ("decimal(5, 2)", Decimal("1.555")),
    ("decimal(5, 2)", Decimal("12345")),
    ("string", b"a"),
    ("string", 7),
    ("string", "\ud800"),
    ("binary", "a"),
    ("date", NOON),
    ("date", "2024-01-01"),
    ("date", 3),
    ("timestamp", date(2024, 1, 1)),
    ("timestamp", 0),
    ("timestamp", "2024-01-01"),
    ("array<string>", "abc"),
    ("array<int>", {1, 2}),
    ("array<int>", [1, "a"]),
    ("map<string, int>", [("a", 1)]),
    ("map<string, int>", {"a": "b"}),
    ("map<string, int>", {None: 1}),
    ("struct<a: int, b: string>", (1,)),
    ("struct<a: int, b: string>", (1, "a", 2)),
    ("struct<a: int, b: string>", {"a": 1, "c": 2}),
    ("struct<a: int, b: string>", ("a", 1)),
    ("struct<a: int NOT NULL>", {"a": None}),
    ("array<struct<a: array<string>>>", [("abc",)]),
]


@pytest.mark.parametrize(("ddl", "value"), BAD, ids=[f"{ddl} {value!a}" for ddl, value in BAD])
def test_a_value_of_another_type_is_named_with_field_and_type(ddl: str, value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        arrow_array([None, value], field(ddl))
    assert f"field 'x' is declared {field(ddl).dataType.simpleString()}, got" in str(caught.value)


def test_none_is_refused_where_the_field_is_not_null() -> None:
    with pytest.raises(TypeError, match="field 'x' is declared int NOT NULL, got None"):
        arrow_array([1, None], field("int NOT NULL"))


def test_a_value_nested_deep_is_shown_with_the_type_it_should_have() -> None:
    with pytest.raises(
        TypeError, match=r"field 'x' is declared array<struct<a:int>>, got 'b' \(str\) inside, for a int"
    ):
        arrow_array([[(1,), ("b",)]], field("array<struct<a: int>>"))


def test_structs_given_in_two_ways_at_once_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="field 'x' is declared struct<a:int>, and the values don't fit"):
        arrow_array([(1,), {"a": 1}], field("struct<a: int>"))


def test_rows_become_a_table() -> None:
    schema = schema_of("word string, count bigint")
    rows = [("a", 1), ["b", None], row_class(("word", "count"))._make(("c", 3))]
    table = arrow_table(rows, schema)
    assert table.schema == arrow_schema(schema)
    assert rows_of(table) == [("a", 1), ("b", None), ("c", 3)]
    assert arrow_table([], schema).num_rows == 0


def test_a_row_with_another_number_of_values_is_shown() -> None:
    with pytest.raises(ValueError, match=r"1 values, \('b',\) \(tuple\), for the 2 fields 'word', 'count'"):
        arrow_table([("a", 1), ("b",)], schema_of("word string, count bigint"))


@pytest.mark.parametrize("ddl", ["at timestamp", "at array<timestamp>", "at map<string, struct<a: timestamp>>"])
@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_a_moment_that_is_beyond_the_years_in_utc_is_refused_where_it_is_given(ddl: str, moment: datetime) -> None:
    value: Any = {"at timestamp": moment, "at array<timestamp>": [None, moment]}.get(ddl, {"k": (moment,)})
    with pytest.raises(TypeError, match=r"field 'at' .*: in UTC it is not in the years 1 to 9999"):
        arrow_table([(value,)], schema_of(ddl))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("decimal(10,2)", Decimal("1E-77"), "more than 38 decimal places"),
        ("decimal(10,2)", Decimal("-3.25" + "0" * 57), "more than 38 decimal places"),
        ("decimal(10,2)", Decimal("1E-99999999"), "more than 38 decimal places"),
        ("decimal(10,2)", Decimal("0E-99999999"), "more than 38 decimal places"),
        ("float", 1e39, "it is too large"),
        ("float", -1e300, "it is too large"),
        ("float", 2**200, "it is too large"),
    ],
)
def test_a_number_that_arrow_would_make_another_one_of_is_refused(kind: str, value: Any, message: str) -> None:
    """Arrow takes 1E-77 for 0, ends the process at 1E-99999999, and takes 1e39 for infinity."""
    for wrapped, ddl in ((value, kind), ([value], f"array<{kind}>"), ({"a": value}, f"map<string,{kind}>")):
        field = schema_of(f"v {ddl}")["v"]
        with pytest.raises(TypeError, match=f"field 'v' is declared .*{message}"):
            arrow_array([None, wrapped], field)


@pytest.mark.parametrize("value", ["0E-50", "1E-38", "0." + "0" * 37 + "1", "0.00"])
def test_decimals_of_up_to_38_places_and_zeros_stay(value: str) -> None:
    field = schema_of("v decimal(38,38)")["v"]
    assert arrow_array([Decimal(value)], field).to_pylist() == [Decimal(value)]
