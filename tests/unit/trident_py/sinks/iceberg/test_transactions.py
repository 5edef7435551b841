"""What `IcebergSink` commits, who is refused, and what is left: by tables of a SQLite catalog, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError
from pyiceberg.table import Table, TableProperties

from tests.unit.trident_py.sinks.delta.tables import TOPOLOGY, transaction
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
from trident_py import CommitToken, FailedException, FencedError, SinkError, TopologyKey
from trident_py.errors import StoreBusyException
from trident_py.sinks.iceberg.transactions import IcebergTransactions

A, B, C = ("a", 1), ("b", 2), ("c", 3)

READER = """
import sys
from pyiceberg.catalog import load_catalog
table = load_catalog(type="sql", uri=sys.argv[1]).load_table(sys.argv[2])
print(sorted(table.scan().to_arrow()["word"].to_pylist()))
"""


def append(path: Path, *rows: tuple[str, int]) -> None:
    """What somebody else writes."""
    words, numbers = zip(*rows, strict=True)
    table_at(path).append(pa.table({"word": pa.array(words), "n": pa.array(numbers, pa.int64())}))


def set_properties(path: Path, **properties: str) -> None:
    with table_at(path).transaction() as transaction:
        transaction.set_properties({name.replace("_", "-"): value for name, value in properties.items()})


def test_nothing_is_visible_before_it_is_committed_and_then_all_of_it_in_one_snapshot(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    assert leader.last is None
    tx = transaction(1)
    staged = leader.staged(tx, A, B)
    assert rows_in(tmp_path) == []
    before = len(table_at(tmp_path).snapshots())
    leader.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == rows_of_files(tmp_path) == [A, B]
    assert len(table_at(tmp_path).snapshots()) == before + 1
    seen = subprocess.run(
        [sys.executable, "-c", READER, catalog_at(tmp_path)["uri"], NAME], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "['a', 'b']"


def test_the_token_of_the_last_commit_is_told_to_the_next_leader_after_an_empty_transaction_too(tmp_path: Path) -> None:
    leader = Leader(tmp_path, epoch=4)
    leader.commit(1, A)
    leader.commit(2, attempt=3)
    assert Leader(tmp_path, epoch=7).last == CommitToken(2, 4, 3)
    assert Leader(tmp_path, epoch=8).last == CommitToken(2, 4, 3)
    assert rows_in(tmp_path) == [A]


def test_a_transaction_that_comes_again_is_there_once_under_a_new_leader_of_another_process_too(tmp_path: Path) -> None:
    """The repros of apache/paimon#9666, a fresh name for each commit, and of apache/iceberg#16008, a job's own id.

    There the last commit is looked up by an id that a restart changes; here by the topology's, which is for ever.
    """
    leader = Leader(tmp_path)
    leader.commit(1, A, B)
    leader.commit(1, A, B, attempt=1)
    assert rows_in(tmp_path) == [A, B]
    assert files_in(tmp_path) == files_of(tmp_path)
    after = Leader(tmp_path, epoch=2)
    assert after.last == CommitToken(1, 1, 1)
    after.commit(1, B, A)
    after.commit(2, C)
    assert rows_in(tmp_path) == [A, B, C]
    assert Leader(tmp_path, epoch=3).last == CommitToken(2, 2, 0)


def test_the_token_outlives_all_snapshots_that_came_with_it(tmp_path: Path) -> None:
    """In apache/iceberg#16008 it is looked for in the summaries of snapshots, which expire."""
    leader = Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B)
    append(tmp_path, C)
    table = table_at(tmp_path)
    old = [each.snapshot_id for each in table.snapshots()][:-1]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    leader.commit(2, B, attempt=1)
    after = Leader(tmp_path, epoch=2)
    assert after.last == CommitToken(2, 1, 1)
    after.commit(2, B)
    after.commit(3, ("d", 4))
    assert rows_in(tmp_path) == [A, B, C, ("d", 4)]


def test_a_transaction_that_comes_again_with_other_rows_replaces_them_in_one_snapshot(tmp_path: Path) -> None:
    """delta-io/delta#1813, on Iceberg: the batch is known, and its rows are others by now."""
    leader = Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B, C)
    append(tmp_path, ("other", 0))
    after = Leader(tmp_path, epoch=2)
    before = len(table_at(tmp_path).snapshots())
    after.commit(2, C, attempt=1)
    assert rows_in(tmp_path) == [A, C, ("other", 0)]
    assert len(table_at(tmp_path).snapshots()) == before + 1
    after.commit(2, attempt=2)
    assert rows_in(tmp_path) == [A, ("other", 0)]


def test_rows_that_somebody_has_moved_can_not_be_replaced_and_that_is_said(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A, B)
    table_at(tmp_path).overwrite(table_at(tmp_path).scan().to_arrow())
    leader.commit(1, B, A, attempt=1)
    with pytest.raises(SinkError, match="of the 2 rows then, 0 are where it has put them"):
        leader.commit(1, C, attempt=2)
    leader.commit(2, C)
    assert rows_in(tmp_path) == [A, B, C]


