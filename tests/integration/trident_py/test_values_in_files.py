"""Odd values in the files of a `FileSink`, as other readers than ours read them."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from tests.values.odd import NULL, ODD, same
from tests.values.store import refusals
from trident_py.errors import PoisonBatchError, SinkError, TopologyError
from trident_py.interfaces.config import RetryPolicy, TridentConfig
from trident_py.rows.row import column_values
from trident_py.rows.schema import arrow_type, schema_of
from trident_py.sinks.files.layout import visible_files
from trident_py.sinks.files.sink import FileSink, check_names
from trident_py.spouts.dataframe import DataFrameSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.testing import LocalCoordination
from trident_py.topology import TridentTopology

Read: TypeAlias = Callable[[Path, t.StructType, SparkSession], Mapping[str, list[Any]]]
"""Gives the values of each field, in the order of the field ``n``."""


def _ordered(table: pa.Table, fields: t.StructType) -> Mapping[str, list[Any]]:
    ordered = table.sort_by("n").combine_chunks()
    return {name: column_values(ordered[name].chunk(0)) for name in fields.names}


def read_parquet(path: Path, fields: t.StructType, _: SparkSession) -> Mapping[str, list[Any]]:
    return _ordered(pyarrow.dataset.dataset(path, partitioning="hive").to_table(), fields)


def read_orc(path: Path, fields: t.StructType, spark: SparkSession) -> Mapping[str, list[Any]]:
    return _ordered(spark.read.schema(fields).orc(str(path)).toArrow(), fields)


def read_csv(path: Path, fields: t.StructType, _: SparkSession) -> Mapping[str, list[Any]]:
    convert = pyarrow.csv.ConvertOptions(
        column_types={field.name: arrow_type(field.dataType) for field in fields.fields},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    names = pyarrow.csv.ReadOptions(column_names=fields.names)
    lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
    files = visible_files(path)
    tables = [pyarrow.csv.read_csv(file, names, lines, convert) for file in files]
    rows = [row for file in files for row in csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))]
    assert len(rows) == sum(table.num_rows for table in tables)  # Python's reader sees the same rows
    return _ordered(pa.concat_tables(tables), fields)


def read_json(path: Path, fields: t.StructType, _: SparkSession) -> Mapping[str, list[Any]]:
    lines = [line for file in visible_files(path) for line in file.read_text().split("\n") if line]
    rows = sorted((json.loads(line, parse_float=Decimal) for line in lines), key=lambda row: int(row["n"]))
    return {field.name: [_of_json(row.get(field.name), field.dataType) for row in rows] for field in fields.fields}


def _of_json(value: Any, kind: t.DataType) -> Any:
    """Return the value that ``value`` stands for, as a program takes it that knows the type."""
    if value is None:
        return None
    match kind:
        case t.ArrayType():
            return [_of_json(each, kind.elementType) for each in value]
        case t.MapType():
            return {key: _of_json(each, kind.valueType) for key, each in value.items()}
        case t.StructType():
            return tuple(_of_json(value.get(field.name), field.dataType) for field in kind.fields)
    return _FROM_JSON.get(type(kind), lambda same: same)(value)


_FROM_JSON: Mapping[type[t.DataType], Callable[[Any], Any]] = {
    t.FloatType: lambda value: pa.array([float(value)], pa.float32())[0].as_py(),
    t.DoubleType: float,
    t.DecimalType: Decimal,
    t.BinaryType: b64decode,
    t.DateType: date.fromisoformat,
    t.TimestampType: datetime.fromisoformat,
    t.TimestampNTZType: datetime.fromisoformat,
}

READERS: Mapping[str, Read] = {"parquet": read_parquet, "orc": read_orc, "csv": read_csv, "json": read_json}


@pytest.mark.parametrize("format", READERS)
def test_odd_values_come_back_as_they_were(format: str, spark: SparkSession, tmp_path: Path) -> None:
    refused = refusals(f"FileSink {format}")
    taken: dict[str, list[Any]] = {}
    for ddl, odd in ODD.items():
        if not isinstance(reasons := refused.get(ddl, {}), str):
            taken[ddl] = [value for name, value in odd.items() if name not in reasons] + [NULL]
    height = max(map(len, taken.values()))
    columns = [values + [NULL] * (height - len(values)) for values in taken.values()]
    fields = schema_of(", ".join(["n int", *[f"v{number} {ddl}" for number, ddl in enumerate(taken)]]))
    commit(
        tmp_path,
        FileSink(tmp_path / "rows", format=format),
        fields,
        list(zip(range(height), *columns, strict=True)),
        spark,
    )
    stored = READERS[format](tmp_path / "rows", fields, spark)
    changed = {
        ddl: [(given, now) for given, now in zip(values, stored[f"v{number}"], strict=False) if not same(now, given)]
        for number, (ddl, values) in enumerate(taken.items())
    }
    assert not {ddl: pairs for ddl, pairs in changed.items() if pairs}


def commit(path: Path, sink: FileSink, fields: t.StructType, rows: list[Any], spark: SparkSession) -> None:
    """Commit rows in one batch, in a session of a zone whose offset had seconds."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Amsterdam")
    topology = TridentTopology("values")
    topology.new_stream("rows", FixedBatchSpout(fields, len(rows), *rows)).write_to(sink)
    run(topology, session)


