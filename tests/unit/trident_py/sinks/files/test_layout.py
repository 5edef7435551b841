"""What rows a `FileSink` can write, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trident_py import TopologyError
from trident_py.rows.schema import schema_of
from trident_py.sinks.files.layout import Layout, visible_files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "delta"}, "format must be one of parquet, json, csv, orc, text, not 'delta'"),
        ({"format": None}, "format must be one of"),
        ({"format": "json", "partition_by": ("a", 3)}, "a field name is a string"),
        (
            {"format": "json", "partition_by": "_day"},
            "readers ignore folders like '_day=…'; to fix this: rename field '_day'",
        ),
        ({"format": "json", "partition_by": ".day"}, "readers ignore"),
        ({"format": "csv", "options": {"sep": ["a"]}}, "an option is a name with a text, number or bool"),
        ({"format": "csv", "options": {1: "a"}}, "an option is a name"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        Layout(**arguments)


@pytest.mark.parametrize(
    ("layout", "fields", "message"),
    [
        (Layout("parquet", "day"), "word string", "there is no field 'day'; there are 'word'"),
        (Layout("parquet", ("day", "day")), "day date, word string", "day"),
        (Layout("parquet", ("day", "word")), "day date, word string", "all fields are in partition_by"),
        (
            Layout("parquet", "days"),
            "days array<date>, n int",
            "field 'days' is array<date>, which can't be the name of a folder",
        ),
        (Layout("parquet"), "TxId bigint, word string", "in a field 'txid'; to fix this: rename 'TxId'"),
        (
            Layout("text"),
            "word string, n int",
            "text files hold one string field in addition to those in partition_by, not word",
        ),
        (Layout("text", "word"), "word string, n int", "not n int"),
        (Layout("csv"), "word string, tags map<string,int>", "csv files can't hold field 'tags', which is map"),
        (Layout("csv"), "raw binary", "csv files can't hold field 'raw'"),
    ],
)
def test_rows_that_cannot_be_written_are_refused(layout: Layout, fields: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        layout.check(schema_of(fields))


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        (Layout("parquet"), "word string, tags map<string,int>, raw binary"),
        (Layout("orc", ("day", "n")), "n int, word string, day date"),
        (Layout("json"), "deep struct<a: array<int>>"),
        (Layout("csv", "day", {"header": True, "sep": "|"}), "word string, day date"),
        (Layout("text", "n"), "word string, n int"),
    ],
)
def test_other_rows_are_taken(layout: Layout, fields: str) -> None:
    layout.check(schema_of(fields))


def test_readers_see_no_names_that_begin_with_a_dot_or_an_underscore(tmp_path: Path) -> None:
    for name in ("b.json", "day=1/a.json", "_SUCCESS", ".a.crc", "_temporary/0/c.json", "day=1/.a.json.crc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert visible_files(tmp_path) == [tmp_path / "b.json", tmp_path / "day=1" / "a.json"]
