"""The file of a snapshot: ranges of its rows, and what is left of unfinished ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from trident_py.errors import SpoutError
from trident_py.spouts.postgres.spool import Spool, SpoolFile


def numbers(first: int, end: int) -> pa.Table:
    return pa.table({"n": pa.array(range(first, end), pa.int64())})


def test_any_range_of_rows_is_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "new", "a_")
    file = SpoolFile(spool, "a_1", numbers(0, 0).schema)
    for first, end in ((0, 3), (3, 3), (3, 4), (4, 9)):
        file.write(numbers(first, end))
    digest = file.complete()
    spool.check("a_1", digest)
    assert file.rows == 9
    for first in range(10):
        for end in range(first, 10):
            found = [row for table in spool.read("a_1", first, end) for row in table["n"].to_pylist()]
            assert found == list(range(first, end))


def test_files_of_other_beginnings_are_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a_")
    SpoolFile(spool, "a_1", numbers(0, 0).schema)
    for name in ("a_2", "a_3", "b_1"):
        SpoolFile(spool, name, numbers(0, 0).schema).complete()
    assert (tmp_path / "a_1.unfinished").exists()
    spool.sweep(keep="a_3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_3.parquet", "b_1.parquet"]
    with pytest.raises(SpoutError, match=r"a_2\.parquet is gone, and its rows are needed again"):
        list(spool.read("a_2", 0, 1))
