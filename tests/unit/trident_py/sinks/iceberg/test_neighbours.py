"""What others do to an Iceberg table between staging and commit: it goes on right, or stops by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from tests.unit.trident_py.sinks.iceberg.tables import Leader, rewrite, rows_in, table_at
from tests.unit.trident_py.sinks.tables.leaders import A, B, C, transaction
from trident_py import SinkError
from trident_py.errors import FailedException


def altered(alter: Callable[[Any], object]) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        with table.update_schema(allow_incompatible_changes=True) as update:
            alter(update)

    return change


def repartition(table: Table) -> None:
    with table.update_spec() as update:
        update.add_identity("word")


def overwrite(table: Table) -> None:
    table.overwrite(pa.table({"word": ["x"], "n": pa.array([9], pa.int64())}))


def changed(path: Path, change: Callable[[Table], object], **options: Any) -> Leader:
    """A leader that has committed A, and staged B before the table was changed."""
    leader = Leader(path, **options)
    leader.commit(1, A)
    staged = leader.staged(transaction(2), B)
    change(table_at(path))
    leader.transactions.commit(transaction(2), staged)
    return leader


def added(table: Table) -> None:
    altered(lambda update: update.add_column("more", StringType()))(table)


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (added, [(*A, None), (*B, None)]),
        (altered(lambda update: update.move_first("n")), [(1, "a"), (2, "b")]),
        (repartition, [A, B]),
    ],
    ids=["column", "order", "partitions"],
)
def test_rows_that_were_staged_before_a_change_are_written_again(
    tmp_path: Path, change: Callable[[Table], None], rows: list[Any]
) -> None:
    with pytest.raises(FailedException, match="they are written again"):
        changed(tmp_path, change)
    leader = Leader(tmp_path, epoch=2)
    leader.commit(2, B, attempt=1)
    assert rows_in(tmp_path) == rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (altered(lambda update: update.delete_column("n")), "field 'n' is not in the Iceberg table"),
        (altered(lambda update: update.rename_column("n", "m")), "field 'n' is not in the Iceberg table"),
        (
            altered(lambda update: update.add_column("more", LongType(), required=True, default_value=None)),
            "column 'more' of the Iceberg table .* is NOT NULL, and rows have none",
        ),
    ],
    ids=["dropped", "renamed", "required"],
)
def test_a_table_that_has_no_place_for_the_rows_any_more_stops_by_name(
    tmp_path: Path, change: Callable[[Table], None], message: str
) -> None:
    with pytest.raises(SinkError, match=message):
        changed(tmp_path, change)


def test_another_type_of_a_field_stops_by_name(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="field 'n' is int, and long in the Iceberg table"):
        changed(tmp_path, altered(lambda update: update.update_column("n", LongType())), schema="word string, n int")


def test_other_partitions_than_the_sink_was_given_stop_by_name(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"is partitioned by \['n', 'word'\], not by \['n'\]"):
        changed(tmp_path, repartition, partition_by=("n",))


@pytest.mark.parametrize("change", [overwrite, lambda table: table.delete("n > -100")], ids=["overwritten", "deleted"])
def test_rows_of_others_that_come_or_go_hinder_no_commit(tmp_path: Path, change: Callable[[Table], None]) -> None:
    changed(tmp_path, change)
    assert B in rows_in(tmp_path)
    assert A not in rows_in(tmp_path)


def test_rows_that_cant_be_replaced_stop_by_name_with_steps_that_mend_it(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B)
    rewrite(tmp_path)
    after = Leader(tmp_path, epoch=2)
    with pytest.raises(SinkError, match=r"delete its rows, which snapshot \d+ has added, by table\.delete") as caught:
        after.commit(2, C, attempt=1)
    (name, commit) = re.findall(r"set_properties\(\{'(.*)': '(.*)'\}\)", str(caught.value))[0]
    table = table_at(tmp_path)
    table.delete("n = 2")
    table.transaction().set_properties({name: commit}).commit_transaction()
    Leader(tmp_path, epoch=3).commit(2, C, attempt=2)
    assert rows_in(tmp_path) == [A, C]
    Leader(tmp_path, epoch=4).commit(2, B, attempt=3)  # the word was for one commit
    assert rows_in(tmp_path) == [A, B]