def test_a_leader_that_was_overtaken_can_not_commit_whatever_it_looked_at_before(tmp_path: Path) -> None:
    old = Leader(tmp_path)
    tx = transaction(1)
    staged = old.staged(tx, A)
    new = Leader(tmp_path, epoch=2)
    with pytest.raises(FencedError, match="a leader of epoch 2 has been at"):
        old.transactions.commit(tx, staged)
    with pytest.raises(FencedError):
        old.transactions.recover(TOPOLOGY, 1)
    new.commit(1, B)
    assert rows_in(tmp_path) == [B]


def between(monkeypatch: pytest.MonkeyPatch, then: Any) -> None:
    """Call ``then()`` once, between the next look at the table and the commit by it."""
    ensure, waiting = IcebergTransactions._ensure_staged, [then]

    def ensured(self: IcebergTransactions, *arguments: Any) -> None:
        ensure(self, *arguments)
        if waiting:
            waiting.pop()()

    monkeypatch.setattr(IcebergTransactions, "_ensure_staged", ensured)


@pytest.mark.parametrize("retries", ["", "0", "4"])
def test_a_leader_that_is_overtaken_between_its_look_and_its_commit_is_refused_whatever_the_table_says_of_retries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: str
) -> None:
    """By itself, pyiceberg makes a commit that comes too late again, up to ``commit.retry.num-retries`` times."""
    old = Leader(tmp_path)
    if retries:
        set_properties(tmp_path, **{TableProperties.COMMIT_NUM_RETRIES: retries})
    tx = transaction(1)
    staged = old.staged(tx, A)
    between(monkeypatch, lambda: Leader(tmp_path, epoch=2).commit(1, B))
    with pytest.raises(FencedError):
        old.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == [B]
    assert table_at(tmp_path).properties.get(TableProperties.COMMIT_NUM_RETRIES, "") == retries


def test_an_attempt_that_is_given_up_during_a_commit_does_not_hide_a_new_leader_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Leader(tmp_path)
    tx, other = transaction(1), transaction(2)
    staged, given_up = old.staged(tx, A), old.staged(other, B)

    def meanwhile() -> None:
        Leader(tmp_path, epoch=2)
        old.transactions.abort(other, given_up)

    between(monkeypatch, meanwhile)
    with pytest.raises(FencedError):
        old.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == []


def test_a_late_leader_is_refused_where_the_table_was_rolled_back_to_what_it_had_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Leader(tmp_path)
    old.commit(1, A)
    tx = transaction(2)
    staged = old.staged(tx, B)

    def overtake_and_roll_back() -> None:
        seen = table_at(tmp_path).current_snapshot()
        Leader(tmp_path, epoch=2)
        assert seen is not None
        table_at(tmp_path).manage_snapshots().set_current_snapshot(snapshot_id=seen.snapshot_id).commit()

    between(monkeypatch, overtake_and_roll_back)
    with pytest.raises(SinkError, match="was rolled back to before snapshot"):
        old.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == [A]


