"""Which versions a `DeltaSpout` gives as which batches, with which rows; files are read here instead of in tasks."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import define, evolve
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.transaction import AddAction

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.unit.trident_py.sinks.delta.tables import Leader
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, ListCollector
from trident_py import DeltaSnapshotSpout, DeltaSpout, FailedException, SpoutError, TopologyError
from trident_py.spouts.dataframe import DataFrameCoordinator
from trident_py.spouts.delta import spout as module


@define
class Run:
    """One life of a spout: its coordinator, and what it has defined."""

    spout: DeltaSpout
    ranges: list[Any]

    def __attrs_post_init__(self) -> None:
        self.coordinator = self.spout.get_coordinator("events", CONF, CONTEXT)
        if isinstance(self.coordinator, DataFrameCoordinator):
            self.coordinator = evolve(self.coordinator, clock=lambda: 0.0)
        if self.ranges:
            self.coordinator.restore(self.coordinator.moved(self.ranges[-1]))

    coordinator: Any = None

    def batches(self) -> list[list[tuple[Any, ...]]]:
        """The rows of all batches that there are now."""
        found = []
        while self.coordinator.is_ready(len(self.ranges) + 1):
            last = self.ranges[-1] if self.ranges else None
            self.ranges.append(self.coordinator.initialize_transaction(len(self.ranges) + 1, last, None))
            found.append(self.rows(self.ranges[-1]))
        return found

    def rows(self, metadata: Any) -> list[tuple[Any, ...]]:
        collector = ListCollector()
        emitter = self.spout.get_emitter("events", CONF, CONTEXT)
        emitter.emit_batch(TransactionAttempt(1, 0), metadata, collector)
        return sorted(collector.rows, key=repr)


def append(path: Path, *numbers: int, **options: Any) -> None:
    write_deltalake(path, pa.table({"n": pa.array(numbers, pa.int64())}), mode="append", **options)


def run(path: Path, **options: Any) -> Run:
    return Run(DeltaSpout(path, **options), [])


def test_the_first_batch_is_all_that_is_there_and_then_each_version_comes_once(tmp_path: Path) -> None:
    append(tmp_path, 1, 2)
    append(tmp_path, 3)
    first = run(tmp_path)
    assert first.batches() == [[(1,), (2,), (3,)]]
    assert first.batches() == []
    append(tmp_path, 4)
    append(tmp_path, 5)
    assert first.batches() == [[(4,), (5,)]]
    later = Run(DeltaSpout(tmp_path), first.ranges)
    assert later.batches() == []
    append(tmp_path, 6)
    assert later.batches() == [[(6,)]]
    assert later.rows(later.ranges[0]) == [(1,), (2,), (3,)]


def test_a_start_version_is_the_first_whose_rows_are_given(tmp_path: Path) -> None:
    for number in range(4):
        append(tmp_path, number)
    assert run(tmp_path, start_version=2).batches() == [[(2,), (3,)]]
    assert run(tmp_path, start_version=0).batches() == [[(0,), (1,), (2,), (3,)]]
    assert run(tmp_path, start_version=4).batches() == []
    with pytest.raises(TopologyError, match="is at version 3, before start_version=5"):
        DeltaSpout(tmp_path, start_version=5)


def test_many_versions_are_cut_where_their_files_get_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        append(tmp_path, number)
    size = sum(file.stat().st_size for file in tmp_path.glob("*.parquet")) // 5
    monkeypatch.setattr(module, "BATCH_BYTES", 2 * size + size // 2)
    assert run(tmp_path, start_version=0).batches() == [[(0,), (1,)], [(2,), (3,)], [(4,)]]
    monkeypatch.setattr(module, "BATCH_BYTES", 1)
    assert len(run(tmp_path, start_version=0).batches()) == 5


def test_a_compaction_adds_no_rows(tmp_path: Path) -> None:
    append(tmp_path, 1)
    reader = run(tmp_path)
    assert reader.batches() == [[(1,)]]
    append(tmp_path, 2)
    DeltaTable(tmp_path).optimize.compact()
    append(tmp_path, 3)
    assert reader.batches() == [[(2,), (3,)]]


@pytest.mark.parametrize("change", ["delete", "overwrite"])
def test_a_version_that_removes_rows_is_named(tmp_path: Path, change: str) -> None:
    append(tmp_path, 1, 2)
    reader = run(tmp_path)
    reader.batches()
    if change == "delete":
        DeltaTable(tmp_path).delete("n = 1")
    else:
        write_deltalake(tmp_path, pa.table({"n": [7]}), mode="overwrite")
    with pytest.raises(SpoutError, match=r"version 1 of the Delta table .* removes rows, .*start_version=2"):
        reader.batches()
    append(tmp_path, 9)
    assert run(tmp_path, start_version=2).batches() == [[(9,)]]


def test_a_version_that_the_log_has_lost_is_named(tmp_path: Path) -> None:
    append(tmp_path, 1)
    reader = run(tmp_path)
    reader.batches()
    append(tmp_path, 2)
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(SpoutError, match="doesn't have version 1 any more"):
        Run(DeltaSpout(tmp_path), reader.ranges).batches()


def test_another_table_in_its_place_is_named(tmp_path: Path) -> None:
    append(tmp_path / "t", 1)
    reader = run(tmp_path / "t")
    reader.batches()
    shutil.rmtree(tmp_path / "t")
    append(tmp_path / "t", 1)
    append(tmp_path / "t", 2)
    with pytest.raises(SpoutError, match="it was replaced; to fix this: restore it"):
        Run(DeltaSpout(tmp_path / "t"), reader.ranges).batches()


def test_partitions_come_back_with_their_types_whoever_wrote_them(tmp_path: Path) -> None:
    row = ("ü/=% x", 1, True, date(2026, 11, 22), datetime(2026, 7, 1, 12, 0, 0, 5, UTC), Decimal("1.25"), 7)
    fields = [("s", pa.string()), ("i", pa.int32()), ("b", pa.bool_()), ("d", pa.date32())]
    fields += [("t", pa.timestamp("us", "UTC")), ("p", pa.decimal128(7, 2)), ("n", pa.int64())]
    names = [name for name, _ in fields]
    rows = [row, (*[None] * 6, 8)]
    table = pa.table(
        [pa.array(column, kind) for column, (_, kind) in zip(zip(*rows, strict=True), fields, strict=True)], names
    )
    write_deltalake(tmp_path / "theirs", table, partition_by=names[:-1])
    schema = "s string, i int, b boolean, d date, t timestamp, p decimal(7, 2), n bigint"
    Leader(tmp_path / "ours", schema=schema, partition_by=tuple(names[:-1])).commit(1, *rows)
    for path in (tmp_path / "theirs", tmp_path / "ours"):
        assert [each for batch in run(path).batches() for each in batch] == sorted(rows, key=repr), path
        assert [each for batch in run(path, start_version=0).batches() for each in batch] == sorted(rows, key=repr), (
            path
        )


def test_a_field_that_was_added_later_is_null_in_older_files(tmp_path: Path) -> None:
    append(tmp_path, 1)
    write_deltalake(tmp_path, pa.table({"n": [2], "m": ["x"]}), mode="append", schema_mode="merge")
    assert run(tmp_path).batches() == [[(1, None), (2, "x")]]


def test_what_can_not_work_is_refused_where_it_is_declared(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="there is no Delta table at"):
        DeltaSpout(tmp_path / "nowhere")
    DeltaTable.create(tmp_path, Schema.from_arrow(pa.schema([("n", pa.int64())])))
    version: Any = "0"
    with pytest.raises(TopologyError, match="start_version must be a version from 0 on"):
        DeltaSpout(tmp_path, start_version=version)
    assert repr(DeltaSpout(tmp_path)) == f"DeltaSpout({str(tmp_path)!r})"
    assert run(tmp_path).batches() == [[]]


def both_ways(path: Path) -> tuple[list[Any], list[Any]]:
    """The values of field ``p`` in a first batch that is all that the table has, and in one of its versions."""
    found = [run(path).batches(), run(path, start_version=0).batches()]
    first, versions = ([row[0] for batch in batches for row in batch] for batches in found)
    return sorted(first, key=repr), sorted(versions, key=repr)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["", None, "x", "a/b", "100%", "a%20b"], pa.string(), [None, None, "x", "a/b", "100%", "a%20b"]),
        ([b"", None, b"plain", b"a\xff\0", bytes(range(20))], pa.binary(), None),
        ([Decimal("1.05"), Decimal("-2.00"), None], pa.decimal128(10, 2), None),
        ([0.1, 1e-7, -0.0, float("inf"), None], pa.float64(), None),
        ([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None], pa.timestamp("us"), None),  # noqa: DTZ001
        ([datetime(1850, 6, 1, 12, tzinfo=UTC), None], pa.timestamp("us", "UTC"), None),
        ([date(1, 1, 1), date(9999, 12, 31), None], pa.date32(), None),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_partitions_are_the_same_in_the_first_batch_and_in_versions(
    tmp_path: Path, values: list[Any], kind: pa.DataType, expected: list[Any] | None
) -> None:
    table = pa.table({"p": pa.array(values, kind), "n": list(range(len(values)))})
    write_deltalake(tmp_path, table, partition_by=["p"])
    wanted = sorted([None if value == b"" else value for value in expected or values], key=repr)
    assert both_ways(tmp_path) == (wanted, wanted)


def test_a_batch_that_was_defined_is_not_read_from_another_table_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 1)
    first = run(path)
    first.batches()
    append(path, 2)
    first.batches()
    for ranges in first.ranges:
        shutil.rmtree(path)
        for _ in range(4):
            append(path, 7)
        with pytest.raises(SpoutError, match="was removed and made again: a batch is of the table with the id"):
            first.rows(ranges)


def test_a_running_spout_notices_another_table_that_has_more_versions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 1)
    running = run(path)
    running.batches()
    shutil.rmtree(path)
    for _ in range(4):
        append(path, 7)
    with pytest.raises(
        SpoutError, match="it was replaced; to fix this: restore it, or read the new one with a new topology"
    ):
        running.batches()


def test_a_file_that_a_vacuum_has_removed_before_it_was_read_is_named(tmp_path: Path) -> None:
    append(tmp_path, 1)
    begun = run(tmp_path)
    begun.batches()
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(SpoutError, match=r"\.parquet' of the Delta table .* is gone, before it was read"):
        begun.rows(begun.ranges[0])


def test_a_table_that_is_away_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 1)
    begun = run(path)
    begun.batches()
    path.rename(tmp_path / "away")
    with pytest.raises(FailedException, match="can't be read"):
        begun.rows(begun.ranges[0])
    (tmp_path / "away").rename(path)
    assert begun.rows(begun.ranges[0]) == [(1,)]


def add_file(path: Path, table: pa.Table, partition: dict[str, str | None] | None = None, **options: Any) -> None:
    """Add a file, as other programs write it."""
    pq.write_table(table, path / "other.parquet", **options)
    added = AddAction("other.parquet", (path / "other.parquet").stat().st_size, partition or {}, 0, True, stats="{}")
    found = DeltaTable(path)
    found.create_write_transaction([added], "append", found.schema(), partition_by=found.metadata().partition_columns)


def test_moments_that_spark_has_written_are_those_moments_in_all_years(tmp_path: Path) -> None:
    moments = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]
    empty = pa.table({"at": pa.array([], pa.timestamp("us", "UTC"))})
    write_deltalake(tmp_path, empty)
    add_file(
        tmp_path,
        pa.table({"at": pa.array(moments, empty.schema.field("at").type)}),
        use_deprecated_int96_timestamps=True,
    )
    assert run(tmp_path).batches() == [[(each,) for each in moments]]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (pa.table({"n": ["many"]}), "field 'n' was int32 .*, and is string in 'other.parquet'"),
        (pa.table({"n": [2**40]}), "field 'n' was int32 .*, and is int64 in 'other.parquet'"),
    ],
)
def test_a_file_with_other_types_than_were_declared_stops_by_name(
    tmp_path: Path, written: pa.Table, message: str
) -> None:
    write_deltalake(tmp_path, pa.table({"n": pa.array([1], pa.int32())}))
    begun = run(tmp_path)
    begun.batches()
    add_file(tmp_path, written)
    with pytest.raises(SpoutError, match=message):
        begun.batches()


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_each_batch_has_all_rows_of_the_version_that_its_definition_has_pinned(tmp_path: Path) -> None:
    append(tmp_path / "t", 1, 2)
    spout = DeltaSnapshotSpout(tmp_path / "t")
    made = Run(spout, [])
    assert not made.coordinator.is_ready(1), "it starts no batch by itself"
    first = json_copy(made.coordinator.initialize_transaction(1, None, None))
    write_deltalake(tmp_path / "t", pa.table({"n": pa.array([7], pa.int64())}), mode="overwrite")
    second = json_copy(made.coordinator.initialize_transaction(2, first, None))
    assert made.coordinator.initialize_transaction(1, None, first) == first
    assert [made.rows(each) for each in (first, second, first)] == [[(1,), (2,)], [(7,)], [(1,), (2,)]]


def test_a_version_that_a_vacuum_has_removed_and_a_replay_needs_is_named(tmp_path: Path) -> None:
    append(tmp_path / "t", 1)
    made = Run(DeltaSnapshotSpout(tmp_path / "t"), [])
    first = json_copy(made.coordinator.initialize_transaction(1, None, None))
    write_deltalake(tmp_path / "t", pa.table({"n": pa.array([7], pa.int64())}), mode="overwrite")
    DeltaTable(tmp_path / "t").vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(SpoutError, match="is gone, before it was read: a vacuum"):
        made.rows(first)
