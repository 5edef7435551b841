"""What is Iceberg's own in the protocol of `IcebergSink`; the rest is in `tests/unit/trident_py/sinks/tables`."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError
from pyiceberg.table import Table, TableProperties

from tests.unit.trident_py.sinks.iceberg.tables import (
    NAME,
    Leader,
    append,
    catalog_at,
    commits,
    rows_in,
    rows_of_files,
    set_properties,
    table_at,
)
from tests.unit.trident_py.sinks.tables.leaders import TOPOLOGY, A, B, C, between, transaction
from trident_py import CommitToken, FencedError, SinkError, TopologyKey
from trident_py.errors import StoreBusyException

READER = """
import sys
from pyiceberg.catalog import load_catalog
table = load_catalog(type="sql", uri=sys.argv[1]).load_table(sys.argv[2])
print(sorted(table.scan().to_arrow()["word"].to_pylist()))
"""


def test_rows_are_there_for_other_readers_and_in_other_processes(tmp_path: Path) -> None:
    Leader(tmp_path).commit(1, A, B)
    assert rows_in(tmp_path) == rows_of_files(tmp_path) == [A, B]
    seen = subprocess.run(
        [sys.executable, "-c", READER, catalog_at(tmp_path)["uri"], NAME], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "['a', 'b']"


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


SOON = timedelta(milliseconds=1)


def test_snapshots_that_are_old_go_with_the_next_commit_and_neither_the_token_nor_a_row(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    for txid in range(1, 6):
        leader.commit(txid, ("a", txid))
    append(tmp_path, C)
    tagged = table_at(tmp_path).snapshots()[2].snapshot_id
    table_at(tmp_path).manage_snapshots().create_tag(tagged, "month").commit()
    before = commits(tmp_path)
    patient = Leader(tmp_path, epoch=2, expire_after=timedelta(days=1))
    patient.commit(6, ("a", 6))
    assert commits(tmp_path) == before + 2
    after = Leader(tmp_path, epoch=3, expire_after=SOON)
    after.commit(6, ("b", 6), attempt=1)
    assert len(table_at(tmp_path).snapshots()) <= 3
    assert table_at(tmp_path).refs()["month"].snapshot_id == tagged
    assert table_at(tmp_path).scan(snapshot_id=tagged).count() == 2
    after.commit(7, B)
    after.commit(7, A, attempt=1)
    assert rows_in(tmp_path) == rows_of_files(tmp_path) == [A, *(("a", n) for n in range(1, 6)), ("b", 6), C]
    assert Leader(tmp_path, epoch=4, expire_after=SOON).last == CommitToken(7, 3, 1)


def test_many_old_snapshots_go_by_and_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.sinks.iceberg.table.EXPIRED_MAX", 2)
    leader = Leader(tmp_path)
    for txid in range(1, 10):
        leader.commit(txid, ("a", txid))
    counts = []
    after = Leader(tmp_path, epoch=2, expire_after=SOON)
    for txid in range(10, 16):
        counts.append(commits(tmp_path))
        after.commit(txid, ("a", txid))
    assert counts[-1] < counts[0]
    assert commits(tmp_path) <= 4
    assert len(rows_in(tmp_path)) == 15


def test_a_snapshot_that_somebody_else_expires_in_that_moment_hinders_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.sinks.iceberg.table.EXPIRED_MAX", 1)
    leader = Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B)
    after, lost = Leader(tmp_path, epoch=2, expire_after=SOON), table_at(tmp_path).snapshots()[0].snapshot_id
    between(monkeypatch, lambda: table_at(tmp_path).maintenance.expire_snapshots().by_id(lost).commit())
    after.commit(3, C)
    assert rows_in(tmp_path) == [A, B, C]
    assert lost not in [each.snapshot_id for each in table_at(tmp_path).snapshots()]


def test_another_topology_whose_snapshots_have_all_expired_goes_on_where_it_was(tmp_path: Path) -> None:
    theirs = TopologyKey("other", "b-uuid", 1)
    idle = Leader(tmp_path, topology=theirs)
    idle.commit(1, ("other", 0))
    busy = Leader(tmp_path, expire_after=SOON)
    for txid in range(1, 5):
        busy.commit(txid, ("a", txid))
    assert Leader(tmp_path, epoch=2, topology=theirs).last == CommitToken(1, 1, 0)
    assert len(rows_in(tmp_path)) == 5


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


def test_rows_that_others_delete_are_gone_and_properties_that_they_set_stay(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    set_properties(tmp_path, owner="they")
    leader.commit(1, A)
    append(tmp_path, ("other", 0), ("other", 1))
    leader.commit(2, B)
    table_at(tmp_path).delete("word = 'other' and n = 1")
    assert rows_in(tmp_path) == [A, B, ("other", 0)]
    assert table_at(tmp_path).properties["owner"] == "they"
    assert Leader(tmp_path, epoch=2).last == CommitToken(2, 1, 0)


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
    with pytest.raises(SinkError, match="had transaction 1, and has 0 now: it was replaced"):
        leader.transactions.commit(tx, staged)
    with table_at(tmp_path).transaction() as theirs:
        theirs.set_properties({f"trident.{TOPOLOGY.uuid}": "{}"})
    with pytest.raises(SinkError, match=r"the table's property .* can't be read"):
        leader.transactions.commit(tx, staged)
    table_at(tmp_path).catalog.drop_table(NAME)
    with pytest.raises(SinkError, match=r"the Iceberg table 'web\.events' is gone"):
        leader.transactions.commit(tx, staged)


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
