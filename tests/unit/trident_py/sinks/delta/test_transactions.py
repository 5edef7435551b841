"""What is Delta's own in the protocol of `DeltaSink`; the rest is in `tests/unit/trident_py/sinks/tables`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.unit.trident_py.sinks.delta.tables import Leader, files_in, rows_in, untold
from tests.unit.trident_py.sinks.tables.leaders import TOPOLOGY, A, B, C, transaction
from trident_py import CommitToken, SinkError
from trident_py.errors import StoreBusyException
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.tables.table import Conflict


def test_rows_that_were_replaced_are_still_there_for_readers_of_an_older_version(tmp_path: Path) -> None:
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


def test_a_vacuum_with_the_usual_retention_leaves_what_is_staged(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.staged(transaction(1), A)
    DeltaTable(tmp_path).vacuum(full=True, dry_run=False)
    assert files_in(tmp_path)


def test_a_store_that_is_away_counts_against_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(tmp_path)

    def away(_: DeltaSinkTable) -> None:
        raise ConnectionRefusedError("no route")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSinkTable, "look", away)
        with pytest.raises(StoreBusyException, match="can't be reached, and the attempt is retried: no route"):
            leader.commit(1, A)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]


def test_a_table_that_others_commit_to_all_the_time_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)

    def too_late(*_: Any) -> None:
        raise Conflict("somebody was faster")

    monkeypatch.setattr(DeltaSinkTable, "commit", too_late)
    with pytest.raises(StoreBusyException, match="20 commits of this sink came too late"):
        leader.commit(1, A)


def test_a_table_that_was_made_anew_meanwhile_stops_the_leader_by_name(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    shutil.rmtree(tmp_path / "_delta_log")
    for _ in range(3):
        write_deltalake(tmp_path, pa.table({"word": ["x"], "n": [0]}), mode="append")
    with pytest.raises(SinkError, match="had transaction 1, and has 0 now: it was replaced"):
        leader.commit(2, B)


def test_a_table_that_nobody_told_the_fields_of_is_not_made(tmp_path: Path) -> None:
    early = untold(tmp_path / "words")
    assert early.recover(TOPOLOGY, 1) is None
    early.abort(transaction(1), None)
    assert not (tmp_path / "words").exists()


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
