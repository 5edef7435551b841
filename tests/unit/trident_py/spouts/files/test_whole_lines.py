"""Lines of complete files, each one once, wherever a file is cut into parts; and records with line ends in them."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from trident_py import FileSpout, SpoutError
from trident_py.rows.schema import schema_of
from trident_py.spouts.files.columns import WholeReader
from trident_py.spouts.files.formats import CsvLines, JsonLines, LineFormat, TextLines
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles
from trident_py.spouts.files.whole_lines import WholeLines, WholeRecords

TEXT = b"one\n\ntwo and more\r\nthree"
LINES = [("one", 0), ("", 4), ("two and more", 5), ("three", 19)]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
@pytest.mark.parametrize("part", [1, 4, 7, 1000])
def test_lines_are_read_once_wherever_a_file_is_cut(
    tmp_path: Path, name: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.spouts.files.whole_lines.PART_BYTES", part)
    packed = {".txt": TEXT, ".gz": gzip.compress(TEXT), ".zst": pa.compress(TEXT, "zstd", asbytes=True)}
    path = tmp_path / name
    path.write_bytes(packed[path.suffix])
    reader = WholeReader(WholeLines(TextLines("utf-8", "strict")), LocalFiles(PathPattern.of(path)))
    portions = reader.portions(next(reader.place.find()))
    assert len(portions) == (-(-len(TEXT) // part) if name == "a.txt" else 1)
    found = [row for each in portions for batch in reader([each]) for row in batch.to_pylist()]
    assert [(row["value"], row["position"]) for row in found] == LINES


SPECTRUM = Path(__file__).with_name("csv_spectrum")


def records(path: Path, format: LineFormat) -> list[dict[str, Any]]:
    reader = WholeReader(WholeRecords(format), LocalFiles(PathPattern.of(path)))
    batches = reader(reader.portions(next(reader.place.find())))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if name[0] != "_"} for row in rows]


@pytest.mark.parametrize("path", sorted(SPECTRUM.glob("*.csv")), ids=lambda path: path.stem)
def test_csv_that_others_wrote_is_read_as_python_reads_it_and_as_they_say(path: Path) -> None:
    made = FileSpout(path, format="csv", options={"header": True, "multiLine": True}, settled=timedelta(0))
    names = schema_of(made.output_schema).names[:-2]
    fields = StructType([StructField(name, StringType()) for name in names])
    found = records(path, CsvLines(fields, "fail", header=True, sep=",", quote='"', null="", is_multiline=True))
    with path.open(newline="") as file:
        assert found == [*csv.DictReader(file)]
    if path.stem != "location_coordinates":  # where theirs differ
        assert found == json.loads(path.with_suffix(".json").read_text())


CSV = CsvLines(
    StructType([StructField("n", LongType()), StructField("text", StringType())]),
    "null",
    header=False,
    sep=",",
    quote='"',
    null="",
    is_multiline=True,
)
JSON = StructType([StructField("n", LongType()), StructField("text", StringType())])


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ('{"n":\n 1,\n"text": "a\\n]ö"}\n', [(1, "a\n]ö")]),
        ('\ufeff[\n{"n": 1}\n,\r\n {"text": "["} ]\n\n', [(1, None), (None, "[")]),
        ("[ ]", []),
    ],
)
def test_a_file_is_an_object_of_json_or_an_array_of_them(tmp_path: Path, data: str, rows: list[Any]) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(data.encode()))
    assert [tuple(row.values()) for row in records(tmp_path / "a.json.gz", JsonLines(JSON, "fail"))] == rows


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('[{"n": 1},]', "a.json.*can't be read as json: Expecting value"),
        ('[{"n": 1} {"n": 2}]', "there is no ',' or ']' at byte 10"),
        ('{"n": 1}\n{"n": 2}', "more begins at byte 9"),
        ("", "can't be read as json: Expecting value"),
        ('[{"n": 1},\n{"n": "x"}]', "a.json', the line at byte 11: it is not json of"),
        ("[" * 100_000, "can't be read as json: maximum recursion"),
    ],
)
def test_json_that_can_not_be_divided_or_read_stops_by_name(tmp_path: Path, data: str, message: str) -> None:
    (tmp_path / "a.json").write_text(data)
    with pytest.raises(SpoutError, match=message):
        records(tmp_path / "a.json", JsonLines(JSON, "fail"))


def test_records_that_can_not_be_read_are_left_out_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"n": 1},\n{"n": "x"}, 7, {"n": 2}]')
    assert [row["n"] for row in records(tmp_path / "a.json", JsonLines(JSON, "skip"))] == [1, 2]
    (tmp_path / "a.csv").write_text('\ufeff"1","a\nb"\r\nx,"c\nd""\n"\n\n2,e')
    found = [tuple(row.values()) for row in records(tmp_path / "a.csv", CSV)]
    assert found == [(1, "a\nb"), (None, None), (2, "e")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('1,"a\n2,b\n3,"c"\n', "',' expected after '\"', in line 3"),
        ('1,a\n2,"b\n', "unexpected end of data, in line 2"),
        ('"a"b,1\n', "',' expected after '\"', in line 1"),
    ],
)
def test_a_quote_that_is_not_around_a_value_stops_by_name(tmp_path: Path, data: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(data)
    with pytest.raises(SpoutError, match=f"a.csv.*can't be read as csv: {message}"):
        records(tmp_path / "a.csv", CSV)


def test_a_value_may_be_long_and_have_quotes_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('1,5" and more\n2,' + "long " * 50_000)
    assert [row["text"] for row in records(tmp_path / "a.csv", CSV)] == ['5" and more', "long " * 50_000]
