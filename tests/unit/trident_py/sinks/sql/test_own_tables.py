"""`SQLSink` into a table of the user's: the same end for small and large batches, and no value changes in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pymysql
import pytest

from tests.task_links import _no_links_left as _no_links_left
from tests.unit.trident_py.sinks.sql.test_writer import Written
from tests.unit.trident_py.sinks.sql.test_writer import by_tasks as by_tasks
from tests.unit.trident_py.states.sql.everywhere import select
from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.unit.trident_py.states.sql.test_sqlite import transaction
from trident_py.errors import SinkError, StateError

Case = tuple[str, str, Any, Any]

_UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
_AT = datetime(2026, 1, 2, 23, 30, 5, 678901, UTC)
_LATE = datetime(2026, 1, 2, 23, 30, 5, tzinfo=UTC)

TAKEN: dict[str, list[Case]] = {
    "postgres": [
        ("uuid", "string", _UUID, _UUID),
        ("mood", "string", "sad", "sad"),
        ("jsonb", "string", '{"a": 1}', '{"a": 1}'),
        ("json", "string", '{"a":  1}', '{"a":  1}'),
        ("inet", "string", "10.0.0.1", "10.0.0.1/32"),
        ("date", "string", "2026-01-02", "2026-01-02"),
        ("timestamptz", "string", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05+00"),
        ("int[]", "string", "{1,2}", "{1,2}"),
        ("int", "string", "17", "17"),
        ("int", "bigint", 17, "17"),
        ("bigint", "decimal(20,0)", Decimal(17), "17"),
        ("text", "int", 17, "17"),
        ("numeric", "decimal(10,3)", Decimal("12.345"), "12.345"),
        ("numeric(8,4)", "decimal(10,3)", Decimal("12.345"), "12.3450"),
        ("numeric(4,1)", "decimal(10,1)", Decimal("999.9"), "999.9"),
        ("real", "float", 0.1, "0.1"),
        ("double precision", "int", 17, "17"),
        ("timestamp", "timestamp", _AT, "2026-01-02 23:30:05.678901"),
        ("timestamp", "date", date(2026, 1, 2), "2026-01-02 00:00:00"),
        ("varchar(3)", "string", "äöü", "äöü"),
        ("positive", "int", 3, "3"),
        ("json", "struct<a:int>", (1,), '{"a":1}'),
        ("text", "array<int>", [1, 2], "[1,2]"),
    ],
    "mysql": [
        ("uuid", "string", _UUID, _UUID),
        ("enum('sad','it''s')", "string", "it's", "it's"),
        ("json", "string", '{"a": 1}', '{"a": 1}'),
        ("date", "string", "2026-01-02", "2026-01-02"),
        ("datetime", "string", "2026-01-02 03:04:05", "2026-01-02 03:04:05"),
        ("inet6", "string", "::1", "::1"),
        ("int", "bigint", 17, "17"),
        ("int unsigned", "bigint", 2**32 - 1, "4294967295"),
        ("varchar(9)", "int", 17, "17"),
        ("decimal(8,4)", "decimal(10,3)", Decimal("12.345"), "12.3450"),
        ("tinyint", "boolean", True, "1"),
        ("datetime(6)", "timestamp", _AT, "2026-01-02 23:30:05.678901"),
        ("timestamp(6)", "timestamp", _AT, "2026-01-02 23:30:05.678901"),
        ("datetime", "date", date(2026, 1, 2), "2026-01-02 00:00:00"),
        ("varchar(3) CHARACTER SET latin1", "string", "äöü", "äöü"),
        ("double", "int", 17, "17"),
        ("text", "array<int>", [1, 2], "[1,2]"),
        ("varbinary(2)", "binary", b"ab", "ab"),
    ],
    "sqlite": [
        ("UUID", "string", _UUID, _UUID),
        ("DATETIME", "timestamp", _LATE, "2026-01-02T23:30:05.000000Z"),
        ("TEXT", "int", 17, "17"),
        ("REAL", "int", 17, "17.0"),
        ("NUMERIC", "bigint", 2**62, str(2**62)),
        ("", "decimal(38,2)", Decimal("1.50"), "1.50"),
        ("VARCHAR(2)", "string", "007", "007"),
    ],
}

NARROWING: dict[str, list[tuple[str, str, str]]] = {
    "postgres": [
        ("int", "double", "map(lambda row: (int(round(row.v)),), 'v bigint')"),
        ("bigint", "decimal(10,3)", "map(lambda row: (int(round(row.v)),), 'v bigint')"),
        ("numeric(6,1)", "decimal(10,3)", "map(lambda row: (round(Decimal(row.v), 1),), 'v decimal(6,1)')"),
        ("numeric", "double", "decimal(38,18)"),
        ("real", "double", "map(lambda row: (float(row.v),), 'v float')"),
        ("double precision", "bigint", "map(lambda row: (float(row.v),), 'v double')"),
        ("date", "timestamp", "map(lambda row: (row.v.date(),), 'v date')"),
        ("timestamptz(0)", "timestamp", "six digits of a second"),
        ("timestamptz", "timestamp_ntz", "declare the field with the column's type"),
        ("numeric(6,1)", "string", "declare the field"),
        ("name", "string", "declare the field"),
        ("money", "string", "declare the field"),
        ('"char"', "string", "declare the field"),
        ("bytea", "string", "declare the field"),
        ("int[]", "array<int>", "declare the field"),
        ("boolean", "int", "declare the field"),
        ("small_positive", "string", "declare the field"),
        ("text", "double", "map(lambda row: (str(row.v),), 'v string')"),
        ("int GENERATED ALWAYS AS IDENTITY", "int", "leave the field out"),
    ],
    "mysql": [
        ("int", "double", "bigint"),
        ("decimal(5,1)", "decimal(10,3)", "decimal(5,1)"),
        ("float", "double", "'v float'"),
        ("datetime", "timestamp", "six digits of a second"),
        ("date", "timestamp", "'v date'"),
        ("double", "bigint", "'v double'"),
        ("int", "string", "declare the field"),
        ("blob", "string", "declare the field"),
        ("set('a','b')", "string", "declare the field"),
        ("bit(1)", "boolean", "declare the field"),
        ("year", "int", "declare the field"),
    ],
    "sqlite": [
        ("INTEGER", "string", "affinity TEXT"),
        ("INTEGER", "double", "affinity REAL"),
        ("DECIMAL(10,2)", "decimal(10,2)", "affinity TEXT"),
        ("REAL", "bigint", "affinity INTEGER"),
        ("REAL", "string", "affinity TEXT"),
        ("TEXT", "double", "affinity REAL"),
        ("TEXT", "boolean", "affinity INTEGER"),
    ],
}

BY_VALUE: dict[str, list[tuple[str, str, Any, str]]] = {
    "postgres": [
        ("smallint", "int", 70000, "smallint holds -32768 to 32767"),
        ("numeric(4,1)", "decimal(10,1)", Decimal("1000.0"), r"numeric\(4,1\) holds -999 to 999"),
        ("varchar(3)", "string", "abcd", r"character varying\(3\) holds 3 characters"),
        ("varchar(3)", "string", "abc   ", r"character varying\(3\) holds 3 characters"),
        ("char(3)", "string", "a ", r"character\(3\) doesn't keep blanks"),
        ("date", "string", "2026-01-02 03:04", "is written as '2026-01-02'|is written as '2024-02-29'"),
        ("int NOT NULL", "int", None, "integer does not hold NULL"),
    ],
    "mysql": [
        ("tinyint unsigned", "int", -1, "tinyint.* unsigned holds 0 to 255"),
        ("decimal(4,1)", "decimal(10,1)", Decimal("1000.0"), r"decimal\(4,1\) holds -999 to 999"),
        ("varchar(3)", "string", "abc   ", r"varchar\(3\).* holds 3 characters"),
        ("char(3)", "string", "a ", r"char\(3\).* doesn't keep blanks"),
        ("tinytext", "string", "ä" * 200, "tinytext.* holds 255 bytes"),
        ("enum('a','b')", "string", "1", r"enum\('a','b'\).* holds one of 'a', 'b'"),
        ("enum('a','b')", "string", "A", "holds one of 'a', 'b'"),
        ("date", "string", "10:11:12", "is written as"),
        ("binary(3)", "binary", b"ab", r"binary\(3\) holds 3 bytes, and fills them up"),
        ("varbinary(1)", "binary", b"ab", r"varbinary\(1\) holds 1 bytes"),
        ("int AUTO_INCREMENT PRIMARY KEY", "int", None, "does not hold NULL"),
        ("timestamp(6) NOT NULL", "timestamp", None, "does not hold NULL"),
        ("double", "double", float("nan"), "cannot hold nan"),
    ],
    "sqlite": [
        ("JSON", "string", "1.50", "SQLite would store it as a number in JSON"),
        ("DATE", "string", "20260102", "SQLite would store it as a number in DATE"),
        ("INTEGER PRIMARY KEY", "int", None, "does not hold NULL"),
        ("REAL", "double", -0.0, "REAL would store it as 0.0"),
    ],
}


def of(cases: dict[str, list[Any]]) -> Any:
    """Every case, each with the database that it is of, for the fixture `url`."""
    marks = {"postgres": [pytest.mark.postgres], "mysql": [pytest.mark.mysql], "sqlite": []}
    return [pytest.param(kind, *case, marks=marks[kind]) for kind, some in cases.items() for case in some]


def made(url: str, column: str) -> None:
    """The user makes the table."""
    quote = "`" if url.startswith("mysql") else '"'
    if url.startswith("postgresql"):
        select(url, "CREATE TYPE mood AS ENUM ('happy', 'sad')")
        select(url, "CREATE DOMAIN positive AS smallint CHECK (VALUE > 0)")
        select(url, "CREATE DOMAIN small_positive AS positive CHECK (VALUE < 9)")
    with suppress(psycopg.Error, pymysql.Error):
        select(url, f"CREATE TABLE words (id int, {quote}v{quote} {column})")


def stored(url: str) -> Any:
    cast = {"postgresql": "v::text", "mysql": "CAST(v AS char)"}.get(url.partition(":")[0], "CAST(v AS TEXT)")
    return select(url, f"SELECT id, {cast} FROM words")  # noqa: S608 - one of three


@pytest.fixture
def to_write(url: str, by_tasks: bool, request: pytest.FixtureRequest) -> Iterator[Any]:
    opened: list[Written] = []

    def write(field: str) -> Written:
        opened.append(Written(url, fields=f"id int, v {field}", by_tasks=by_tasks))
        opened[-1].recover()
        return opened[-1]

    yield write
    for each in opened:
        each.writer.close()


@pytest.mark.parametrize(("url", "column", "field", "value", "text"), of(TAKEN), indirect=["url"])
def test_the_same_and_wider_and_texts_of_values_are_taken_by_small_and_large_batches(
    url: str, to_write: Any, column: str, field: str, value: Any, text: str
) -> None:
    made(url, column)
    written = to_write(field)
    written.write(transaction(1), [(1, value)])
    written.write(transaction(2), [(2, None)])
    assert stored(url) == [(1, text), (2, None)]


@pytest.mark.parametrize(("url", "column", "field", "way"), of(NARROWING), indirect=["url"])
def test_what_a_column_would_round_or_cut_is_refused_before_anything_is_written(
    url: str, to_write: Any, column: str, field: str, way: str
) -> None:
    made(url, column)
    with pytest.raises(SinkError, match=re.escape(way)) as refused:
        to_write(field).prepare(transaction(1), [])
    assert re.search(
        r"topology 'wordcount': table 'words' of .*: field 'v' is .*, and column 'v' of", str(refused.value)
    )
    assert stored(url) == []


@pytest.mark.parametrize(("url", "column", "field", "value", "reason"), of(BY_VALUE), indirect=["url"])
def test_a_value_that_a_column_does_not_hold_is_named_with_its_row_and_nothing_is_written(
    url: str, to_write: Any, column: str, field: str, value: Any, reason: str
) -> None:
    made(url, column)
    written = to_write(field)
    with pytest.raises((SinkError, StateError), match=f"(?s){reason}") as refused:
        written.write(transaction(1), [(1, value)])
    told = str(refused.value)
    assert "attempt 1:0: table 'words' of" in told
    assert "field 'v' is" in told
    assert "in the row (id=1, v=" in told
    assert "to fix this: " in told
    assert stored(url) == []


@pytest.mark.parametrize("url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_column_that_differs_in_case_only_is_another_one_in_postgresql(url: str, to_write: Any) -> None:
    select(url, 'CREATE TABLE words (id int, "V" int)')
    with pytest.raises(SinkError, match="it has no column for the field 'v', its columns are id, V; to fix this"):
        to_write("int").prepare(transaction(1), [])


@pytest.mark.parametrize("url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_trigger_of_the_table_finds_its_own_tables_by_the_search_path(url: str, to_write: Any) -> None:
    """With a path of ours, as it was, "audit" was looked for in pg_catalog."""
    select(url, "CREATE TABLE words (id int, v int)")
    select(url, "CREATE TABLE audit (id int)")
    select(
        url,
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO audit VALUES (NEW.id); RETURN NEW; END $$",
    )
    select(url, "CREATE TRIGGER noted BEFORE INSERT ON words FOR EACH ROW EXECUTE FUNCTION noted()")
    to_write("int").write(transaction(1), [(1, 2)])
    assert select(url, "SELECT id FROM audit") == [(1,)]
