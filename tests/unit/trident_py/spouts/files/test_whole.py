"""Files that are read as a whole: when they are complete, what a batch of them is, and what stops by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from attrs import evolve

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, ListCollector, emitted
from trident_py import FileSpout, SpoutError, TopologyError
from trident_py.spouts.files.inventory import Inventory
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles
from trident_py.spouts.files.search import AnyOrder
from trident_py.spouts.files.whole import WholeFileCoordinator
from trident_py.spouts.spool.files import SpoolDirectory

SCHEMA = "name string, n bigint"
SETTLED_SECONDS = 2.0


def write(path: Path, first: int, count: int = 4, **options: Any) -> Path:
    """A Parquet file with these numbers and their names, two in a row group, and a field that nobody reads."""
    numbers = pa.array(range(first, first + count), pa.int32())
    names = [f"row {number}" for number in range(first, first + count)]
    table = pa.table({"extra": [1.5] * count, "n": numbers, "name": names})
    if path.suffix == ".orc":
        po.write_table(table, path)
    else:
        pq.write_table(table, path, row_group_size=2, **options)
    return path


def rows(path: Path, first: int, count: int = 4) -> list[tuple[Any, ...]]:
    return [(f"row {number}", number, str(path), number - first) for number in range(first, first + count)]


class World:
    """One batch after the other, metadata and cursors through JSON, at a time of the test's own."""

    def __init__(self, glob: Path, format: str = "parquet", **options: Any) -> None:
        schema = None if format == "binary" else SCHEMA
        self.glob, self.options, self.format = glob, {"schema": schema, **options}, format
        self.directory = glob.parent.with_name(f"{glob.parent.name}-names")
        self.now, self.today, self.txid, self.cursors = 0.0, 0.0, 1, dict[str, Any]()
        self.max_age: float | None = None
        self.restart()

    def restart(self) -> None:
        place = LocalFiles(PathPattern.of(self.glob))
        self.coordinator = WholeFileCoordinator(
            search=AnyOrder(place=place, max_age=self.max_age, settled=SETTLED_SECONDS),
            inventory=Inventory(where="spout", files=SpoolDirectory(self.directory), epoch=1),
            max_bytes=self.options.get("max_bytes_per_batch", 1 << 20),
            clock=lambda: self.now,
            today=lambda: self.today,
        )
        cursors: Any = json_copy(dict(self.cursors))
        self.coordinator.restore(cursors)
        spout = FileSpout(self.glob, format=self.format, **self.options)
        self.emitter: Any = spout.get_emitter("files", CONF, evolve(CONTEXT, parallelism=2))

    def define(self) -> Any:
        """The next batch; None: nothing is ready."""
        if not self.coordinator.is_ready(self.txid):
            return None
        defined: Any = self.coordinator.initialize_transaction(self.txid, None, None)
        metadata = json_copy(defined)
        self.cursors.update(self.coordinator.moved(defined))
        self.txid += 1
        return metadata

    def settle(self) -> Any:
        """The next batch after nothing has changed for as long as it takes."""
        assert self.define() is None
        self.now += SETTLED_SECONDS
        return self.define()

    def rows(self, metadata: Any) -> list[tuple[Any, ...]]:
        return emitted(self.emitter, TransactionAttempt(self.txid, 0), metadata)


def test_a_file_is_complete_when_it_has_not_changed_for_some_time(tmp_path: Path) -> None:
    world = World(tmp_path / "*.parquet")
    path = write(tmp_path / "a.parquet", 0, 2)
    assert world.define() is None
    assert world.coordinator.has_pending_input()
    world.now += 1
    write(path, 0, 3)
    assert world.settle()["files"] == [[str(path), path.stat().st_size, path.stat().st_mtime_ns]]
    assert not world.coordinator.is_ready(2)
    assert not world.coordinator.has_pending_input()


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_batch_has_the_rows_of_its_files_in_the_order_of_their_names(tmp_path: Path, kind: str) -> None:
    b, a = write(tmp_path / f"b.{kind}", 10), write(tmp_path / f"a.{kind}", 0, 5)
    world = World(tmp_path / "*", kind)
    assert world.rows(world.settle()) == [*rows(a, 0, 5), *rows(b, 10)]


def test_row_groups_are_shared_between_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.spouts.files.whole.SMALL_BYTES", 0)
    path, collector = write(tmp_path / "a.parquet", 0, 8), ListCollector()
    world = World(tmp_path / "*")
    world.emitter.emit_batch(TransactionAttempt(1, 0), world.settle(), collector)
    assert [[each.number for each in share] for share in collector.splits] == [[0, 1], [2, 3]]
    assert collector.rows == rows(path, 0, 8)


