"""Which tables `DeltaSink` refuses, and how a table gets fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from tests.unit.trident_py.sinks.delta.tables import Leader, rows_in
from trident_py import SinkError

FIELDS = pa.schema([("word", pa.string()), ("n", pa.int64())])


def table(path: Path, **options: Any) -> DeltaTable:
    return DeltaTable.create(path, options.pop("schema", Schema.from_arrow(FIELDS)), **options)


@pytest.mark.parametrize(
    ("retention", "is_refused"),
    [
        ("interval 1 hours", True),
        ("interval 6 days", True),
        ("interval 7 days", False),
        ("interval 2 weeks", False),
        ("interval 1 day 12 hours", True),
        ("interval a while", True),
    ],
)
def test_a_table_that_forgets_who_wrote_what_too_early_is_refused_at_the_start(
    tmp_path: Path, retention: str, is_refused: bool
) -> None:
    table(tmp_path, configuration={"delta.setTransactionRetentionDuration": retention})
    if not is_refused:
        Leader(tmp_path).commit(1, ("a", 1))
        return
    with pytest.raises(SinkError, match=r"\(delta\.setTransactionRetentionDuration\)"):
        Leader(tmp_path)


def test_a_table_with_rules_that_plain_files_do_not_respect_is_refused_at_the_start(tmp_path: Path) -> None:
    made = table(tmp_path)
    made.alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(SinkError, match=r"has delta.constraints.positive, which rows that are written as plain files"):
        Leader(tmp_path)


@pytest.mark.parametrize("configuration", [{"delta.columnMapping.mode": "name"}, {"delta.enableRowTracking": "true"}])
def test_features_that_can_not_be_written_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configuration: dict[str, str]
) -> None:
    Leader(tmp_path)
    found = Leader(tmp_path, epoch=2).made().opened()
    assert found is not None
    found.check()
    metadata = found._table.metadata()
    monkeypatch.setattr(type(metadata), "configuration", property(lambda _: configuration))
    with pytest.raises(SinkError, match=next(iter(configuration))):
        found.check()


def test_a_table_with_other_partitions_is_refused_with_what_to_write_instead(tmp_path: Path) -> None:
    table(tmp_path, partition_by=["word"])
    with pytest.raises(
        SinkError, match=r"is partitioned by \['word'\], not by \[\]; to fix this: give the sink partition_by="
    ):
        Leader(tmp_path)


def test_a_field_that_the_table_lacks_is_refused_or_added_on_request(tmp_path: Path) -> None:
    Leader(tmp_path).commit(1, ("a", 1))
    more = "word string, n bigint, tags array<string>"
    with pytest.raises(SinkError, match=r"field 'tags' is not in the Delta table .*merge_schema=True"):
        Leader(tmp_path, epoch=2, schema=more)
    later = Leader(tmp_path, epoch=3, schema=more, merge_schema=True)
    later.commit(2, ("b", 2, ["x"]))
    assert rows_in(tmp_path) == [("a", 1, None), ("b", 2, ["x"])]


def test_a_field_that_only_the_table_has_is_null(tmp_path: Path) -> None:
    Leader(tmp_path, schema="word string, n bigint, more int").commit(1, ("a", 1, 5))
    Leader(tmp_path, epoch=2).commit(2, ("b", 2))
    assert rows_in(tmp_path) == [("a", 1, 5), ("b", 2, None)]


def test_a_field_of_another_type_is_refused(tmp_path: Path) -> None:
    table(tmp_path)
    with pytest.raises(SinkError, match="field 'n' is string, and long in the Delta table"):
        Leader(tmp_path, schema="word string, n string", merge_schema=True)
