from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pfs
import pyarrow.parquet as pq
import pytest
from attrs import frozen

from coordinators.values.canonical import NO_ROWS
from trident_py.errors import FailedException
from trident_py.sinks.tables.staging import (
    ROW_GROUP_ROWS,
    FileWriter,
    StagedFile,
    TableStorage,
    ensure_written,
    repeating,
)

SOME = 1_000
ROWS = pa.table(
    {
        "id": range(SOME),
        "kind": ["a", "b"] * (SOME // 2),
        "flag": [True, None] * (SOME // 2),
        "day": [date(2026, 11, 25)] * SOME,
        "at": [datetime(2026, 11, 25, 0, 0, 0, number, UTC) for number in range(SOME)],
        "price": [Decimal(number).scaleb(-2) for number in range(SOME)],
        "payload": [b"%d" % number for number in range(SOME)],
        "none": pa.nulls(SOME, pa.float64()),
    }
)


@pytest.fixture
def files(tmp_path: Path) -> pfs.FileSystem:
    return pfs.SubTreeFileSystem(str(tmp_path), pfs.LocalFileSystem())


def test_columns_whose_values_repeat_are_those_that_have_a_dictionary() -> None:
    assert repeating(ROWS) == ["kind", "flag", "day", "none"]


def test_where_a_column_is_nested_all_columns_have_one() -> None:
    assert repeating(ROWS.append_column("tags", pa.array([["a"]] * SOME))) is True


def test_a_file_has_all_rows_and_dictionaries_where_they_pay(files: pfs.FileSystem) -> None:
    writer = FileWriter(files, "rows.parquet", ROWS.schema)
    for first in (0, 500):
        writer.write(ROWS.slice(first, 500), NO_ROWS)
    size, footer = writer.close()
    assert size == files.get_file_info("rows.parquet").size
    assert pq.read_table("rows.parquet", filesystem=files).equals(ROWS)
    columns = [footer.row_group(0).column(number) for number in range(len(ROWS.column_names))]
    assert {each.path_in_schema for each in columns if each.has_dictionary_page} == {"kind", "day", "none"}


def test_a_file_without_rows_can_be_read(files: pfs.FileSystem) -> None:
    FileWriter(files, "rows.parquet", ROWS.schema).close()
    assert pq.read_table("rows.parquet", filesystem=files).equals(ROWS.schema.empty_table())


def test_many_rows_are_several_groups(files: pfs.FileSystem) -> None:
    writer, many = FileWriter(files, "rows.parquet", ROWS.schema), ROW_GROUP_ROWS // SOME + 2
    for _ in range(many):
        writer.write(ROWS, NO_ROWS)
    _, footer = writer.close()
    assert (footer.num_row_groups, footer.num_rows) == (2, many * SOME)


@frozen
class Folder(TableStorage):
    uri: str

    def files(self) -> pfs.FileSystem:
        return pfs.SubTreeFileSystem(self.uri, pfs.LocalFileSystem())


def test_files_that_a_cleanup_removed_before_the_driver_looked_fail_the_attempt(tmp_path: Path) -> None:
    here, gone = (StagedFile(path=path, size=0, content=NO_ROWS, about={}) for path in ("1-0-a", "1-0-b"))
    (tmp_path / here.path).touch()
    ensure_written(Folder(str(tmp_path)), [here])
    with pytest.raises(FailedException, match=r"'1-0-b'.*VACUUM.*different file systems"):
        ensure_written(Folder(str(tmp_path)), [here, gone])