def test_rows_that_were_rolled_back_are_not_taken_for_committed_until_the_snapshot_is_made_current_again(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    before = table_at(tmp_path).current_snapshot()
    leader.commit(2, B)
    last = table_at(tmp_path).current_snapshot()
    assert before is not None
    assert last is not None
    table_at(tmp_path).manage_snapshots().set_current_snapshot(snapshot_id=before.snapshot_id).commit()
    append(tmp_path, C)
    for refused in (lambda: leader.commit(3, C), lambda: Leader(tmp_path, epoch=2)):
        with pytest.raises(SinkError, match=f"was rolled back to before snapshot {last.snapshot_id}"):
            refused()
    table_at(tmp_path).manage_snapshots().set_current_snapshot(snapshot_id=last.snapshot_id).commit()
    assert Leader(tmp_path, epoch=2).last == CommitToken(2, 1, 0)


def test_what_others_write_beside_it_stays_and_hinders_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(tmp_path)

    def meanwhile() -> None:
        append(tmp_path, ("other", 0))
        set_properties(tmp_path, owner="they")

    between(monkeypatch, meanwhile)
    leader.commit(1, A)
    append(tmp_path, ("other", 1))
    leader.commit(2, B)
    table_at(tmp_path).delete("word = 'other' and n = 1")
    assert rows_in(tmp_path) == [A, B, ("other", 0)]
    assert table_at(tmp_path).properties["owner"] == "they"
    assert Leader(tmp_path, epoch=2).last == CommitToken(2, 1, 0)


def test_two_topologies_write_to_one_table_and_each_knows_its_own(tmp_path: Path) -> None:
    theirs = TopologyKey("other", "b-uuid", 1)
    one, two = Leader(tmp_path, epoch=5), Leader(tmp_path, epoch=1, topology=theirs)
    one.commit(1, A)
    one.commit(2, B)
    assert two.last is None
    assert Leader(tmp_path, epoch=2, topology=theirs).last is None
    assert Leader(tmp_path, epoch=6).last == CommitToken(2, 5, 0)


def test_two_sinks_of_one_topology_and_a_topology_that_was_reset_are_refused(tmp_path: Path) -> None:
    first = Leader(tmp_path)
    with pytest.raises(SinkError, match="another sink of this topology writes to"):
        Leader(tmp_path)
    first.commit(1, A)
    assert first.transactions.recover(TOPOLOGY, 1) == CommitToken(1, 1, 0)
    with pytest.raises(SinkError, match="has rows of this topology before it was reset, incarnation 1"):
        Leader(tmp_path, epoch=2, topology=TopologyKey("words", "a-uuid", 2))


def test_files_of_attempts_that_were_given_up_or_left_by_an_older_leader_are_swept(tmp_path: Path) -> None:
    old = Leader(tmp_path)
    old.commit(1, A, B)
    whole, half = transaction(2), transaction(2, 1)
    staged = old.staged(whole, A, B)
    old.staged(half, A)
    old.transactions.abort(whole, staged)
    old.transactions.abort(half, None)
    old.transactions.abort(transaction(3), None)
    assert files_in(tmp_path) == files_of(tmp_path)
    old.staged(transaction(2, 2), A, B, C)
    old.staged(transaction(1003), A)
    assert files_in(tmp_path) > files_of(tmp_path)
    new = Leader(tmp_path, epoch=2)
    assert files_in(tmp_path) == files_of(tmp_path)
    new.commit(2, C)
    assert rows_in(tmp_path) == [A, B, C]


def test_files_that_somebody_took_before_their_commit_fail_the_attempt(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    tx = transaction(1)
    staged = leader.staged(tx, A)
    for each in files_in(tmp_path):
        Path(each).unlink()
    with pytest.raises(FailedException, match="is gone before its commit; did somebody clean up"):
        leader.transactions.commit(tx, staged)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]


def test_a_commit_whose_answer_was_lost_is_neither_made_twice_nor_given_up_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, tx = Leader(tmp_path), transaction(1)
    staged, commit = leader.staged(tx, A, B), SqlCatalog.commit_table

    def answer_lost(self: SqlCatalog, *arguments: Any) -> None:
        commit(self, *arguments)
        raise ServerError("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", answer_lost)
        with pytest.raises(StoreBusyException, match="can't be reached, and will be tried again: the answer was lost"):
            leader.transactions.commit(tx, staged)
    leader.transactions.abort(tx, staged)
    assert rows_in(tmp_path) == [A, B]
    leader.commit(1, A, B, attempt=1)
    leader.transactions.abort(tx, staged)
    leader.transactions.abort(tx, None)
    assert rows_in(tmp_path) == [A, B]


def test_a_catalog_that_is_away_counts_against_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(tmp_path)
    staged = leader.staged(transaction(1), A)

    def away(*_: Any) -> Table:
        raise ServerError("no route")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "load_table", away)
        with pytest.raises(StoreBusyException, match="no route"):
            leader.transactions.commit(transaction(1), staged)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]


def test_a_table_that_was_dropped_or_made_anew_or_has_lost_its_token_stops_the_leader_by_name(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    tx = transaction(2)
    staged = leader.staged(tx, B)
    with table_at(tmp_path).transaction() as theirs:
        theirs.remove_properties(f"trident.{TOPOLOGY.uuid}")
    with pytest.raises(SinkError, match="knew of transaction 1, and knows of 0 now: it was replaced"):
        leader.transactions.commit(tx, staged)
    with table_at(tmp_path).transaction() as theirs:
        theirs.set_properties({f"trident.{TOPOLOGY.uuid}": "{}"})
    with pytest.raises(SinkError, match=r"the table's property .* is damaged"):
        leader.transactions.commit(tx, staged)
    table_at(tmp_path).catalog.drop_table(NAME)
    with pytest.raises(SinkError, match=r"the Iceberg table 'web\.events' is gone"):
        leader.transactions.commit(tx, staged)


def test_a_table_that_nobody_told_the_fields_of_is_made_with_the_first_rows_or_led_if_it_is_there(
    tmp_path: Path,
) -> None:
    early = IcebergTransactions((), NAME, catalog_at(tmp_path))
    assert early.recover(TOPOLOGY, 1) is None
    early.abort(transaction(1), None)
    Leader(tmp_path, epoch=2).commit(1, A)
    led = IcebergTransactions((), NAME, catalog_at(tmp_path))
    assert led.recover(TOPOLOGY, 3) == CommitToken(1, 2, 0)
    with pytest.raises(FencedError):
        Leader(tmp_path, epoch=2)


def test_lists_of_files_are_merged_and_no_row_is_lost_by_that(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    with table_at(tmp_path).transaction() as theirs:
        theirs.set_properties({"commit.manifest.min-count-to-merge": "3"})
    for txid in range(1, 6):
        leader.commit(txid, ("a", txid))
    snapshot = table_at(tmp_path).current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table_at(tmp_path).io)) < 5
    leader.commit(5, ("b", 0), attempt=1)
    assert rows_in(tmp_path) == [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 0)]
