"""Days that old writers have counted by another calendar stop a topology by name, wherever they are in a row."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from tests.unit.trident_py.spouts.files.test_files_of_others import read
from trident_py import SpoutError
from trident_py.spouts.files.calendars import is_by_old_spark

NEW_DAY, NEW_MOMENT = date(1582, 10, 15), datetime(1900, 1, 1)  # noqa: DTZ001 - it has no zone
OLD = timedelta(microseconds=1)


def nested(day: date, moment: datetime) -> dict[str, Any]:
    inside = pa.array([{"d": [day], "m": [("k", moment)]}], pa.struct({"d": pa.list_(pa.date32()), "m": MAP}))
    return {"inside": inside, "plain": pa.array([None], pa.date32())}


MAP = pa.map_(pa.string(), pa.timestamp("us"))


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_an_old_day_or_moment_stops_by_name_wherever_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"

    def write(day: date, moment: datetime) -> None:
        table = pa.table(nested(day, moment))
        marked = table.replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
        po.write_table(table, path) if kind == "orc" else pq.write_table(marked, path)

    write(NEW_DAY, NEW_MOMENT)
    assert read(path, format=kind) == [({"d": [NEW_DAY], "m": [("k", NEW_MOMENT)]}, None)]
    for day, moment in ((NEW_DAY - timedelta(1), NEW_MOMENT), (NEW_DAY, NEW_MOMENT - OLD)):
        write(day, moment)
        with pytest.raises(SpoutError, match=f"a.{kind}': the field 'inside' has a date before 1582"):
            read(path, format=kind)
        assert read(path, format=kind, schema="plain date") == [(None,)]


@pytest.mark.parametrize(
    ("metadata", "is_old"),
    [
        (None, False),
        ({b"org.apache.spark.version": b"2.4.6"}, True),
        ({b"org.apache.spark.version": b"3.2.0"}, False),
        ({b"org.apache.spark.version": b"4.0.0-preview1", b"org.apache.spark.legacyINT96": b""}, True),
        ({b"org.apache.spark.version": b"none"}, False),
    ],
)
def test_the_calendar_of_a_file_of_spark_is_in_its_metadata(metadata: Any, is_old: bool) -> None:
    assert is_by_old_spark(metadata) is is_old
