"""What `DeltaSink` commits, who is refused, and what is left: by tables in a directory, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.unit.trident_py.sinks.delta.tables import (
    TOPOLOGY,
    Leader,
    files_in,
    files_of,
    rows_in,
    transaction,
)
from trident_py import CommitToken, FailedException, FencedError, SinkError, TopologyKey
from trident_py.errors import StoreBusyException
from trident_py.sinks.delta.staging import Storage
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.delta.transactions import DeltaTransactions
from trident_py.sinks.tables.table import Conflict

A, B, C = ("a", 1), ("b", 2), ("c", 3)


def test_nothing_is_visible_before_it_is_committed_and_then_all_of_it(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    assert leader.last is None
    tx = transaction(1)
    staged = leader.staged(tx, A, B)
    assert rows_in(tmp_path) == []
    version = DeltaTable(tmp_path).version()
    leader.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == [A, B]
    assert DeltaTable(tmp_path).version() == version + 1


def test_the_token_of_the_last_commit_is_told_to_the_next_leader(tmp_path: Path) -> None:
    leader = Leader(tmp_path, epoch=4)
    leader.commit(1, A)
    leader.commit(2, attempt=3)
    assert Leader(tmp_path, epoch=7).last == CommitToken(2, 4, 3)
    assert Leader(tmp_path, epoch=8).last == CommitToken(2, 4, 3)


def test_a_transaction_that_comes_again_with_its_rows_is_there_once_under_a_new_leader_too(tmp_path: Path) -> None:
    """The repro of apache/paimon#9666, and of delta-io/delta#1813 where the batch is the same."""
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


def test_a_transaction_that_comes_again_with_other_rows_replaces_them_in_one_commit(tmp_path: Path) -> None:
    """delta-io/delta#1813: Delta's own writer skips a batch by its version, whatever its rows are by now."""
    leader = Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B, C)
    before = DeltaTable(tmp_path).version()
    after = Leader(tmp_path, epoch=2)
    after.commit(2, C, attempt=1)
    assert rows_in(tmp_path) == [A, C]
    assert DeltaTable(tmp_path).version() == before + 2  # the fence, and this
    assert DeltaTable(tmp_path, version=before).to_pyarrow_table().num_rows == 3


def test_rows_that_somebody_has_compacted_can_not_be_replaced_and_that_is_said(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A, B)
    DeltaTable(tmp_path).optimize.compact()
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


@pytest.mark.parametrize("also_commits", [False, True])
def test_a_leader_that_is_overtaken_between_its_look_and_its_commit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, also_commits: bool
) -> None:
    old = Leader(tmp_path)
    tx = transaction(1)
    staged = old.staged(tx, A)
    ensure = DeltaTransactions._ensure_staged
    overtaken: list[Leader] = []

    def overtake(self: DeltaTransactions, *arguments: Any) -> None:
        ensure(self, *arguments)
        if not overtaken:
            overtaken.append(Leader(tmp_path, epoch=2))
            if also_commits:
                overtaken[0].commit(1, B)

    monkeypatch.setattr(DeltaTransactions, "_ensure_staged", overtake)
    with pytest.raises(FencedError):
        old.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == ([B] if also_commits else [])


def test_an_attempt_that_is_given_up_during_a_commit_does_not_hide_a_new_leader_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Leader(tmp_path)
    tx, other = transaction(1), transaction(2)
    staged, given_up = old.staged(tx, A), old.staged(other, B)
    ensure = DeltaTransactions._ensure_staged

    def overtake(self: DeltaTransactions, *arguments: Any) -> None:
        ensure(self, *arguments)
        if monkeypatched:
            monkeypatched.pop()
            Leader(tmp_path, epoch=2)
            old.transactions.abort(other, given_up)

    monkeypatched = [True]
    monkeypatch.setattr(DeltaTransactions, "_ensure_staged", overtake)
    with pytest.raises(FencedError):
        old.transactions.commit(tx, staged)
    assert rows_in(tmp_path) == []


def test_what_others_write_beside_it_stays_and_hinders_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(tmp_path)
    ensure = DeltaTransactions._ensure_staged
    other = pa.table({"word": ["other"], "n": [0]})

    def meanwhile(self: DeltaTransactions, *arguments: Any) -> None:
        write_deltalake(tmp_path, other, mode="append")
        DeltaTable(tmp_path).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
        monkeypatch.setattr(DeltaTransactions, "_ensure_staged", ensure)

    monkeypatch.setattr(DeltaTransactions, "_ensure_staged", meanwhile)
    leader.commit(1, A)
    write_deltalake(tmp_path, other, mode="append")
    leader.commit(2, B)
    assert rows_in(tmp_path) == [A, B, ("other", 0), ("other", 0)]
    assert Leader(tmp_path, epoch=2).last == CommitToken(2, 1, 0)


def test_two_topologies_write_to_one_table_and_each_knows_its_own(tmp_path: Path) -> None:
    one, two = Leader(tmp_path, epoch=5), Leader(tmp_path, epoch=1, topology=TopologyKey("other", "b-uuid", 1))
    one.commit(1, A)
    one.commit(2, B)
    assert two.last is None
    assert Leader(tmp_path, epoch=2, topology=TopologyKey("other", "b-uuid", 1)).last is None
    assert Leader(tmp_path, epoch=6).last == CommitToken(2, 5, 0)


