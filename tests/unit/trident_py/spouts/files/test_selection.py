"""The options of the search: what can't work is refused at the declaration, and what the record tells."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from trident_py import FileSpout, TopologyError

BUCKET = "s3://bucket/in/*"
PARQUET: dict[str, Any] = {"format": "parquet", "schema": "n bigint"}


@pytest.mark.parametrize(
    ("glob", "arguments", "message"),
    [
        (BUCKET, {"order": "time"}, "order is 'name' or None, not 'time'"),
        (BUCKET, {"order": "name", "late": "skip"}, "late is one of 'fail', 'read', not 'skip'"),
        (BUCKET, {"order": "name", "relist": timedelta(0)}, "relist is a timedelta of more than 0 s"),
        (BUCKET, {"max_age": 3600}, "max_age is a timedelta of more than 0 s, not 3600"),
        (BUCKET, {"late": "read"}, "relist and late are for order='name'"),
        (BUCKET, {"directory": "s3://bucket"}, r"'s3://bucket' \(str\) is not a folder of objects, such as"),
        (BUCKET, {"directory": "http://host/x"}, "is on no file system that is mounted here"),
        ("in/*", {"order": "name", **PARQUET}, "is a pattern of local files, which take no order: a look finds all"),
        ("in/*", {"max_age": timedelta(days=1)}, "lines of local files take no max_age and no directory"),
        ("in/*", {"directory": "names"}, "lines of local files take no max_age and no directory"),
    ],
)
def test_a_selection_that_can_not_work_is_refused(glob: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        FileSpout(glob, **arguments)


def test_the_record_tells_the_order_and_the_directory_and_explain_the_promise(tmp_path: Path) -> None:
    plain = FileSpout(BUCKET)
    assert (plain.details(), plain.caveat) == ({"glob": BUCKET, "format": "text"}, "")
    rising = FileSpout(BUCKET, order="name", relist=timedelta(minutes=5), directory="s3://bucket/names/")
    assert rising.details() == {**plain.details(), "order": "name", "directory": "s3://bucket/names"}
    assert rising.caveat == "names must rise: an object below the greatest name stops the topology, up to 0:05:00 later"
    assert "is read" in FileSpout(BUCKET, order="name", late="read").caveat
    local = FileSpout("in/*", max_age=timedelta(days=1), directory=tmp_path, **PARQUET)
    assert local.details()["directory"] == str(tmp_path)
