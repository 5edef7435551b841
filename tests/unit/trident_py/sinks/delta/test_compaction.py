"""What `DeltaSink(compact_every=…)` makes of many small files, and that no row is lost or there twice by it, ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from coordinators.values.canonical import NO_ROWS
from tests.unit.trident_py.sinks.delta.tables import (
    Leader,
    append,
    clean_up,
    delete_by_vector,
    files_in,
    files_of,
    rewrite,
    rows_in,
)
from tests.unit.trident_py.sinks.tables.crashes import Crash, at_line
from tests.unit.trident_py.sinks.tables.leaders import EVERY_TYPE, EVERY_VALUE, A, B, C
from tests.unit.trident_py.spouts.delta.test_spout import run
from trident_py import CommitToken, SinkError
from trident_py.sinks.delta import compaction
from trident_py.sinks.delta.staging import Storage
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.delta.transactions import DeltaTransactions
from trident_py.sinks.tables.staging import StagedFile
from trident_py.sinks.tables.table import Conflict

D, E = ("d", 4), ("e", 5)


def compact(leader: Leader) -> None:
    """As the thread does that the last commit has begun."""
    transactions = cast("DeltaTransactions", leader.transactions)
    compaction.compact(transactions.storage, leader.topology.uuid, transactions._leading.token)


def wait_for_compaction(leader: Leader) -> None:
    cast("DeltaTransactions", leader.transactions).close()


def compacted(path: Path) -> set[str]:
    return {each for each in files_of(path) if each.startswith("trident-a-uuid-compacted/")}


def test_small_files_become_one_after_each_so_many_transactions_but_for_those_of_the_last(tmp_path: Path) -> None:
    leader = Leader(tmp_path, compact_every=3)
    for txid in range(1, 10):
        leader.commit(txid, ("a", txid), ("b", txid))
        wait_for_compaction(leader)
        assert rows_in(tmp_path) == sorted((word, n) for word in "ab" for n in range(1, txid + 1))
        assert len(compacted(tmp_path)) == min(1, txid // 3)
    assert len(files_of(tmp_path)) == 3
    assert Leader(tmp_path, epoch=2).last == CommitToken(9, 1, 0)
    assert DeltaTable(tmp_path).history(1)[0].get("trident") is None  # the fence; the one before is a compaction
    assert DeltaTable(tmp_path).history(2)[1]["trident"] == "compaction"


def test_a_reader_of_versions_is_given_each_row_once(tmp_path: Path) -> None:
    leader, reader = Leader(tmp_path), run(tmp_path, start_version=0)
    seen = []
    for txid in range(1, 8):
        leader.commit(txid, ("a", txid), ("b", txid))
        if txid % 2:
            compact(leader)
        if txid % 3 == 0:
            seen += [row for batch in reader.batches() for row in batch]
    seen += [row for batch in reader.batches() for row in batch]
    assert sorted(seen) == rows_in(tmp_path)
    assert [sorted(batch) for batch in run(tmp_path).batches()] == [rows_in(tmp_path)]


def test_rows_of_every_type_and_partition_are_moved_as_they_are(tmp_path: Path) -> None:
    nulls = (None,) * len(EVERY_VALUE)
    leader = Leader(tmp_path, schema=EVERY_TYPE, partition_by=("word", "day", "price", "at", "b"))
    for txid in range(1, 4):
        leader.commit(txid, EVERY_VALUE, nulls)
    wanted = sorted(rows_in_order(tmp_path), key=repr)
    compact(leader)
    assert len(compacted(tmp_path)) == 2
    assert sorted(rows_in_order(tmp_path), key=repr) == wanted
    found = DeltaTable(tmp_path).to_pyarrow_table(filters=[("word", "=", "wört")])
    assert found.num_rows == 3
    leader.commit(4, EVERY_VALUE)
    compact(leader)
    assert len(rows_in_order(tmp_path)) == 7


def rows_in_order(path: Path) -> list[dict[str, Any]]:
    return list(DeltaTable(path).to_pyarrow_table().to_pylist())


def test_fields_that_the_table_has_got_since_are_null_and_readers_skip_files_by_their_bounds(tmp_path: Path) -> None:
    Leader(tmp_path).commit(1, A)
    leader = Leader(tmp_path, epoch=2, schema="word string, n bigint, more int", merge_schema=True)
    for txid in range(2, 5):
        leader.commit(txid, ("b", txid, 5))
    compact(leader)
    assert len(files_of(tmp_path)) == 2
    assert rows_in(tmp_path) == [("a", 1, None), ("b", 2, 5), ("b", 3, 5), ("b", 4, 5)]
    actions = DeltaTable(tmp_path).get_add_actions(flatten=True)
    assert sorted(zip(actions["min.n"].to_pylist(), actions["max.n"].to_pylist(), strict=True)) == [(1, 3), (4, 4)]


def test_the_last_transaction_can_still_come_again_with_other_rows(tmp_path: Path) -> None:
    leader = Leader(tmp_path, compact_every=1)
    for txid, row in ((1, A), (2, B), (3, C)):
        leader.commit(txid, row)
        wait_for_compaction(leader)
    after = Leader(tmp_path, epoch=2)
    after.commit(3, D, attempt=1)
    assert rows_in(tmp_path) == [A, B, D]
    assert len(files_of(tmp_path)) == 2


def test_files_of_others_and_those_of_which_rows_are_deleted_stay(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    append(tmp_path, ("other", 0))
    append(tmp_path, ("other", 1))
    for txid in range(1, 5):
        leader.commit(txid, *(("a", 4 * txid + n) for n in range(4)))
    kept = sorted(each for each in files_of(tmp_path) if not each.startswith("trident-"))
    [first, *_] = [each for each in files_of(tmp_path) if "/1-0-" in each]
    delete_by_vector(tmp_path, first, 0, 1)
    compact(leader)
    there = files_of(tmp_path)
    assert first in there
    assert len(compacted(tmp_path)) == 1
    assert sorted(each for each in there if not each.startswith("trident-")) == kept
    after = Leader(tmp_path, epoch=2)
    after.commit(5, A, B, C, D)
    [last, _] = [each for each in files_of(tmp_path) if "/5-0-" in each]
    delete_by_vector(tmp_path, last, 0, 1)
    with pytest.raises(SinkError, match="of the 4 rows then, 2 are still in its files"):
        after.commit(5, B, attempt=1)


def test_a_table_with_a_rule_that_was_added_since_is_left_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader(tmp_path)
    for txid in (1, 2, 3):
        leader.commit(txid, ("c", txid))
    DeltaTable(tmp_path).alter.add_constraint({"positive": "n > 0"})
    begun = compaction.Compaction(Storage(str(tmp_path)), 3)
    with caplog.at_level(logging.WARNING):
        begun.begin(leader.topology.uuid, leader.transactions._leading.token)
        begun.close()
    assert "is not compacted now, and will be after 3 more transactions: the Delta table" in caplog.text
    assert len(rows_in(tmp_path)) == len(files_of(tmp_path)) == 3


def test_one_that_takes_long_holds_no_commit_up_and_no_second_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, began = threading.Event(), []

    def slow(*_: Any) -> None:
        began.append(1)
        assert may_end.wait(60)

    monkeypatch.setattr(compaction, "compact", slow)
    leader = Leader(tmp_path, compact_every=1)
    for txid in range(1, 4):
        leader.commit(txid, ("a", txid))
    assert rows_in(tmp_path) == [("a", 1), ("a", 2), ("a", 3)]
    may_end.set()
    wait_for_compaction(leader)
    assert began == [1]
    leader.commit(4, D)
    wait_for_compaction(leader)
    assert began == [1, 1]


def test_an_answer_that_was_lost_costs_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(tmp_path)
    for txid, row in ((1, A), (2, B), (3, C)):
        leader.commit(txid, row)
    commit = DeltaSinkTable.compact

    def answered(error: Exception) -> None:
        def lost(self: DeltaSinkTable, *arguments: Any) -> None:
            commit(self, *arguments)
            raise error

        monkeypatch.setattr(DeltaSinkTable, "compact", lost)

    answered(Conflict("there is such a version, as this very commit was sent twice"))
    compact(leader)
    assert rows_in(tmp_path) == [A, B, C]
    assert len(files_of(tmp_path)) == 2
    for txid, row in ((4, D), (5, E), (6, A)):
        leader.commit(txid, row)
    answered(ConnectionResetError("the answer was lost"))
    with pytest.raises(ConnectionResetError):
        compact(leader)
    assert rows_in(tmp_path) == [A, A, B, C, D, E]
    assert len(files_of(tmp_path)) == 2


def test_a_table_that_others_commit_to_all_the_time_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)
    for txid, row in ((1, A), (2, B), (3, C)):
        leader.commit(txid, row)
    commit = DeltaSinkTable.compact

    def late(self: DeltaSinkTable, *arguments: Any) -> None:
        append(tmp_path, ("other", 0))
        commit(self, *arguments)

    monkeypatch.setattr(DeltaSinkTable, "compact", late)
    compact(leader)
    assert compacted(tmp_path) == set()
    assert len(rows_in(tmp_path)) == 3 + compaction.TRIES
    clean_up(tmp_path)
    assert files_in(tmp_path) == files_of(tmp_path)


def test_files_become_one_where_none_is_larger_than_the_others_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TARGET_BYTES", 100)

    def worth(*sizes: int) -> list[int]:
        files = [
            StagedFile(path=f"trident-a/1/0/{txid}-0-x.parquet", size=size, content=NO_ROWS, about={})
            for txid, size in enumerate(sizes, 1)
        ]
        return [each.size for each in compaction.worth(files)]

    assert worth() == worth(5) == worth(5, 6) == worth(100, 30) == []
    assert worth(5, 5) == [5, 5]
    assert worth(50, 1, 2, 3, 2) == [1, 2, 3, 2]
    assert worth(8, 1, 2, 3, 2) == [8, 1, 2, 3, 2]
    assert worth(40, 30, 50, 20) == [40, 30, 20]


# --- at each line -----------------------------------------------------------------------------------------------------


def die(leader: Leader) -> set[tuple[Any, ...]]:
    raise Crash


def read(leader: Leader) -> set[tuple[Any, ...]]:
    assert rows_in(leader.path) == [A, B, C]
    return {A, B, C}


def take_over_and_replace(leader: Leader) -> set[tuple[Any, ...]]:
    newer = Leader(leader.path, epoch=5)
    assert newer.last == CommitToken(3, 1, 0)
    newer.commit(3, D, attempt=7)
    compact(newer)
    return {A, B, D}


def compact_by_others(leader: Leader) -> set[tuple[Any, ...]]:
    rewrite(leader.path)
    return {A, B, C}


def delete_by_others(leader: Leader) -> set[tuple[Any, ...]]:
    DeltaTable(leader.path).delete("n = 1")
    return {B, C}


def go_on(leader: Leader) -> set[tuple[Any, ...]]:
    leader.commit(4, D)
    return {A, B, C, D}


MEANWHILE = [die, read, take_over_and_replace, compact_by_others, delete_by_others, go_on]


@pytest.mark.slow
@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda each: each.__name__)
def test_whatever_happens_at_any_line_of_it_each_row_is_there_once(
    tmp_path: Path, meanwhile: Callable[[Leader], set[tuple[Any, ...]]]
) -> None:
    number, reached = 0, True
    while reached:
        number, reached = number + 1, False
        leader, wanted = Leader(tmp_path / str(number)), {A, B, C}
        for txid, row in enumerate(sorted(wanted), 1):
            leader.commit(txid, row)

        def then(leader: Leader = leader, wanted: set[tuple[Any, ...]] = wanted) -> None:
            nonlocal reached
            reached = True
            after = meanwhile(leader)
            wanted.clear()
            wanted.update(after)

        with suppress(Crash), at_line(compaction, number, then):
            compact(leader)
        assert rows_in(leader.path) == sorted(wanted)
        newer = Leader(leader.path, epoch=9)
        newer.commit(5, E)
        compact(newer)
        assert rows_in(leader.path) == sorted([*wanted, E])
    assert number > 30
