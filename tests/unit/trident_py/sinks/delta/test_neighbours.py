"""What others do to a Delta table while a topology writes to it, or is down: it goes on right, or stops by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.unit.trident_py.sinks.delta.tables import Leader, append, clean_up, files_of, rewrite, rows_in
from tests.unit.trident_py.sinks.tables.leaders import A, B, C, transaction
from trident_py import CommitToken, SinkError
from trident_py.errors import FailedException
from trident_py.sinks.delta.table import DeltaSinkTable

D = ("d", 4)
WORDS = pa.table({"word": ["x"], "n": pa.array([9], pa.int64())})


def overwrite(path: Path) -> None:
    other = pa.table({"word": ["x"], "q": [1.5]})
    write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")


def retype(path: Path) -> None:
    other = pa.table({"word": ["x"], "n": ["text"]})
    write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")


def repartition(path: Path) -> None:
    write_deltalake(path, WORDS, mode="overwrite", schema_mode="overwrite", partition_by=["word"])


def constrain(path: Path) -> None:
    DeltaTable(path).alter.add_constraint({"positive": "n > 0"})


def recreate(path: Path) -> None:
    shutil.rmtree(path / "_delta_log")
    for _ in range(5):
        write_deltalake(path, WORDS, mode="append")


def require(path: Path) -> None:
    """Have a column be NOT NULL, as Spark does; delta-rs can't."""
    alter_log(path, lambda schema: schema["fields"][1].update(nullable=False))


def add_required(path: Path) -> None:
    column = {"name": "more", "type": "string", "nullable": False, "metadata": {}}
    alter_log(path, lambda schema: schema["fields"].append(column))


def alter_log(path: Path, change: Callable[[Any], Any]) -> None:
    entries = sorted((path / "_delta_log").glob("*.json"))
    found = [json.loads(line) for entry in entries for line in entry.read_text().splitlines() if "metaData" in line]
    metadata = found[-1]["metaData"]
    schema = json.loads(metadata["schemaString"])
    change(schema)
    metadata["schemaString"] = json.dumps(schema)
    version = DeltaTable(path).version() + 1
    (path / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"metaData": metadata}))


STOPS = [
    (overwrite, "field 'n' is not in the Delta table"),
    (retype, "field 'n' is long, and string in the Delta table"),
    (repartition, r"is partitioned by \['word'\], not by \[\]; to fix this: give the sink partition_by"),
    (constrain, "has delta.constraints.positive, which rows that are written as plain files don't respect"),
    (recreate, "had transaction 1, and has 0 now: it was replaced"),
    (shutil.rmtree, "is gone; to fix this: restore it"),
    (add_required, "column 'more' of the Delta table .* is NOT NULL, and rows have no such field"),
]


@pytest.mark.parametrize(("change", "message"), STOPS)
@pytest.mark.parametrize("merges", [False, True], ids=["appends", "merges"])
def test_a_table_that_was_changed_before_a_commit_stops_by_name_and_gets_nothing(
    tmp_path: Path, change: Callable[[Path], None], message: str, merges: bool
) -> None:
    leader = Leader(tmp_path / "t", keys=("word",) if merges else ())
    leader.commit(1, A)
    staged = leader.staged(transaction(2), B)
    change(tmp_path / "t")
    before = state_of(tmp_path / "t")
    for _ in range(2):
        with pytest.raises(SinkError, match=message):
            leader.transactions.commit(transaction(2), staged)
    assert state_of(tmp_path / "t") == before


