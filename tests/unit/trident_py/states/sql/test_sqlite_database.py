from __future__ import annotations

import math
import sqlite3
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from trident_py.errors import StateError
from trident_py.rows.schema import schema_of
from trident_py.states.sql.columns import TypedColumn
from trident_py.states.sql.sqlite_database import SQLITE, check_name
from trident_py.states.sql.table import Table, declarations


def column(ddl: str) -> TypedColumn:
    return SQLITE.column_of(schema_of(ddl).fields[0])


def through_sqlite(of: TypedColumn, value: Any) -> tuple[Any, Any]:
    """What a table with this column shows for ``value``, and what comes back of it."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE held ({declarations(SQLITE, [of])})")
        connection.execute("INSERT INTO held VALUES (?)", tuple(of.stored([value])))
        (shown,) = connection.execute("SELECT * FROM held").fetchone()
        return shown, of.loaded(shown)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("ddl", "value", "shown"),
    [
        ("x string", "0017", "0017"),
        ("x tinyint", -128, -128),
        ("x smallint", 5, 5),
        ("x int", 5, 5),
        ("x bigint", 2**63 - 1, 2**63 - 1),
        ("x boolean", True, 1),
        ("x float", 0.5, 0.5),
        ("x double", 3, 3.0),
        ("x double", -math.inf, -math.inf),
        ("x decimal(10,2)", Decimal("12.5"), "12.50"),
        ("x decimal(38,0)", 10**37, "1" + "0" * 37),
        ("x date", date(31, 2, 28), "0031-02-28"),
        ("x timestamp", datetime(2024, 2, 29, 12, tzinfo=UTC), "2024-02-29T12:00:00.000000Z"),
        ("x timestamp_ntz", datetime(2024, 2, 29, 12, 0, 0, 7), "2024-02-29T12:00:00.000007"),  # noqa: DTZ001
        ("x binary", b"\x00\xff", b"\x00\xff"),
    ],
)
def test_a_value_reads_sensibly_and_comes_back(ddl: str, value: Any, shown: Any) -> None:
    assert through_sqlite(column(ddl), value) == (shown, value)
    assert through_sqlite(column(ddl), None) == (None, None)


def test_nan_is_kept_though_sqlite_has_none() -> None:
    shown, back = through_sqlite(column("x double"), math.nan)
    assert shown == "NaN"
    assert math.isnan(back)


def test_timestamps_are_kept_in_utc_and_without_a_time_zone_they_are_utc() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    east = noon.astimezone(timezone(timedelta(hours=5)))
    for same in (noon, east, noon.replace(tzinfo=None)):
        assert through_sqlite(column("x timestamp"), same) == ("2024-01-01T12:00:00.000000Z", noon)


@given(st.lists(st.datetimes(timezones=st.just(UTC)), min_size=2, max_size=2))
def test_the_text_of_timestamps_sorts_as_they_do(pair: list[datetime]) -> None:
    texts = list(column("x timestamp").stored(pair))
    assert (texts[0] < texts[1]) == (pair[0] < pair[1])


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_keep_every_digit(unscaled: int, scale: int) -> None:
    value = Decimal(unscaled).scaleb(-scale) if abs(unscaled) < 10**28 else Decimal(f"{unscaled}E-{scale}")
    assert through_sqlite(SQLITE.column_of(t.StructField("x", t.DecimalType(38, scale))), value)[1] == value


@pytest.mark.parametrize(
    ("ddl", "value"), [("x bigint", 1.5), ("x bigint", "one"), ("x bigint", 2.0**63), ("x string", b"a")]
)
def test_sqlite_itself_refuses_what_is_of_another_type(ddl: str, value: Any) -> None:
    """As where SQL adds up what is beyond 64 bits."""
    with pytest.raises(sqlite3.IntegrityError):
        through_sqlite(evolve(column(ddl), to_sql=lambda anything: anything), value)


def test_a_type_that_sqlite_cannot_hold_is_refused_by_field() -> None:
    with pytest.raises(StateError, match=r"field 'x' is void, which a column in SQLite cannot hold"):
        SQLITE.column_of(t.StructField("x", t.NullType()))


def test_a_collation_that_sqlite_does_not_know_is_refused() -> None:
    with pytest.raises(StateError, match="field 'x': SQLite cannot compare by the collation"):
        SQLITE.column_of(t.StructField("x", t.StringType("UTF8_LCASE")))


@pytest.mark.parametrize("name", ["", "_x", "1x", "a b", 'a"b', "größe", "x" * 64, "sqlite_x", "SQLite_x", "x\n"])
def test_a_name_that_could_do_harm_is_refused(name: str) -> None:
    with pytest.raises(StateError, match="cannot be a name in SQLite"):
        check_name(name, "field")


def test_names_that_sql_reserves_do() -> None:
    table = Table.of(SQLITE, "table", schema_of("`select` string, `group` int"), schema_of("`order` bigint").fields[0])
    connection = sqlite3.connect(":memory:")
    connection.execute(table.create)
    for merge in (None, "sum", "min", "max"):
        connection.execute(table.upsert(merge), ("a", 1, 5, '["a",1]', 1, 1))
    assert connection.execute(table.read, ('["[\\"a\\",1]"]',)).fetchall() == [('["a",1]', 5)]
    for statement, times in table.undo:
        connection.execute(statement, (1,) * times)
    assert connection.execute('SELECT * FROM "table"').fetchall() == []
    connection.close()


def test_fields_whose_names_differ_in_case_only_are_refused() -> None:
    with pytest.raises(StateError, match="field 'Word' appears twice"):
        Table.of(SQLITE, "counts", schema_of("Word string"), schema_of("word bigint").fields[0])
