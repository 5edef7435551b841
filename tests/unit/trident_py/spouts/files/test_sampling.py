"""Schemas that are found in files: each type, what several files have in common, and what stops by name."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as t

from trident_py import FileSpout, TopologyError
from trident_py.rows.schema import fields_text
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles
from trident_py.spouts.files.sampling import SAMPLE_BYTES, SAMPLE_FILES, found_schema


def found(directory: Path, kind: str, **options: Any) -> str:
    return fields_text(found_schema(kind, LocalFiles(PathPattern.of(directory / "*")), options))


COLUMNS = {
    "n": pa.array([1], pa.uint32()),
    "price": pa.array([Decimal("1.50")]),
    "kind": pa.array(["a"]).dictionary_encode(),
    "at": pa.array([0], pa.timestamp("ns", "Europe/Vienna")),
    "local": pa.array([0], pa.timestamp("ms")),
    "tags": pa.array([[("a", [1])]], pa.map_(pa.string(), pa.list_(pa.int16()))),
    "place": pa.array([{"x": 1.5, "nothing": None}]),
}


def test_each_type_of_parquet_has_one_in_spark(tmp_path: Path) -> None:
    pq.write_table(pa.table(COLUMNS), tmp_path / "a")
    assert found(tmp_path, "parquet") == (
        "n bigint, price decimal(3,2), kind string, at timestamp, local timestamp_ntz, "
        "tags map<string,array<smallint>>, place struct<x:double,nothing:string>"
    )


def test_files_of_spark_say_their_types_themselves(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([0], pa.timestamp("ns"))})
    schema = t.StructType([t.StructField("at", t.TimestampType())])
    marked = table.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": schema.json()})
    pq.write_table(marked, tmp_path / "a", use_deprecated_int96_timestamps=True)
    assert found(tmp_path, "parquet") == "at timestamp"


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_fields_of_several_files_are_put_together_and_widened(tmp_path: Path, kind: str) -> None:
    for name, given, avro in (
        ("a", pa.table({"n": pa.array([1], pa.int32())}), "int"),
        ("b", pa.table({"n": pa.array([1], pa.int64()), "more": ["x"]}), "long"),
    ):
        if kind == "avro":
            fields = [{"name": "n", "type": avro}, {"name": "more", "type": "string"}][: given.num_columns]
            with (tmp_path / name).open("wb") as file:
                fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, given.to_pylist())
        else:
            po.write_table(given, tmp_path / name) if kind == "orc" else pq.write_table(given, tmp_path / name)
    assert found(tmp_path, kind) == "n bigint, more string"


def test_json_has_the_fields_of_all_records_of_the_sample(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        '\ufeff{"n": 1, "d": 1, "in": [{"x": null}], "b": true, "none": null, "empty": {}}\n\n'
        '{"n": null, "d": 2.0, "in": [{"y": [0]}, {"x": "t"}], "late": [[]]}\n'
        '{"not ended": '
    )
    assert found(tmp_path, "json") == (
        "n bigint, d double, in array<struct<x:string,y:array<bigint>>>, b boolean, none string, "
        "empty map<string,string>, late array<array<string>>"
    )


def test_json_of_several_lines_is_looked_at_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('\ufeff[{"n":\n 1}, {"text": "ö"}]')
    assert found(tmp_path, "json", multiLine=True) == "n bigint, text string"


def test_csv_has_the_names_of_its_header_and_texts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("id;'full; name'\n007;x\n")
    assert found(tmp_path, "csv", header=True, sep=";", quote="'") == "id string, full; name string"


def test_only_the_first_files_and_the_first_lines_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "00").write_bytes(b'{"n": 1}\n' * (SAMPLE_BYTES // 9 + 1) + b'{"late": 1}\n')
    for number in range(1, SAMPLE_FILES + 1):
        (tmp_path / f"{number:02}").write_text('{"n": 1}\n' if number < SAMPLE_FILES else "no JSON\n")
    assert found(tmp_path, "json") == "n bigint"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("json", "", "there is no record in .*give FileSpout the fields"),
        ("json", '{"a": 1}\n{"a": "x"}\n', "file .*a': 'a' is bigint and string; to fix this: give FileSpout"),
        ("json", '{"a": 1e400}\n{"a": {"b": 1}}\n', "'a' is double and struct<b:bigint>"),
        ("json", '{"a": 9223372036854775808}\n', "9223372036854775808 has more digits than a bigint"),
        ("json", "[1]\n", r"the line \[1\] is not an object"),
        ("csv", "a,b\n", "only known with options"),
        ("csv", "a,A\n", "named twice"),
        ("parquet", "PAR1", "file .*a'"),
        ("avro", "Obj", "file .*a'"),
    ],
)
def test_a_schema_that_can_not_be_found_is_refused_by_name(tmp_path: Path, kind: str, text: str, message: str) -> None:
    (tmp_path / "a").write_text(text)
    options = {"header": True} if "A" in text else {}
    with pytest.raises(TopologyError, match=message):
        FileSpout(tmp_path / "a", format=kind, options=options)


def test_a_type_that_spark_lacks_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([0], pa.time64("us"))}), tmp_path / "a")
    with pytest.raises(TopologyError, match="Spark has no type for time64"):
        found(tmp_path, "parquet")


def test_fields_of_folders_are_texts_behind_the_others(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "day=1" / "a")
    spout = FileSpout(tmp_path / "*" / "a", format="parquet", partition_by="day")
    assert fields_text(spout.output_schema) == "n bigint, day string, _path string, _position bigint"  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="partition_by names 'n', which the files have themselves"):
        FileSpout(tmp_path / "*" / "a", format="parquet", partition_by="n")
