"""`DeltaSink` with keys: a row takes the place of the one before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from deltalake import DeltaTable, write_deltalake

from tests.unit.trident_py.sinks.delta.tables import Leader, files_in, rows_in
from tests.unit.trident_py.sinks.tables.leaders import transaction
from trident_py import CommitToken, DeltaSink, FencedError, SinkError, TopologyError
from trident_py.errors import StoreBusyException
from trident_py.rows.schema import schema_of
from trident_py.sinks.delta import transactions as protocol
from trident_py.sinks.delta.table import DeltaSinkTable


def leader(path: Path, epoch: int = 1, **options: object) -> Leader:
    return Leader(path, epoch=epoch, keys=("word",), **options)  # type: ignore[arg-type]


def staged_files(path: Path) -> set[str]:
    return {each for each in files_in(path) if each.startswith("trident-")}


def test_a_row_takes_the_place_of_the_one_with_its_key_and_others_stay(tmp_path: Path) -> None:
    leading = leader(tmp_path)
    leading.commit(1, ("a", 1), ("b", 2))
    leading.commit(2, ("b", 5), ("c", 6))
    leading.commit(3)
    assert rows_in(tmp_path) == [("a", 1), ("b", 5), ("c", 6)]
    assert staged_files(tmp_path) == set()
    assert leader(tmp_path, 2).last == CommitToken(3, 1, 0)


def test_null_is_a_key(tmp_path: Path) -> None:
    leading = leader(tmp_path)
    leading.commit(1, (None, 1))
    leading.commit(2, (None, 2))
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == [{"word": None, "n": 2}]


def test_keys_in_partitions_replace_each_other_too(tmp_path: Path) -> None:
    leading = Leader(tmp_path, schema="word string, n bigint, day date", partition_by=("word",), keys=("word", "n"))
    leading.commit(1, ("a", 1, None), ("b", 1, None))
    leading.commit(2, ("a", 1, None), ("a", 2, None))
    table = DeltaTable(tmp_path).to_pyarrow_table()
    assert sorted(zip(table["word"].to_pylist(), table["n"].to_pylist(), strict=True)) == [("a", 1), ("a", 2), ("b", 1)]


def test_a_transaction_that_comes_again_changes_nothing_even_where_others_wrote_since(tmp_path: Path) -> None:
    """The repros of apache/paimon#9666 and delta-io/delta#1813 with keys."""
    leader(tmp_path).commit(1, ("a", 1))
    write_deltalake(tmp_path, pa.table({"word": ["x"], "n": [0]}), mode="append")
    after = leader(tmp_path, 2)
    after.commit(1, ("a", 1), attempt=1)
    assert rows_in(tmp_path) == [("a", 1), ("x", 0)]
    assert staged_files(tmp_path) == set()
    assert leader(tmp_path, 3).last == CommitToken(1, 2, 1)


def test_rows_that_replace_those_of_an_older_attempt_are_merged_once(tmp_path: Path) -> None:
    leading = leader(tmp_path)
    leading.commit(1, ("a", 1), ("b", 2))
    leading.commit(2, ("a", 5), ("c", 6))
    tx = evolve(transaction(2, attempt_id=1), replaces=True)
    staged = leading.staged(tx, ("a", 1), ("c", None), ("d", 4))
    for _ in range(2):
        leading.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == [("a", 1), ("b", 2), ("c", None), ("d", 4)]
    assert DeltaTable(tmp_path).version() == 4
    assert staged_files(tmp_path) == set()
    assert leader(tmp_path, 2).last == CommitToken(2, 1, 1)


def test_a_merge_whose_answer_was_lost_is_not_made_twice_even_where_others_wrote_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leading, tx = leader(tmp_path), transaction(1)
    staged, merge = leading.staged(tx, ("a", 1), ("b", 2)), DeltaSinkTable.merge

    def answer_lost(self: DeltaSinkTable, *arguments: Any) -> None:
        merge(self, *arguments)
        raise ConnectionResetError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaSinkTable, "merge", answer_lost)
        with pytest.raises(StoreBusyException, match="the answer was lost"):
            leading.transactions.commit(tx, staged)
    assert staged_files(tmp_path)
    leading.transactions.abort(tx, staged)
    assert staged_files(tmp_path) == set()
    DeltaTable(tmp_path).update(updates={"n": "7"}, predicate="word = 'a'")
    leading.commit(1, ("a", 1), ("b", 2), attempt=1)
    assert leader(tmp_path, 2).last == CommitToken(1, 1, 1)
    assert rows_in(tmp_path) == [("a", 7), ("b", 2)]


def test_what_a_leader_has_merged_and_left_is_swept_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leading = leader(tmp_path)
    leading.commit(1, ("a", 1))
    with monkeypatch.context() as patch:
        patch.setattr(protocol, "discard", lambda storage, paths: None)
        leading.commit(2, ("a", 2))
    assert staged_files(tmp_path)
    leader(tmp_path, 2)
    assert staged_files(tmp_path) == set()
    assert rows_in(tmp_path) == [("a", 2)]


def test_a_leader_that_was_overtaken_merges_nothing(tmp_path: Path) -> None:
    old = leader(tmp_path)
    tx = transaction(1)
    staged = old.staged(tx, ("a", 1))
    leader(tmp_path, 2)
    with pytest.raises(FencedError):
        old.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == []


def test_two_rows_with_one_key_are_an_error_that_shows_it(tmp_path: Path) -> None:
    leading = leader(tmp_path)
    with pytest.raises(SinkError, match=r"transaction 1 has 2 rows with the key \{'word': 'a'\}"):
        leading.commit(1, ("a", 1), ("b", 1), ("a", 2))
    assert rows_in(tmp_path) == []


def test_a_field_that_only_the_table_has_stays_as_it_is_and_is_null_in_new_rows(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"word": ["a"], "n": [0], "more": ["m"]}))
    leader(tmp_path).commit(1, ("a", 1), ("b", 2))
    assert rows_in(tmp_path) == [("a", 1, "m"), ("b", 2, None)]


def test_minus_zero_is_the_key_zero_within_a_transaction_and_over_several(tmp_path: Path) -> None:
    leader = Leader(tmp_path, schema="x double, n bigint", keys=("x",))
    leader.commit(1, (0.0, 1), (1.5, 1))
    leader.commit(2, (-0.0, 2))
    assert rows_in(tmp_path) == [(0.0, 2), (1.5, 1)]
    with pytest.raises(SinkError, match=r"2 rows with the key \{'x': 0\.0\}"):
        leader.commit(3, (0.0, 3), (-0.0, 4))


@pytest.mark.parametrize("kind", ["array<int>", "struct<a:int>"])
def test_keys_that_no_merge_compares_are_refused_where_they_are_declared(tmp_path: Path, kind: str) -> None:
    sink = DeltaSink(tmp_path / "t", mode="merge", keys="k")
    with pytest.raises(TopologyError, match=f"field 'k' is {kind}, and deltalake can't merge by such a key"):
        sink.check_fields(schema_of(f"k {kind}, v int"))
