"""Values in the names of folders: their types, and what stops by name."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import emitted, halves
from trident_py import FileSpout, SpoutError, TopologyError
from trident_py.spouts.files.folders import NULL_FOLDER, FolderFields

SCHEMA = "day date, name string, country string, n bigint"
FOLDERS = f"day=2024-02-29/country={NULL_FOLDER}", "day=2024-03-01/country=C%C3%B4te d%27Ivoire%2FCI"
EXPECTED = [
    (date(2024, 2, 29), "tea", None, 1),
    (date(2024, 2, 29), "cup", None, 2),
    (date(2024, 3, 1), "tea", "Côte d'Ivoire/CI", 3),
    (date(2024, 3, 1), "cup", "Côte d'Ivoire/CI", 4),
]


@pytest.fixture(autouse=True)
def _state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the inventory be there, too."""
    monkeypatch.chdir(tmp_path)


def write(directory: Path, kind: str, first: int = 1) -> None:
    directory.mkdir(parents=True)
    table, path = pa.table({"n": [first, first + 1], "name": ["tea", "cup"]}), directory / f"a.{kind}"
    match kind:
        case "parquet":
            pq.write_table(table, path)
        case "orc":
            po.write_table(table, path)
        case "csv":
            path.write_text(f"tea,{first}\ncup,{first + 1}\n")
        case _:
            path.write_text(f'{{"n": {first}, "name": "tea"}}\n{{"n": {first + 1}, "name": "cup"}}\n')


def read(glob: Path, kind: str, schema: str = SCHEMA, *names: str) -> list[tuple[Any, ...]]:
    spout = FileSpout(glob, format=kind, schema=schema, partition_by=names, settled=timedelta(0))
    coordinator, emitter = halves(spout)
    assert coordinator.is_ready(1)
    return emitted(emitter, TransactionAttempt(1, 0), coordinator.initialize_transaction(1, None, None))


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
def test_fields_are_in_the_order_of_the_schema_wherever_their_values_are(tmp_path: Path, kind: str) -> None:
    for folder, first in zip(FOLDERS, (1, 3), strict=True):
        write(tmp_path / folder, kind, first)
    rows = read(tmp_path / "*" / "*" / "*", kind, SCHEMA, "country", "day")
    assert [row[:4] for row in rows] == EXPECTED
    assert [row[5] for row in rows] == ([0, 24] * 2 if kind == "json" else [0, 6 if kind == "csv" else 1] * 2)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "a=b", "a=b"),
        ("string", "", ""),
        ("tinyint", "-7", -7),
        ("bigint", "0009", 9),
        ("double", "1e3", 1000.0),
        ("decimal(5, 2)", "1.5", Decimal("1.50")),
        ("boolean", "true", True),
        ("date", "2024-02-29", date(2024, 2, 29)),
    ],
)
def test_the_text_of_a_folder_becomes_a_value_of_the_type(kind: str, text: str, value: object) -> None:
    fields = FolderFields.of(f"n int, v {kind}", "v")
    _, column = fields.joined([pa.array([1, 2])], f"/data/v={text}/file", 2)
    assert column.to_pylist() == [value, value]


def test_the_innermost_folder_of_a_name_counts_and_the_name_of_the_file_is_none() -> None:
    fields = FolderFields.of("n int, v int", ["v"])
    assert fields.joined([pa.array([1])], "/v=1/w/v=2/v=3", 1)[1].to_pylist() == [2]


def test_a_file_without_such_a_folder_or_with_another_value_is_named(tmp_path: Path) -> None:
    write(tmp_path / "plain", "json")
    with pytest.raises(SpoutError, match=r"plain/a\.json' is in no folder 'day=…'; to fix this: move it into one"):
        read(tmp_path / "plain" / "*", "json", SCHEMA, "country", "day")
    write(tmp_path / "day=yesterday", "parquet")
    with pytest.raises(SpoutError, match=r"a\.parquet': 'yesterday' in the name of its folder is not date32"):
        read(tmp_path / "day=*" / "*", "parquet", "day date, n int", "day")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"schema": "n int", "partition_by": "day"},
            "partition_by names 'day' .*, and the schema has n; to fix this: add",
        ),
        ({"schema": "n int", "partition_by": ["n"]}, "partition_by names all fields of the schema"),
        ({"schema": "n int, at timestamp", "partition_by": "at"}, "'at' is timestamp, which .* declare it as string"),
        ({"partition_by": "day"}, "partition_by names fields of the schema, and there is no schema="),
    ],
)
def test_arguments_that_can_t_work_are_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        FileSpout("*.json", format="json" if "schema" in options else "text", **options)