def test_two_sinks_of_one_topology_on_one_table_are_refused(tmp_path: Path) -> None:
    first = Leader(tmp_path)
    with pytest.raises(SinkError, match="another sink of this topology writes to"):
        Leader(tmp_path)
    first.commit(1, A)
    assert first.transactions.recover(TOPOLOGY, 1) == CommitToken(1, 1, 0)


def test_a_topology_that_was_reset_does_not_write_its_rows_twice_into_the_same_table(tmp_path: Path) -> None:
    Leader(tmp_path).commit(1, A)
    with pytest.raises(SinkError, match="has rows of this topology before it was reset, incarnation 1"):
        Leader(tmp_path, epoch=2, topology=TopologyKey("words", "a-uuid", 2))


def test_a_new_leader_removes_what_the_one_before_has_staged_and_nothing_that_is_committed(tmp_path: Path) -> None:
    old = Leader(tmp_path)
    old.commit(1, A, B)
    old.staged(transaction(2), A, B, C)
    old.staged(transaction(1003), A)
    assert files_in(tmp_path) > files_of(tmp_path)
    new = Leader(tmp_path, epoch=2)
    assert files_in(tmp_path) == files_of(tmp_path)
    new.commit(2, C)
    assert rows_in(tmp_path) == [A, B, C]


def test_an_attempt_that_is_given_up_leaves_no_file_whether_it_was_prepared_or_not(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    whole, half = transaction(1), transaction(1, 1)
    staged = leader.staged(whole, A, B)
    leader.staged(half, A)
    leader.transactions.abort(whole, staged)
    leader.transactions.abort(half, None)
    leader.transactions.abort(transaction(2), None)
    assert files_in(tmp_path) == set()


def test_files_that_a_vacuum_took_before_their_commit_fail_the_attempt(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    tx = transaction(1)
    staged = leader.staged(tx, A)
    DeltaTable(tmp_path).vacuum(full=True, dry_run=False)
    assert files_in(tmp_path)
    DeltaTable(tmp_path).vacuum(0, enforce_retention_duration=False, full=True, dry_run=False)
    with pytest.raises(FailedException, match="is gone before its commit; did somebody clean up"):
        leader.transactions.commit(tx, staged)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]


def test_a_store_that_is_away_counts_against_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(tmp_path)

    def away(_: DeltaSinkTable) -> None:
        raise ConnectionRefusedError("no route")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSinkTable, "look", away)
        with pytest.raises(StoreBusyException, match="can't be reached, and will be tried again: no route"):
            leader.commit(1, A)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]


def test_an_attempt_that_was_committed_and_lost_the_answer_is_given_up_without_its_rows_being_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, tx = Leader(tmp_path), transaction(1)
    staged, commit = leader.staged(tx, A, B), DeltaSinkTable.commit

    def answer_lost(self: DeltaSinkTable, *arguments: Any) -> None:
        commit(self, *arguments)
        raise ConnectionResetError("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSinkTable, "commit", answer_lost)
        with pytest.raises(StoreBusyException):
            leader.transactions.commit(tx, staged)
    leader.transactions.abort(tx, staged)
    assert rows_in(tmp_path) == [A, B]
    leader.commit(1, A, B, attempt=1)
    leader.transactions.abort(tx, staged)
    leader.transactions.abort(tx, None)
    assert rows_in(tmp_path) == [A, B]


def test_a_table_that_others_commit_to_all_the_time_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)

    def too_late(*_: Any) -> None:
        raise Conflict("somebody was faster")

    monkeypatch.setattr(DeltaSinkTable, "commit", too_late)
    with pytest.raises(StoreBusyException, match="20 commits of ours came too late"):
        leader.commit(1, A)


def test_a_table_that_was_made_anew_meanwhile_stops_the_leader_by_name(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    shutil.rmtree(tmp_path / "_delta_log")
    for _ in range(3):
        write_deltalake(tmp_path, pa.table({"word": ["x"], "n": [0]}), mode="append")
    with pytest.raises(SinkError, match="knew of transaction 1, and knows of 0 now: it was replaced"):
        leader.commit(2, B)


def test_a_table_that_nobody_told_the_fields_of_is_made_with_the_first_rows_or_led_if_it_is_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "words"
    early = DeltaTransactions((), Storage(str(path)))
    assert early.recover(TOPOLOGY, 1) is None
    early.abort(transaction(1), None)
    assert not path.exists()
    Leader(path, epoch=2).commit(1, A)
    assert DeltaTransactions((), Storage(str(path))).recover(TOPOLOGY, 3) == CommitToken(1, 2, 0)
    with pytest.raises(FencedError):
        Leader(path, epoch=2)


def test_an_empty_transaction_is_a_commit_too(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1)
    assert rows_in(tmp_path) == []
    assert Leader(tmp_path, epoch=2).last == CommitToken(1, 1, 0)


def test_the_token_stands_over_checkpoints_and_logs_that_are_cleaned_up(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    for txid in range(1, 4):
        leader.commit(txid, ("a", txid))
    DeltaTable(tmp_path).create_checkpoint()
    for log in sorted((tmp_path / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    assert Leader(tmp_path, epoch=2).last == CommitToken(3, 1, 0)
