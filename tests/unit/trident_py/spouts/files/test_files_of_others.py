"""Files that other tools wrote: Python's csv, DuckDB, pandas, fastavro, pyarrow; each is read rightly, or refused."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import emitted, halves
from tests.unit.trident_py.spouts.files.world import World
from trident_py import FileSpout, SpoutError, TopologyError
from trident_py.rows.schema import schema_of
from trident_py.spouts.files.whole import WholeFileCoordinator

HEADER = {"header": True}
LINES = {"multiLine": True, **HEADER}
PYARROW = Path(pa.__file__).parent / "tests" / "data"


def read(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    """The rows of a file, without its path and their positions."""
    spout = FileSpout(path, **options, settled=timedelta(0))
    coordinator, emitter = halves(spout)
    if isinstance(coordinator, WholeFileCoordinator):
        metadata = coordinator.initialize_transaction(1, None, None) if coordinator.is_ready(1) else []
        found: list[Any] = emitted(emitter, TransactionAttempt(1, 0), metadata)
    else:
        found = [row for batch in World(path, **options).all() for row in batch]
    return [row[:-2] for row in found]


def same(path: Path, expected: Sequence[Any] | str, **options: Any) -> None:
    """Compare the rows of a file with these; or expect this error, which names the file."""
    if isinstance(expected, str):
        with pytest.raises((SpoutError, TopologyError), match=expected) as raised:
            read(path, **options)
        assert path.name in str(raised.value)
        assert type(raised.value) is not SpoutError or re.search(r"byte|part|line|field", str(raised.value))
    else:
        assert read(path, **options) == expected


# --- CSV of Python ----------------------------------------------------------------------------------------------------

TYPES = "id int, text string, n double"
ROWS = [("1", 'say "hi"', "1.5"), ("2", "a,b;c\td", ""), ("3", "", "-2"), ("4", " größe € ", "1e3")]
READ = [(1, 'say "hi"', 1.5), (2, "a,b;c\td", None), (3, None, -2.0), (4, " größe € ", 1000.0)]
FULL = [READ[0], READ[1], (3, "", -2.0), READ[3]]  # where each value is quoted, so is the empty text
BROKEN = [*ROWS, ("5", "two\nlines", "0")]

DIALECTS: Mapping[str, tuple[Sequence[Sequence[Any]], Mapping[str, Any], Mapping[str, Any], Any]] = {
    "minimal": (ROWS, {}, HEADER, READ),
    "all quoted": (ROWS, {"quoting": csv.QUOTE_ALL}, HEADER, FULL),
    "unix": (ROWS, {"dialect": "unix"}, HEADER, FULL),
    "numbers not quoted": (
        [(1, "x", 2.5), (2, "", None)],
        {"quoting": csv.QUOTE_NONNUMERIC},
        HEADER,
        [(1, "x", 2.5), (2, "", None)],
    ),
    "semicolons": (ROWS, {"delimiter": ";", "lineterminator": "\n"}, {"sep": ";", **HEADER}, READ),
    "tabs": (BROKEN, {"dialect": "excel-tab"}, {"sep": "\t", **LINES}, [*READ, (5, "two\nlines", 0.0)]),
    "other quotes": (
        [("1", "it's", "2")],
        {"quotechar": "'", "quoting": csv.QUOTE_ALL},
        {"quote": "'", **HEADER},
        [(1, "it's", 2.0)],
    ),
    "mark": (BROKEN, {"encoding": "utf-8-sig"}, LINES, [*READ, (5, "two\nlines", 0.0)]),
    "line ends in values": (BROKEN, {}, HEADER, "the line at byte 73: it is not csv"),
    "escapes": (ROWS, {"quoting": csv.QUOTE_NONE, "escapechar": "\\"}, HEADER, "the line at byte 29: .*Expected 3"),
    "escapes in quotes": (
        [("1", 'a,"b"', "2")],
        {"doublequote": False, "escapechar": "\\"},
        HEADER,
        "the line at byte 11: .*',' expected after '\"'",
    ),
    "carriage returns": (ROWS, {"lineterminator": "\r"}, HEADER, "byte 0: the header can't be read: new-line"),
    "carriage return in a value": ([("1", "a\rb", "2")], {}, HEADER, [(1, "a\rb", 2.0)]),
    "NUL and other line ends": ([("1", "a\0\u2028\x85\x0b", "2")], {}, HEADER, [(1, "a\0\u2028\x85\x0b", 2.0)]),
    "too short": ([("1", "x", "2"), ("2", "y")], {}, HEADER, "the line at byte 18: .*Expected 3 columns, got 2"),
    "too long": ([("1", "x", "2", "3")], {}, HEADER, "the line at byte 11: .*Expected 3 columns, got 4"),
    "latin-1": ([("1", "größe", "2")], {"encoding": "latin-1"}, HEADER, "the line at byte 11: .*invalid UTF8"),
    "utf-16": (ROWS, {"encoding": "utf-16"}, HEADER, "byte 0: the header can't be read: 'utf-8' codec"),
    "utf-16 as a whole": (ROWS, {"encoding": "utf-16"}, LINES, "can't be read as csv: new-line"),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_csv_of_each_dialect_of_python_is_read_or_refused(tmp_path: Path, name: str) -> None:
    rows, given, options, expected = DIALECTS[name]
    written = dict(given)
    with (tmp_path / "a.csv").open("w", newline="", encoding=written.pop("encoding", "utf-8")) as file:
        csv.writer(file, **written).writerows([("id", "text", "n"), *rows])
    same(tmp_path / "a.csv", expected, format="csv", schema=TYPES, options=options)


@pytest.mark.parametrize(
    ("data", "schema", "expected"),
    [
        (b'a\n"x\ny"\n', "a string", "the line at byte 2: .*unexpected end of data"),
        (b'a\n"1"\n""\n\n"2"\n', "a int", [(1,), (None,), (2,)]),
        (b"id,id\n1,2\n", None, "it has the field 'id' 2 times"),
        (b"a,b\r\n1,", "a int, b string", [(1, None)]),
        (b'a\n""\n2024-02-29 12:00\n', "a timestamp", [(None,), (datetime(2024, 2, 29, 12, tzinfo=UTC),)]),
        (b"1,2\r3,4\r", "a int, b int", "the header can't be read"),
    ],
)
def test_csv_at_the_limits_is_read_or_refused(tmp_path: Path, data: bytes, schema: str | None, expected: Any) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    same(tmp_path / "a.csv", expected, format="csv", schema=schema, options=HEADER)


# --- DuckDB -----------------------------------------------------------------------------------------------------------

NOON = datetime(2024, 2, 29, 12)  # noqa: DTZ001 - it has no zone
VALUES: Mapping[str, tuple[str, Any]] = {
    "1.23::decimal(9,2)": ("decimal(9,2)", Decimal("1.23")),
    "12345678901234567890123456.789::decimal(38,3)": ("decimal(38,3)", Decimal("12345678901234567890123456.789")),
    "timestamp '2024-02-29 12:00'": ("timestamp_ntz", NOON),
    "'2024-02-29 12:00'::timestamp_s": ("timestamp_ntz", NOON),
    "'2024-02-29 12:00'::timestamp_ms": ("timestamp_ntz", NOON),
    "'2024-02-29 12:00'::timestamp_ns": ("timestamp_ntz", NOON),
    "'2024-02-29 12:00:00.123456789'::timestamp_ns": ("", "part 0, row 0: the field 'v' is .*would lose data"),
    "timestamptz '2024-02-29 13:00+01'": ("timestamp", NOON.replace(tzinfo=UTC)),
    "date '0001-01-01'": ("date", date(1, 1, 1)),
    "time '12:00'": ("", "Spark has no type for time64"),
    "interval '1 month 2 days'": ("binary", bytes([1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])),
    "170141183460469231731687303715884105727::hugeint": ("double", 1.7014118346046923e38),
    "255::utinyint": ("smallint", 255),
    "4294967295::uinteger": ("bigint", 4294967295),
    "18446744073709551615::ubigint": ("decimal(20,0)", Decimal(18446744073709551615)),
    "'00000000-0000-0000-0000-00000000000f'::uuid": ("binary", UUID(int=15).bytes),
    "'a'::enum('a', 'b')": ("string", "a"),
    "'{\"a\": 1}'::json": ("string", '{"a": 1}'),
    "'\\xAA'::blob": ("binary", b"\xaa"),
    "'0101'::bit": ("string", "0101"),
    "[1, NULL, 3]": ("array<int>", [1, None, 3]),
    "[[1], NULL]": ("array<array<int>>", [[1], None]),
    "[1, 2]::int[2]": ("array<int>", [1, 2]),
    "{'a': 1, 'b': [{'c': 'x'}]}": ("struct<a:int,b:array<struct<c:string>>>", {"a": 1, "b": [{"c": "x"}]}),
    "map {1: 'x', 2: NULL}": ("map<int,string>", [(1, "x"), (2, None)]),
    "'-inf'::float": ("float", float("-inf")),
    "chr(0) || '😀'": ("string", "\0😀"),
    "NULL": ("string", None),
}


@pytest.mark.parametrize("value", VALUES)
def test_each_type_of_duckdb_in_parquet_is_read_or_refused(tmp_path: Path, value: str) -> None:
    path, (kind, expected) = tmp_path / "a.parquet", VALUES[value]
    duckdb.sql(f"COPY (SELECT {value} AS v) TO '{path}'")
    same(path, [(expected,)] if kind else expected, format="parquet")
    if kind:
        fields = schema_of(FileSpout(path, format="parquet").output_schema)
        assert fields["v"].dataType.simpleString() == kind


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw"])
def test_each_codec_and_version_of_duckdb_in_parquet_is_read(tmp_path: Path, codec: str) -> None:
    for version in ("v1", "v2"):
        path = tmp_path / f"{version}.parquet"
        rows = "SELECT range AS n, 'v' || range % 3 AS v, range / 2 AS f FROM range(5000)"
        duckdb.sql(f"COPY ({rows}) TO '{path}' (COMPRESSION {codec}, PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)")
        assert read(path, format="parquet") == [(n, f"v{n % 3}", n / 2) for n in range(5000)]


ALL = "1 AS id, 'a,\"b\"' AS t, 1.5::decimal(9,2) AS p, date '2024-02-29' AS d, timestamp '2024-02-29 12:00' AS ts"
ALL += ", timestamptz '2024-02-29 13:00+01' AS tz, true AS b, NULL::int AS i, '' AS e"
ALL_TYPES = "id int, t string, p decimal(9,2), d date, ts timestamp_ntz, tz timestamp, b boolean, i int, e string"
ALL_READ = (1, 'a,"b"', Decimal("1.50"), date(2024, 2, 29), NOON, NOON.replace(tzinfo=UTC), True, None, "")
TEXTS: Mapping[str, tuple[str, Mapping[str, Any], Any]] = {
    "a.csv": ("HEADER", HEADER, [ALL_READ]),
    "quoted.csv": ("HEADER, FORCE_QUOTE *", HEADER, [ALL_READ]),
    "other.csv": (
        "HEADER, NULLSTR 'NA', DELIM '|', QUOTE ''''",
        {"nullValue": "NA", "sep": "|", "quote": "'", **HEADER},
        [ALL_READ],
    ),
    "escaped.csv": ("HEADER, ESCAPE '\\'", HEADER, "the line at byte 21: .*',' expected after '\"'"),
    "a.csv.gz": ("FORMAT csv, HEADER, COMPRESSION gzip", HEADER, [ALL_READ]),
    "a.json": ("FORMAT json", {}, [ALL_READ]),
    "array.json": ("FORMAT json, ARRAY", {"multiLine": True}, [ALL_READ]),
    "lines.json": ("FORMAT json, ARRAY", {}, "the line at byte 0: it is not json"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_csv_and_json_of_duckdb_are_read_or_refused(tmp_path: Path, name: str) -> None:
    written, options, expected = TEXTS[name]
    duckdb.sql(f"SET TimeZone = 'UTC'; COPY (SELECT {ALL}) TO '{tmp_path / name}' ({written})")
    same(tmp_path / name, expected, format=name.split(".")[1], schema=ALL_TYPES, options=options)


# --- pandas -----------------------------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "id": pd.array([1, None], "Int64"),
        "c": pd.Categorical(["x", "y"]),
        "f": [1.5, float("nan")],
        "b": pd.array([True, None], "boolean"),
        "at": pd.to_datetime(["2024-02-29 12:00", "NaT"]),
        "z": pd.to_datetime(["2024-02-29 13:00+01:00", "NaT"], utc=True),
    }
)
FRAME_TYPES = "id bigint, c string, f double, b boolean, at timestamp_ntz, z timestamp"
FRAME_READ = [(1, "x", 1.5, True, NOON, NOON.replace(tzinfo=UTC)), (None, "y", None, None, None, None)]


def test_parquet_of_pandas_has_categories_and_the_index(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    same(tmp_path / "a.parquet", FRAME_READ, format="parquet")
    FRAME.set_index("c")[["id"]].to_parquet(tmp_path / "b.parquet")
    same(tmp_path / "b.parquet", [(1, "x"), (None, "y")], format="parquet")
    both = pd.MultiIndex.from_tuples([(1, "a"), (2, "b")])
    FRAME.set_index(both)[["id"]].to_parquet(tmp_path / "c.parquet")
    same(tmp_path / "c.parquet", [(1, 1, "a"), (None, 2, "b")], format="parquet")


def test_types_of_pandas_that_spark_lacks_are_read_as_they_are_stored_or_refused(tmp_path: Path) -> None:
    pd.DataFrame({"p": pd.period_range("2024-01", periods=1, freq="M")}).to_parquet(tmp_path / "period.parquet")
    same(tmp_path / "period.parquet", [(648,)], format="parquet")
    pd.DataFrame({"d": pd.to_timedelta([1], "s")}).to_parquet(tmp_path / "duration.parquet")
    same(tmp_path / "duration.parquet", "Spark has no type for duration", format="parquet")


def test_csv_of_pandas_is_read_or_refused(tmp_path: Path) -> None:
    options = {"format": "csv", "schema": FRAME_TYPES}
    FRAME.to_csv(tmp_path / "a.csv.bz2", index=False)
    same(tmp_path / "a.csv.bz2", FRAME_READ, options=HEADER, **options)
    FRAME.to_csv(tmp_path / "index.csv")
    same(tmp_path / "index.csv", "the header names the fields .'', 'id'", options=HEADER, **options)
    FRAME.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    same(
        tmp_path / "comma.csv", "the line at byte 14: .*invalid value '1,5'", options={"sep": ";", **HEADER}, **options
    )


def test_json_of_pandas_is_read_or_refused(tmp_path: Path) -> None:
    options = {"format": "json", "schema": FRAME_TYPES}
    FRAME.to_json(tmp_path / "a.json.gz", orient="records", lines=True, date_format="iso")
    same(tmp_path / "a.json.gz", FRAME_READ, **options)
    FRAME.to_json(tmp_path / "array.json", orient="records", date_format="iso")
    same(tmp_path / "array.json", FRAME_READ, options={"multiLine": True}, **options)
    FRAME.to_json(tmp_path / "epoch.json", orient="records", lines=True)
    same(tmp_path / "epoch.json", "the line at byte 0: .*must be str", **options)


# --- pyarrow and fastavro ---------------------------------------------------------------------------------------------


def test_a_value_of_parquet_that_does_not_fit_is_named_by_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3, 2**40, 2**41]}), tmp_path / "a.parquet", row_group_size=2)
    same(tmp_path / "a.parquet", "part 1, row 3: the field 'n' is int64, not int32", format="parquet", schema="n int")
    same(tmp_path / "a.parquet", "part 0: the field 'n' is int64, not list", format="parquet", schema="n array<int>")


def test_parquet_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2], [3]], ["a", "a", "b"]), tmp_path / "a.parquet")
    same(tmp_path / "a.parquet", "it has the field 'a' 2 times", format="parquet")
    same(tmp_path / "a.parquet", "it has the field 'a' 2 times.*leave it out", format="parquet", schema="a int")
    same(tmp_path / "a.parquet", [(3,)], format="parquet", schema="b int")


def test_fields_inside_fields_may_be_fewer_or_more(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": [{"a": [{"c": 1, "d": 2}]}]}), tmp_path / "a.parquet")
    schema = "s struct<a:array<struct<c:bigint,x:int>>>"
    same(tmp_path / "a.parquet", [({"a": [{"c": 1, "x": None}]},)], format="parquet", schema=schema)


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zlib", "zstd", "lz4"])
def test_each_codec_of_orc_is_read(tmp_path: Path, codec: str) -> None:
    table = pa.table(
        {"n": [1, None], "at": pa.array([NOON, None]), "p": pa.array([Decimal("1.5"), None]), "l": [[1], []]}
    )
    po.write_table(table, tmp_path / "a.orc", compression=codec)
    same(tmp_path / "a.orc", [(1, NOON, Decimal("1.5"), [1]), (None, None, None, [])], format="orc")


AVRO: Mapping[str, tuple[Any, Any, Any]] = {
    "nullable": (["null", "long"], None, None),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    "uuid": ({"type": "string", "logicalType": "uuid"}, UUID(int=1), str(UUID(int=1))),
    "moment": ({"type": "long", "logicalType": "timestamp-micros"}, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)),
    "map": ({"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]),
    "list": ({"type": "array", "items": ["null", "string"]}, [None, "x"], [None, "x"]),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        Decimal("1.50"),
        Decimal("1.50"),
    ),
    "union": (["int", "string"], 3, "Spark has no type for"),
    "recursive": (
        {"type": "record", "name": "N", "fields": [{"name": "x", "type": ["null", "N"]}]},
        {"x": None},
        "no type",
    ),
}


@pytest.mark.parametrize("name", AVRO)
def test_each_type_of_avro_is_read_or_refused(tmp_path: Path, name: str) -> None:
    kind, value, expected = AVRO[name]
    for codec in ("null", "deflate", "bzip2", "xz"):
        path = tmp_path / f"{codec}.avro"
        with path.open("wb") as file:
            schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
            fastavro.writer(file, schema, [{"v": value}], codec=codec)
        is_refused = name in ("union", "recursive")
        same(path, expected if is_refused else [(expected,)], format="avro")


@pytest.mark.parametrize(
    "path", sorted(PYARROW.glob("*/*.orc")) + sorted(PYARROW.glob("*/*.parquet")), ids=lambda it: it.name
)
def test_files_of_old_versions_are_read_as_pyarrow_reads_them(path: Path) -> None:
    table = po.read_table(path) if path.suffix == ".orc" else pq.read_table(path)
    columns = [column.to_pylist() for column in table.columns]
    assert read(path, format=path.suffix[1:]) == list(zip(*columns, strict=True))