def test_a_batch_ends_at_its_size_and_a_larger_file_has_one_of_its_own(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.parquet", number) for number in range(3)]
    world = World(tmp_path / "*", max_bytes_per_batch=2 * paths[0].stat().st_size)
    first = world.settle()
    assert [path for path, *_ in first["files"]] == [str(path) for path in paths[:2]]
    assert [path for path, *_ in world.define()["files"]] == [str(paths[2])]
    small = World(tmp_path / "*", max_bytes_per_batch=1)
    assert [path for path, *_ in small.settle()["files"]] == [str(paths[0])]


def test_a_later_leader_reads_no_file_again_and_a_deleted_one_is_no_error(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", 0)
    world = World(tmp_path / "*")
    world.settle()
    world.restart()
    first.unlink()
    second = write(tmp_path / "b.parquet", 10)
    assert world.rows(world.settle()) == rows(second, 10)


def test_a_file_that_changes_after_it_was_defined_stops_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 0)
    world = World(tmp_path / "*")
    metadata = world.settle()
    write(path, 5)
    for look in (lambda: world.coordinator.is_ready(2), lambda: world.rows(metadata)):
        with pytest.raises(SpoutError, match=r"a\.parquet' was changed after a batch was defined"):
            look()
    path.unlink()
    with pytest.raises(SpoutError, match=r"a\.parquet' is gone, and a batch has its rows"):
        world.rows(metadata)


def test_a_file_that_changes_while_it_is_read_stops_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 0)
    world = World(tmp_path / "*")
    metadata = world.settle()

    class Changing(ListCollector):
        def emit_arrow(self, data: Any) -> None:
            os.utime(path, ns=(1, 1))

    with pytest.raises(SpoutError, match="was changed after a batch was defined"):
        world.emitter.emit_batch(TransactionAttempt(1, 0), metadata, Changing())


class Reporting(ListCollector):
    """Keeps what is reported."""

    def report_error(self, error: BaseException) -> None:
        self.splits.append(str(error))


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_file_that_is_not_one_is_skipped_and_reported_if_the_user_says_so(tmp_path: Path, kind: str) -> None:
    sound, torn = write(tmp_path / f"a.{kind}", 0), write(tmp_path / f"b.{kind}", 10)
    torn.write_bytes(torn.read_bytes()[:-9])
    with pytest.raises(SpoutError, match=f"b.{kind}' can't be read as {kind}"):
        (world := World(tmp_path / "*", kind)).rows(world.settle())
    world = World(tmp_path / "*", kind, on_bad_file="skip")
    metadata = world.settle()
    for _ in range(2):  # a replay leaves it out, too
        world.emitter.emit_batch(TransactionAttempt(1, 0), metadata, collector := Reporting())
        assert collector.rows == rows(sound, 0)
        (report,) = collector.splits
        assert f"b.{kind}' can't be read as {kind}" in report
    torn.unlink()
    with pytest.raises(SpoutError, match="is gone"):
        world.rows(metadata)


def test_files_that_are_left_out_are_reported_by_each_attempt(tmp_path: Path) -> None:
    old, new = write(tmp_path / "a.parquet", 0), write(tmp_path / "b.parquet", 10)
    os.utime(old, (0, 0))
    os.utime(new, (1000, 1000))
    world = World(tmp_path / "*")
    world.max_age, world.today = 60.0, 1000.0
    world.restart()
    metadata = world.define()
    for _ in range(2):
        world.emitter.emit_batch(TransactionAttempt(1, 0), metadata, collector := Reporting())
        (report,) = collector.splits
        assert f"1 files were left out, because they were older than max_age when they were found: '{old}'" in report
        assert not collector.rows
    world.now += SETTLED_SECONDS
    assert world.rows(world.define()) == rows(new, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "orc", "schema": "_path string"}, "can't have a field '_path'"),
        ({"format": "binary", "schema": "n int"}, "takes no schema: its rows have path"),
        ({"format": "parquet", "schema": SCHEMA, "options": {"mergeSchema": True}}, "takes no options"),
        ({"format": "parquet", "schema": SCHEMA, "on_decode_error": "skip"}, "takes no on_decode_error"),
        ({"format": "parquet", "schema": SCHEMA, "settled": 3}, "settled is a timedelta of 0 s or more"),
        (
            {"format": "parquet", "schema": SCHEMA, "on_bad_file": "null"},
            "on_bad_file is one of 'fail', 'skip', not 'null'",
        ),
        ({"format": "binary", "on_bad_file": "skip"}, "format='binary' takes no on_bad_file"),
        ({"on_bad_file": "skip"}, "format='text' takes no on_bad_file"),
        (
            {"format": "xml", "schema": SCHEMA},
            "format is one of 'text', 'json', 'csv', 'parquet', 'orc', 'avro', 'binary'",
        ),
    ],
)
def test_what_can_not_work_is_refused_at_the_declaration(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        FileSpout("*", **arguments)