def run(topology: TridentTopology, session: SparkSession) -> None:
    config = TridentConfig(retry=RetryPolicy(attempts=1))
    with topology.start(config, spark=session, coordination=LocalCoordination()) as query:
        query.process_all_available(timeout=60)


@pytest.mark.parametrize(
    ("format", "folders", "fields", "row", "message"),
    [
        ("text", (), "v string", ("two\nlines",), r"'v' has 'two\\nlines': its lines would be several rows; map it"),
        ("text", (), "v string", ("a\rb",), "its lines would be several rows"),
        ("text", (), "v string", (None,), "'v' has 'NULL': a line of text can't tell it from an empty one"),
        ("csv", (), "v string, n int", ("\ufeffa", 1), r"'v' has .*ufeffa': readers drop a byte order mark"),
        ("csv", (), "v int", (None,), "'v' has 'NULL': an empty line is no row of a csv file"),
        ("parquet", "v", "v string, n int", ("", 1), "'v' has '': a folder's name gives it back as NULL"),
        ("json", "v", "v string, n int", ("__HIVE_DEFAULT_PARTITION__", 1), "a folder's name gives it back as NULL"),
        ("orc", "v", "v string, n int", ("a\0b", 1), "no folder's name has a NUL"),
        ("orc", "v", "v string, n int", ("/" * 85, 1), "a folder's name has at most 255 bytes; map it to a shorter"),
    ],
)
def test_a_value_that_readers_would_take_for_another_is_refused_by_name(
    format: str, folders: Any, fields: str, row: Any, message: str, spark: SparkSession, tmp_path: Path
) -> None:
    sink = FileSink(tmp_path / "rows", format=format, partition_by=folders)
    with pytest.raises(PoisonBatchError, match=message):
        commit(tmp_path, sink, schema_of(fields), [row], spark)
    assert visible_files(tmp_path / "rows") == []


@pytest.mark.parametrize("value", ["DATE'+10000-01-01'", "TIMESTAMP'+10000-01-01 00:00:00Z'", "DATE'-0001-01-01'"])
def test_a_year_beyond_four_digits_is_refused_where_it_is_written_as_text(
    value: str, spark: SparkSession, tmp_path: Path
) -> None:
    kind = value.partition("'")[0].lower()
    topology = TridentTopology("years")
    spout = DataFrameSpout(
        f"v {kind}", lambda session: 1, lambda session, start, end: session.sql(f"SELECT {value} AS v")
    )
    topology.new_stream("rows", spout).write_to(FileSink(tmp_path / "rows", format="csv"))
    with pytest.raises(PoisonBatchError, match=r"field 'v' has .*: readers know the years 1 to 9999"):
        run(topology, spark)


@pytest.mark.parametrize(
    ("fields", "value", "message"),
    [
        ("v date", date(1582, 10, 14), "readers of orc disagree about days before 1582-10-15; use parquet"),
        (
            "v timestamp",
            datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
            "fractions of a second before 1970 back wrongly",
        ),
        ("v array<struct<a: map<string, timestamp>>>", [({"k": datetime(1, 1, 1, tzinfo=UTC)},), None], "before 1582"),
    ],
)
def test_a_moment_that_orc_gives_back_as_another_is_refused_wherever_it_is(
    fields: str, value: Any, message: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PoisonBatchError, match=message):
        commit(tmp_path, FileSink(tmp_path / "rows", format="orc"), schema_of(fields), [(value,), (None,)], spark)


def test_a_folder_whose_name_a_jvm_could_not_write_is_an_error_by_name(tmp_path: Path) -> None:
    check_names(tmp_path)
    (tmp_path / "v=a%3Fb").mkdir()
    check_names(tmp_path)
    (tmp_path / "_temporary" / "v=?").mkdir(parents=True)
    with pytest.raises(SinkError, match="the locale of its JVM is not UTF-8"):
        check_names(tmp_path)


def test_folders_keep_their_values(spark: SparkSession, tmp_path: Path) -> None:
    texts = [text for name, text in ODD["string"].items() if name not in ("empty", "nul", "lone surrogate")]
    fields = schema_of("n int, v string")
    commit(tmp_path, FileSink(tmp_path / "rows", partition_by="v"), fields, list(enumerate([*texts, NULL])), spark)
    kind = pyarrow.dataset.HivePartitioning(pa.schema([("txid", pa.int64()), ("v", pa.string())]))
    stored = pyarrow.dataset.dataset(tmp_path / "rows", partitioning=kind).to_table().sort_by("n")
    assert stored["v"].to_pylist() == [*texts, NULL]


def test_a_binary_folder_is_refused_where_it_is_declared() -> None:
    topology = TridentTopology("folders")
    with pytest.raises(TopologyError, match="field 'v' is binary, which the name of a folder can't hold"):
        topology.new_stream("rows", FixedBatchSpout("v binary, n int", 1)).write_to(FileSink("x", partition_by="v"))