@pytest.mark.parametrize(("change", "message"), STOPS[:4])
def test_a_table_that_was_changed_between_the_look_and_the_commit_stops_by_name_too(
    tmp_path: Path, change: Callable[[Path], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    commit = DeltaSinkTable.commit

    def late(self: DeltaSinkTable, *arguments: Any) -> None:
        monkeypatch.setattr(DeltaSinkTable, "commit", commit)
        change(tmp_path)
        commit(self, *arguments)

    monkeypatch.setattr(DeltaSinkTable, "commit", late)
    with pytest.raises(SinkError, match=message):
        leader.commit(2, B)
    assert B not in rows_in(tmp_path)


def test_a_table_that_is_removed_before_its_rows_are_written_stops_by_name(tmp_path: Path) -> None:
    leader = Leader(tmp_path / "t")
    leader.commit(1, A)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(SinkError, match="is gone; to fix this: restore it"):
        leader.staged(transaction(2), B)


def state_of(path: Path) -> Any:
    return (DeltaTable(path).version(), files_of(path)) if path.exists() else None


def test_a_column_that_was_added_meanwhile_is_null_in_rows_that_were_staged_before(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    staged = leader.staged(transaction(2), B)
    alter_log(tmp_path, lambda schema: schema["fields"].append({**schema["fields"][0], "name": "more"}))
    leader.transactions.commit(transaction(2), staged)
    leader.commit(3, C)
    assert rows_in(tmp_path) == [(*A, None), (*B, None), (*C, None)]


def test_a_field_that_became_not_null_after_rows_were_staged_has_them_written_again(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    staged = leader.staged(transaction(2), ("b", None))
    require(tmp_path)
    with pytest.raises(FailedException, match="became NOT NULL after rows were written for it"):
        leader.transactions.commit(transaction(2), staged)
    assert rows_in(tmp_path) == [A]


@pytest.mark.parametrize("change", [lambda path: append(path, D), rewrite, clean_up])
def test_what_moves_or_adds_rows_between_two_commits_hinders_none(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B)
    change(tmp_path)
    leader.commit(3, C)
    assert [row for row in rows_in(tmp_path) if row != D] == [A, B, C]


def test_a_version_that_is_restored_takes_its_rows_away_and_hinders_no_commit(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    version = DeltaTable(tmp_path).version()
    leader.commit(2, B)
    DeltaTable(tmp_path).restore(version)
    leader.commit(3, C)
    assert rows_in(tmp_path) == [A, C]
    assert Leader(tmp_path, epoch=2).last == CommitToken(3, 1, 0)


@pytest.mark.parametrize("name", ["word", "n"])
def test_a_table_that_is_overwritten_with_the_same_fields_goes_on(tmp_path: Path, name: str) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    staged = leader.staged(transaction(2), B)
    write_deltalake(tmp_path, WORDS, mode="overwrite")
    DeltaTable(tmp_path).delete(f"{name} IS NULL")
    leader.transactions.commit(transaction(2), staged)
    assert rows_in(tmp_path) == [B, ("x", 9)]


# --- a compaction between a commit and its replay with other rows -----------------------------------------------------


def crashed(path: Path, **options: Any) -> Leader:
    """A leader that has committed two transactions, the second of which is to come again, and rows of others."""
    leader = Leader(path, **options)
    leader.commit(1, A)
    append(path, D)
    leader.commit(2, B, C, B)
    append(path, D)
    return leader


def replayed(path: Path, *rows: tuple[Any, ...], **options: Any) -> list[tuple[Any, ...]]:
    """What is there when the next leader has committed the second transaction with other rows."""
    Leader(path, epoch=2, **options).commit(2, *rows, attempt=1)
    return rows_in(path)


def test_rows_that_were_compacted_meanwhile_are_replaced_all_the_same(tmp_path: Path) -> None:
    crashed(tmp_path)
    rewrite(tmp_path)
    assert len(files_of(tmp_path)) == 1
    assert replayed(tmp_path, C, C) == [A, C, C, D, D]


def test_rows_that_were_compacted_twice_with_rows_that_came_between_are_replaced(tmp_path: Path) -> None:
    crashed(tmp_path)
    rewrite(tmp_path)
    append(tmp_path, ("e", 5))
    rewrite(tmp_path)
    append(tmp_path, ("f", 6))
    DeltaTable(tmp_path).create_checkpoint()
    assert replayed(tmp_path, C) == [A, C, D, D, ("e", 5), ("f", 6)]


@pytest.mark.parametrize("word", ["a/b", "100%", "a b=c", "x\ny", "é"])
def test_files_of_partitions_come_back_where_they_were(tmp_path: Path, word: str) -> None:
    leader = Leader(tmp_path, partition_by=("word",))
    leader.commit(1, (word, 1), A)
    for n in (2, 3):
        more = pa.table({"word": [word, "a"], "n": [n, n]})
        write_deltalake(tmp_path, more, mode="append", partition_by=["word"])
    leader.commit(2, (word, 7), ("a", 7))
    rewrite(tmp_path)
    found = replayed(tmp_path, (word, 8), partition_by=("word",))
    assert found == sorted([(word, 1), A, (word, 2), ("a", 2), (word, 3), ("a", 3), (word, 8)])


def test_a_replay_with_the_same_rows_leaves_what_was_compacted(tmp_path: Path) -> None:
    crashed(tmp_path)
    rewrite(tmp_path)
    before = files_of(tmp_path)
    assert replayed(tmp_path, C, B, B) == sorted([A, B, B, C, D, D])
    assert files_of(tmp_path) == before


def test_rows_whose_files_a_vacuum_has_removed_stop_by_name_with_steps_that_mend_it(tmp_path: Path) -> None:
    crashed(tmp_path)
    version = DeltaTable(tmp_path).version() - 1
    rewrite(tmp_path)
    away = [each for each in tmp_path.glob("*.parquet") if each.name not in files_of(tmp_path)]
    for each in away:
        each.rename(each.with_suffix(".away"))
    with pytest.raises(SinkError, match=rf"a vacuum has removed .*\.restore\({version - 1}\)"):
        replayed(tmp_path, C)
    for each in away:
        each.with_suffix(".away").rename(each)
    DeltaTable(tmp_path).restore(version - 1)
    Leader(tmp_path, epoch=3).commit(2, C, attempt=2)
    assert rows_in(tmp_path) == [A, C, D]


def test_rows_that_were_rewritten_by_a_delete_stop_by_name(tmp_path: Path) -> None:
    crashed(tmp_path)
    rewrite(tmp_path)
    DeltaTable(tmp_path).delete("word = 'b'")
    with pytest.raises(
        SinkError, match=r"DELETE has rewritten .*; to fix this: deltalake's `DeltaTable\(.*\)\.restore"
    ):
        replayed(tmp_path, C)
    with pytest.raises(SinkError, match="DELETE has rewritten"):
        Leader(tmp_path, epoch=3).commit(2, C, attempt=2)


def test_rows_that_were_deleted_with_their_files_need_no_replacing(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B)
    DeltaTable(tmp_path).delete("word = 'b'")
    assert replayed(tmp_path, C) == [A, C]
