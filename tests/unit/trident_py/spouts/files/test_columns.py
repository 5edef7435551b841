"""The formats of whole files: the rows of a file, and what stops by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from trident_py import SpoutError
from trident_py.spouts.files.columns import whole_format

SCHEMA = "name string, n bigint"


def rows(path: Path, kind: str) -> list[tuple[Any, ...]]:
    made = whole_format(kind, None if kind == "binary" else SCHEMA, "fail")
    batches = made.read(made.portions(str(path), lambda: None))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_fields_are_found_by_name_and_a_narrower_type_is_read_as_a_wider_one(tmp_path: Path, kind: str) -> None:
    path, table = (
        tmp_path / "a",
        pa.table({"extra": [1.5, 2.5], "n": pa.array([1, None], pa.int32()), "name": ["x", "y"]}),
    )
    po.write_table(table, path) if kind == "orc" else pq.write_table(table, path, row_group_size=1)
    assert rows(path, kind) == [("x", 1, str(path), 0), ("y", None, str(path), 1)]


def test_a_file_without_rows_has_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([], pa.int64()), "name": pa.array([], pa.string())}), tmp_path / "a")
    assert rows(tmp_path / "a", "parquet") == []


def test_binary_files_are_rows_as_sparks_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x00\xff")
    os.utime(path, ns=(0, 1_714_500_000_123_456_789))
    at = datetime(2024, 4, 30, 18, tzinfo=UTC) + timedelta(microseconds=123_456)
    assert rows(path, "binary") == [(str(path), at, 2, b"\x00\xff")]


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no Parquet": (lambda path: path.write_bytes(b"PAR1 and no more"), r"can't be read as parquet: .*whole one"),
    "without a field": (lambda path: pq.write_table(pa.table({"name": ["a"]}), path), "has no field 'n'; it has name"),
    "another type": (
        lambda path: pq.write_table(pa.table({"name": ["a"], "n": ["many"]}), path),
        "part 0: the field 'n' is string, not int64",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_does_not_fit_stops_by_name(tmp_path: Path, name: str) -> None:
    make, message = WRONG[name]
    make(tmp_path / "a.parquet")
    with pytest.raises(SpoutError, match=rf"a\.parquet.*{message}"):
        rows(tmp_path / "a.parquet", "parquet")
