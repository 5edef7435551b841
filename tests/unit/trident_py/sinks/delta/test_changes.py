"""`DeltaSink` with `sequence_by`: the table is as if each change had been made to it, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.sinks.changing import FIELDS, Table
from tests.unit.trident_py.sinks.delta.tables import Leader, rows_in
from tests.unit.trident_py.sinks.tables.leaders import transaction
from trident_py import CommitToken, DeltaSink, SinkError, TopologyError
from trident_py.errors import StoreBusyException
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.changes import MergeFields, stored_fields
from trident_py.sinks.delta import merging
from trident_py.sinks.delta.merging import AT, DELETE, INSERT, KEEPS, KIND, MOVE, WRITE, Fate, MergeSource, merge_source
from trident_py.sinks.delta.table import DeltaSinkTable

CHANGES = MergeFields.of(("_lsn", "_n"), "_op = 'delete'")
COLUMNS = ("id", "n", "doc")
Rows = dict[int, tuple[int, str]]


def source(table: Table) -> MergeSource:
    return merge_source(arrow_table(table.batch(), schema_of(FIELDS)), COLUMNS, ["id"], CHANGES)


def apply(source: MergeSource, before: Rows) -> Rows:
    """Return the rows after a merge, as Delta defines it."""
    after, matched = list[tuple[Any, ...]](), set[int]()
    for row in source.rows.to_pylist():
        at, kind = row[f"{AT}id"], row[KIND]
        if at in before and kind != INSERT:
            assert at not in matched
            matched.add(at)
            there = dict(zip(COLUMNS, (at, *before[at]), strict=True))
            values = tuple(there[name] if row.get(f"{KEEPS}{name}") else row[name] for name in COLUMNS)
            after += [values] if kind != DELETE else []
        elif kind in (WRITE, INSERT):
            after.append(tuple(row[name] for name in COLUMNS))
    after += [] if source.empties else [(id, *before[id]) for id in before.keys() - matched]
    found = {id: (n, doc) for id, n, doc in after}
    assert len(found) == len(after)
    return found


@given(st.data())
@settings(max_examples=100)
def test_a_merge_makes_each_change(data: st.DataObject) -> None:
    table, before = Table(), Rows()
    for _ in range(3):
        for _ in range(data.draw(st.integers(0, 8))):
            table.draw(data)
        before = apply(source(table), before)
        assert before == table.rows


def exchange(table: Table) -> None:
    """Exchange keys while large values stay, with each kind of change."""
    table.change("update", 5, 10, old=1, keeps=True)
    table.change("update", 1, 20, old=2, keeps=True)
    table.change("update", 2, 30, old=5, keeps=True)
    table.change("update", 6, 40, old=3, keeps=True)
    table.change("insert", 3, 3, "new")
    table.change("update", 7, 50, old=4, keeps=True)
    table.change("delete", 7)


def opened(path: Path, epoch: int = 1, **options: Any) -> Leader:
    schema = "id bigint, n bigint, doc string"
    made = Leader(path, epoch=epoch, schema=schema, keys=("id",), changes=CHANGES, **options)
    made.schema = FIELDS
    return made


def filled(table: Table) -> None:
    for id in (1, 2, 3, 4):
        table.change("insert", id, id, f"doc {id}")


def rows_by_id(path: Path) -> Rows:
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    return {row["id"]: (row["n"], row["doc"]) for row in found}


def without(kind: str, instead: str) -> Callable[[Iterator[Fate]], list[Fate]]:
    return lambda fates: [(instead if fate[0] == kind else fate[0], *fate[1:]) for fate in fates]


@pytest.mark.parametrize(
    "broken",
    [
        without(MOVE, INSERT),
        without(INSERT, WRITE),
        without(DELETE, WRITE),
        lambda fates: [fate for fate in fates if fate[0] != DELETE],
        lambda fates: [fate for fate in fates if fate[0] != MOVE],
    ],
    ids=["moved is inserted", "inserted is written", "deleted is written", "not deleted", "not moved"],
)
def test_each_fate_of_a_row_is_needed(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fates = merging.fates
    for is_broken in (False, True):
        table = Table()
        filled(table)
        before = apply(source(table), {})
        exchange(table)
        if is_broken:
            monkeypatch.setattr(merging, "fates", lambda merge: broken(fates(merge)))
        try:
            found = apply(source(table), before)
        except AssertionError:
            found = {}
        assert (found == table.rows) is not is_broken


@pytest.mark.parametrize("partition_by", [(), ("id",)])
def test_changes_are_merged_into_a_table_each_batch_in_one_commit(tmp_path: Path, partition_by: Any) -> None:
    table, leading = Table(), opened(tmp_path, partition_by=partition_by)
    filled(table)
    leading.commit(1, *table.batch())
    exchange(table)
    batch = table.batch()
    leading.commit(2, *batch)
    assert rows_by_id(tmp_path) == table.rows
    version = DeltaTable(tmp_path).version()
    leading.commit(2, *batch, attempt=1)
    assert rows_by_id(tmp_path) == table.rows
    assert DeltaTable(tmp_path).version() == version + 1  # the attempt is noted
    table.change("delete", 1)
    leading.commit(3, *[(*row[:1], 77, *row[2:]) for row in table.batch()])
    assert opened(tmp_path, 2, partition_by=partition_by).last == CommitToken(3, 1, 0)
    assert rows_by_id(tmp_path).keys() == {1, 2, 3, 6}


def test_truncate_empties_a_table(tmp_path: Path) -> None:
    table, leading = Table(), opened(tmp_path)
    filled(table)
    leading.commit(1, *table.batch())
    table.change("truncate", 0)
    table.change("insert", 2, 1, "new")
    leading.commit(2, *table.batch())
    assert rows_in(tmp_path) == [(2, 1, "new")]
    table.change("truncate", 0)
    leading.commit(3, *table.batch())
    leading.commit(4)
    assert rows_in(tmp_path) == []
    assert opened(tmp_path, 2).last == CommitToken(4, 1, 0)


@pytest.mark.long
@given(st.data())
@settings(max_examples=10)
def test_a_delta_table_is_as_if_each_change_had_been_made(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        table, leading = Table(), opened(Path(directory))
        for txid in range(1, 4):
            for _ in range(data.draw(st.integers(0, 8))):
                table.draw(data)
            leading.commit(txid, *table.batch())
            assert rows_by_id(Path(directory)) == table.rows


def test_changes_whose_answer_was_lost_are_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, leading, tx, made = Table(), opened(tmp_path), transaction(1), DeltaSinkTable.merge
    filled(table)
    batch = table.batch()
    staged = leading.staged(tx, *batch)

    def answer_lost(self: DeltaSinkTable, *arguments: Any) -> None:
        made(self, *arguments)
        raise ConnectionResetError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaSinkTable, "merge", answer_lost)
        with pytest.raises(StoreBusyException, match="the answer was lost"):
            leading.transactions.commit(tx, staged)
    DeltaTable(tmp_path).delete("id = 1")
    opened(tmp_path, 2).commit(1, *batch, attempt=1)
    assert [id for id, *_ in rows_in(tmp_path)] == [2, 3, 4]


def test_null_in_a_column_that_has_none_is_refused_and_allowed_in_a_deleted_row(tmp_path: Path) -> None:
    strict = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64()), pa.field("doc", pa.string(), False)])
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "n": [1, 2], "doc": ["a", "b"]}, schema=strict))
    leading, table = opened(tmp_path), Table({1: (1, "a"), 2: (2, "b")})
    table.change("delete", 1)
    table.change("update", 2, 3, keeps=True)
    leading.commit(1, *table.batch())
    assert rows_in(tmp_path) == [(2, 3, "b")]
    row = ("insert", 3, 3, None, None, None, 7, 1)
    with pytest.raises(SinkError, match="transaction 2 has a row in which the field 'doc' is null"):
        leading.commit(2, row)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"sequence_by": ()}, "needs sequence_by="),
        ({"mode": "append", "keys": ()}, "sequence_by= and deletes= are for mode='merge' only"),
        ({"sequence_by": "at"}, "there is no field 'at'"),
        ({"keys": "_lsn"}, "there is no field '_lsn'"),
        ({"partition_by": "_op"}, "there is no field '_op'"),
    ],
)
def test_a_delta_sink_of_changes_that_can_not_work_is_refused(options: dict[str, Any], refusal: str) -> None:
    given = {"mode": "merge", "keys": "id", "sequence_by": ("_lsn", "_n"), "deletes": "_op = 'delete'", **options}
    with pytest.raises(TopologyError, match=refusal):
        DeltaSink("copy", **given).check_fields(schema_of(FIELDS))


def test_only_stored_fields_are_columns_of_the_table() -> None:
    sink = DeltaSink("copy", mode="merge", keys="id", sequence_by=("_lsn", "_n"))
    sink.check_fields(schema_of(FIELDS))
    assert sink._transactions.fields == stored_fields(schema_of(FIELDS))
    assert sink._transactions.columns(schema_of(FIELDS)).names == [*COLUMNS]
    assert sink.needs_exact_replays
    assert not sink.replaces_by
