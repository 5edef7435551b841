"""What a task writes, how it is divided, and what the table's manifests say of it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.unit.trident_py.sinks.iceberg.tables import (
    NAME,
    Leader,
    catalog_at,
    files_in,
    files_of,
    rows_in,
    rows_of_files,
    table_at,
)
from tests.unit.trident_py.sinks.tables.leaders import EVERY_TYPE, EVERY_VALUE, NOON, TOPOLOGY, transaction
from trident_py import FailedException, SinkError
from trident_py.rows.schema import schema_of
from trident_py.sinks.iceberg.staging import IcebergStorage
from trident_py.sinks.iceberg.transactions import IcebergTransactions

FIELDS = EVERY_TYPE.replace("n bigint", "n bigint, small smallint")
ROW = (*EVERY_VALUE[:2], 3, *EVERY_VALUE[2:])
NULLS = (None,) * len(ROW)


def test_rows_of_every_type_come_back_and_readers_can_skip_files_by_their_bounds(tmp_path: Path) -> None:
    Leader(tmp_path, schema=FIELDS).commit(1, ROW, NULLS)
    found = table_at(tmp_path).scan().to_arrow().sort_by("n").to_pylist()
    assert list(found[0].values())[:-3] == list(ROW)[:-3]
    assert (found[0]["tags"], found[0]["seen"], found[0]["s"]) == (["x", None], [("a", None)], {"a": 1, "b": None})
    assert set(found[1].values()) == {None}
    assert len(list(table_at(tmp_path).scan("n = -1").plan_files())) == 1
    assert len(list(table_at(tmp_path).scan("n > 5").plan_files())) == 0


PARTITIONS = ["word", "n", "b", "at", "local", "day", "price", "data"]
MADE = ["year(day)", "month(at)", "day(local)", "hour(at)", "bucket(4, word)", "bucket(4, at)", "truncate(2, word)"]


@pytest.mark.parametrize("made", [PARTITIONS, MADE], ids=["values", "what is made of them"])
def test_a_table_is_partitioned_by_values_and_by_what_iceberg_makes_of_them(tmp_path: Path, made: list[str]) -> None:
    for number, partition in enumerate(made):
        path = tmp_path / str(number)
        leader = Leader(path, schema=FIELDS, partition_by=(partition,))
        leader.commit(1, ROW, NULLS, ROW)
        assert len(files_of(path)) == 2
        wanted = partition.rstrip(")").split("(")[-1].split(", ")[-1]
        place = FIELDS.split(", ").index(next(each for each in FIELDS.split(", ") if each.split()[0] == wanted))
        place -= FIELDS.split(", ")[:place].count("2)")  # of decimal(7, 2)
        table = table_at(path)
        assert Counter(table.scan().to_arrow()[wanted].to_pylist()) == {ROW[place]: 2, None: 1}
        assert table.scan(f"{wanted} is null").count() == 1
        Leader(path, epoch=2, schema=FIELDS, partition_by=(partition,))


def test_rows_are_divided_by_several_partitions_and_a_batch_that_comes_again_replaces_those_only(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, schema="p string, q int, n bigint", partition_by=("p", "bucket(2, q)"))
    rows: list[tuple[Any, ...]] = [(p, q, n) for p in ("a", "", "/=%", None) for q in (1, None) for n in range(3)]
    leader.commit(1, *rows)
    leader.commit(2, ("a", 1, 9))
    leader.commit(2, ("b", 1, 9), attempt=1)
    assert rows_in(tmp_path) == rows_of_files(tmp_path) == sorted([*rows, ("b", 1, 9)], key=str)


def test_many_times_of_one_day_go_into_one_file(tmp_path: Path) -> None:
    leader = Leader(tmp_path, schema="at timestamp, n bigint", partition_by=("day(at)",))
    times = [NOON.replace(tzinfo=UTC, microsecond=n) for n in range(100)]
    leader.commit(1, *[(at, n) for n, at in enumerate(times)])
    assert len(files_in(tmp_path)) == 2


def made_by_others(path: Path, *fields: NestedField, version: int = 2, **layout: Any) -> None:
    catalog = load_catalog(**catalog_at(path))
    try:
        catalog.create_namespace("web")
    except NamespaceAlreadyExistsError:
        catalog.drop_table(NAME)
    catalog.create_table(NAME, Schema(*fields), properties={"format-version": str(version)}, **layout)


WORD = NestedField(7, "word", StringType(), required=True)
N = NestedField(9, "n", LongType())


def test_a_table_that_others_made_keeps_its_fields_and_partitions(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(7, 1000, BucketTransform(4), "w"))
    extra = NestedField(8, "extra", StringType())
    made_by_others(tmp_path, WORD, extra, N, partition_spec=spec)
    Leader(tmp_path).commit(1, ("a", 1))
    assert rows_in(tmp_path) == [("a", None, 1)]
    Leader(tmp_path, epoch=2, partition_by=("bucket(4,word)",))
    with pytest.raises(SinkError, match=r"is partitioned by \['bucket\(4, word\)'\], not by \['word'\]"):
        Leader(tmp_path, epoch=3, partition_by=("word",))
    with pytest.raises(SinkError, match="field 'word' is null in a row, and the table"):
        Leader(tmp_path, epoch=3).commit(2, (None, 1))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("word string, m bigint", r"field 'm' is not in the Iceberg table .*'web\.events', which has"),
        ("word string, n string", "field 'n' is string, and long in the Iceberg table"),
        ("n bigint", "column 'word' of the Iceberg table .* is NOT NULL, and rows have none"),
    ],
)
def test_rows_that_do_not_fit_are_refused_at_the_start(tmp_path: Path, schema: str, message: str) -> None:
    made_by_others(tmp_path, WORD, N)
    with pytest.raises(SinkError, match=message):
        Leader(tmp_path, schema=schema)


def test_a_table_of_a_version_that_keeps_no_late_leader_out_is_refused(tmp_path: Path) -> None:
    made_by_others(tmp_path, N, version=1)
    with pytest.raises(SinkError, match="has format version 1, in which a rollback would let a late leader commit"):
        Leader(tmp_path, schema="n bigint")


def test_what_can_not_be_made_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"pyiceberg can't make the table 'web\.events'"):
        Leader(tmp_path, schema="n bigint, b boolean", partition_by=("day(b)",))


@pytest.mark.parametrize("given", [{"type": "nowhere"}, {"uri": "gopher://me:hush@host"}, {}])
def test_a_catalog_that_can_not_be_used_is_named_without_its_secrets(given: dict[str, str]) -> None:
    broken = IcebergTransactions((), NAME, {**given, "token": "hush"})
    with pytest.raises(SinkError, match="pyiceberg can't use the catalog of") as caught:
        broken.recover(TOPOLOGY, 1)
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_table_that_others_change_meanwhile_gets_the_rows_written_anew(tmp_path: Path) -> None:
    leader, tx = Leader(tmp_path), transaction(1)
    staged = leader.staged(tx, ("a", 1))
    with table_at(tmp_path).update_schema() as theirs:
        theirs.add_column("extra", StringType())
    with pytest.raises(FailedException, match="were changed after rows were written for it; they are written again"):
        leader.transactions.commit(tx, staged)
    leader.commit(1, ("a", 1), attempt=1)
    assert rows_in(tmp_path) == [("a", 1, None)]


def test_tasks_are_told_how_to_reach_the_files_and_nothing_of_the_catalog(tmp_path: Path) -> None:
    Leader(tmp_path)
    given = {"uri": "postgresql://me:hush@host/db", "token": "hush", "s3.secret-access-key": "quiet"}
    storage = IcebergStorage.of(table_at(tmp_path).metadata, given)
    assert storage.properties == {"s3.secret-access-key": "quiet"}
    assert "quiet" not in repr(storage)
    transactions = IcebergTransactions((), NAME, given)
    transactions.fields = schema_of("n int")
    assert "hush" not in repr(transactions)


@pytest.mark.parametrize(
    ("kind", "partition", "value"),
    [("int", "truncate(10, v)", -(2**31)), ("bigint", "truncate(10, v)", -(2**63))],
)
def test_a_value_of_which_iceberg_cant_make_a_partition_is_refused_by_name(
    tmp_path: Path, kind: str, partition: str, value: object
) -> None:
    """apache/iceberg#9767: the greatest multiple below it is no value of the type."""
    leader = Leader(tmp_path, schema=f"n bigint, v {kind}", partition_by=(partition,))
    leader.commit(1, (1, 7))
    with pytest.raises(SinkError, match=rf"field 'v' has the value {value} .* can't make the partition truncate"):
        leader.staged(transaction(2), (1, 7), (2, value))
