"""One contract for sinks that commit to tables of open formats: what is committed, who is refused, and what is left."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.unit.trident_py.sinks.delta import tables as delta
from tests.unit.trident_py.sinks.iceberg import tables as iceberg
from tests.unit.trident_py.sinks.tables.leaders import TOPOLOGY, A, B, C, Tables, between, transaction
from trident_py import CommitToken, FailedException, FencedError, SinkError, TopologyKey
from trident_py.errors import StoreBusyException


@pytest.fixture(params=[delta, iceberg], ids=["delta", "iceberg"])
def tables(request: pytest.FixtureRequest) -> Tables:
    return cast("Tables", request.param)


def test_nothing_is_visible_before_it_is_committed_and_then_all_of_it(tables: Tables, tmp_path: Path) -> None:
    leader = tables.Leader(tmp_path)
    assert leader.last is None
    tx = transaction(1)
    staged = leader.staged(tx, A, B)
    assert tables.rows_in(tmp_path) == []
    before = tables.commits(tmp_path)
    leader.transactions.commit(tx, staged)
    assert tables.rows_in(tmp_path) == [A, B]
    assert tables.commits(tmp_path) == before + 1


def test_the_token_of_the_last_commit_is_told_to_the_next_leader(tables: Tables, tmp_path: Path) -> None:
    leader = tables.Leader(tmp_path, epoch=4)
    leader.commit(1, A)
    leader.commit(2, attempt=3)
    assert tables.Leader(tmp_path, epoch=7).last == CommitToken(2, 4, 3)
    assert tables.Leader(tmp_path, epoch=8).last == CommitToken(2, 4, 3)
    assert tables.rows_in(tmp_path) == [A]


def test_a_transaction_that_comes_again_with_its_rows_is_there_once_under_a_new_leader_too(
    tables: Tables, tmp_path: Path
) -> None:
    """The repros of apache/paimon#9666, a fresh name for each commit, and of apache/iceberg#16008, a job's own id.

    There the last commit is looked up by an id that a restart changes; here by the topology's, which is for ever. Also
    that of delta-io/delta#1813 where the batch is the same.
    """
    leader = tables.Leader(tmp_path)
    leader.commit(1, A, B)
    leader.commit(1, A, B, attempt=1)
    assert tables.rows_in(tmp_path) == [A, B]
    assert tables.files_in(tmp_path) == tables.files_of(tmp_path)
    after = tables.Leader(tmp_path, epoch=2)
    assert after.last == CommitToken(1, 1, 1)
    after.commit(1, B, A)
    after.commit(2, C)
    assert tables.rows_in(tmp_path) == [A, B, C]
    assert tables.Leader(tmp_path, epoch=3).last == CommitToken(2, 2, 0)


def test_a_transaction_that_comes_again_with_other_rows_replaces_them_in_one_commit(
    tables: Tables, tmp_path: Path
) -> None:
    """delta-io/delta#1813: the batch is known by its version, and its rows are others by now."""
    leader = tables.Leader(tmp_path)
    leader.commit(1, A)
    leader.commit(2, B, C)
    tables.append(tmp_path, ("other", 0))
    after = tables.Leader(tmp_path, epoch=2)
    before = tables.commits(tmp_path)
    after.commit(2, C, attempt=1)
    assert tables.rows_in(tmp_path) == [A, C, ("other", 0)]
    assert tables.commits(tmp_path) == before + 1
    after.commit(2, attempt=2)
    assert tables.rows_in(tmp_path) == [A, ("other", 0)]


def test_rows_that_somebody_has_moved_are_replaced_or_it_is_said_that_they_cant_be(
    tables: Tables, tmp_path: Path
) -> None:
    leader = tables.Leader(tmp_path)
    leader.commit(1, A, B)
    tables.rewrite(tmp_path)
    leader.commit(1, B, A, attempt=1)
    if tables.undoes_rewriting:
        leader.commit(1, C, attempt=2)
    else:
        with pytest.raises(SinkError, match="of the 2 rows then, 0 are still in its files"):
            leader.commit(1, C, attempt=2)
    leader.commit(2, C)
    assert tables.rows_in(tmp_path) == ([C, C] if tables.undoes_rewriting else [A, B, C])


def test_rows_that_somebody_moves_between_the_look_and_the_commit_are_not_there_twice(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = tables.Leader(tmp_path)
    leader.commit(1, A, B)
    between(monkeypatch, lambda: tables.rewrite(tmp_path))
    if tables.undoes_rewriting:
        leader.commit(1, C, attempt=1)
    else:
        with pytest.raises(SinkError, match="of the 2 rows then, 0 are still in its files"):
            leader.commit(1, C, attempt=1)
    assert tables.rows_in(tmp_path) == ([C] if tables.undoes_rewriting else [A, B])


def test_a_leader_that_was_overtaken_can_not_commit_whatever_it_looked_at_before(
    tables: Tables, tmp_path: Path
) -> None:
    old = tables.Leader(tmp_path)
    tx = transaction(1)
    staged = old.staged(tx, A)
    new = tables.Leader(tmp_path, epoch=2)
    with pytest.raises(FencedError, match="a leader of epoch 2 has taken over"):
        old.transactions.commit(tx, staged)
    with pytest.raises(FencedError):
        old.transactions.recover(TOPOLOGY, 1)
    new.commit(1, B)
    assert tables.rows_in(tmp_path) == [B]


@pytest.mark.parametrize("also_commits", [False, True])
def test_a_leader_that_is_overtaken_between_its_look_and_its_commit_is_refused(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, also_commits: bool
) -> None:
    old = tables.Leader(tmp_path)
    tx = transaction(1)
    staged = old.staged(tx, A)

    def overtake() -> None:
        new = tables.Leader(tmp_path, epoch=2)
        if also_commits:
            new.commit(1, B)

    between(monkeypatch, overtake)
    with pytest.raises(FencedError):
        old.transactions.commit(tx, staged)
    assert tables.rows_in(tmp_path) == ([B] if also_commits else [])


def test_an_attempt_that_is_given_up_during_a_commit_does_not_hide_a_new_leader_from_it(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tables.Leader(tmp_path)
    tx, other = transaction(1), transaction(2)
    staged, given_up = old.staged(tx, A), old.staged(other, B)

    def meanwhile() -> None:
        tables.Leader(tmp_path, epoch=2)
        old.transactions.abort(other, given_up)

    between(monkeypatch, meanwhile)
    with pytest.raises(FencedError):
        old.transactions.commit(tx, staged)
    assert tables.rows_in(tmp_path) == []


def test_what_others_write_beside_it_stays_and_hinders_nobody(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = tables.Leader(tmp_path)

    def meanwhile() -> None:
        tables.append(tmp_path, ("other", 0))
        tables.set_property(tmp_path)

    between(monkeypatch, meanwhile)
    leader.commit(1, A)
    tables.append(tmp_path, ("other", 0))
    leader.commit(2, B)
    assert tables.rows_in(tmp_path) == [A, B, ("other", 0), ("other", 0)]
    assert tables.Leader(tmp_path, epoch=2).last == CommitToken(2, 1, 0)


def test_two_topologies_write_to_one_table_and_each_knows_its_own(tables: Tables, tmp_path: Path) -> None:
    theirs = TopologyKey("other", "b-uuid", 1)
    one, two = tables.Leader(tmp_path, epoch=5), tables.Leader(tmp_path, epoch=1, topology=theirs)
    one.commit(1, A)
    one.commit(2, B)
    assert two.last is None
    assert tables.Leader(tmp_path, epoch=2, topology=theirs).last is None
    assert tables.Leader(tmp_path, epoch=6).last == CommitToken(2, 5, 0)


def test_two_sinks_of_one_topology_on_one_table_are_refused(tables: Tables, tmp_path: Path) -> None:
    first = tables.Leader(tmp_path)
    with pytest.raises(SinkError, match="another sink of this topology writes to"):
        tables.Leader(tmp_path)
    first.commit(1, A)
    assert first.transactions.recover(TOPOLOGY, 1) == CommitToken(1, 1, 0)


def test_a_topology_that_was_reset_does_not_write_its_rows_twice_into_the_same_table(
    tables: Tables, tmp_path: Path
) -> None:
    tables.Leader(tmp_path).commit(1, A)
    with pytest.raises(SinkError, match="has rows of this topology before it was reset, incarnation 1"):
        tables.Leader(tmp_path, epoch=2, topology=TopologyKey("words", "a-uuid", 2))


def test_a_new_leader_removes_what_the_one_before_has_staged_and_nothing_that_is_committed(
    tables: Tables, tmp_path: Path
) -> None:
    old = tables.Leader(tmp_path)
    old.commit(1, A, B)
    old.staged(transaction(2), A, B, C)
    old.staged(transaction(1003), A)
    assert tables.files_in(tmp_path) > tables.files_of(tmp_path)
    new = tables.Leader(tmp_path, epoch=2)
    assert tables.files_in(tmp_path) == tables.files_of(tmp_path)
    new.commit(2, C)
    assert tables.rows_in(tmp_path) == [A, B, C]


@pytest.mark.parametrize("committed", [0, 1])
def test_an_attempt_that_is_given_up_leaves_no_file_whether_it_was_prepared_or_not(
    tables: Tables, tmp_path: Path, committed: int
) -> None:
    leader = tables.Leader(tmp_path)
    for txid in range(1, committed + 1):
        leader.commit(txid, A, B)
    whole, half = transaction(committed + 1), transaction(committed + 1, 1)
    staged = leader.staged(whole, A, B)
    leader.staged(half, A)
    leader.transactions.abort(whole, staged)
    leader.transactions.abort(half, None)
    leader.transactions.abort(transaction(committed + 2), None)
    assert tables.files_in(tmp_path) == tables.files_of(tmp_path)
    assert bool(tables.files_in(tmp_path)) == bool(committed)


def test_files_that_somebody_took_before_their_commit_fail_the_attempt(tables: Tables, tmp_path: Path) -> None:
    leader = tables.Leader(tmp_path)
    tx = transaction(1)
    staged = leader.staged(tx, A)
    tables.clean_up(tmp_path)
    with pytest.raises(FailedException, match="is gone before its commit; perhaps a cleanup"):
        leader.transactions.commit(tx, staged)
    leader.commit(1, A, attempt=1)
    assert tables.rows_in(tmp_path) == [A]


def test_a_commit_whose_answer_was_lost_is_neither_made_twice_nor_given_up_with_its_rows(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, tx = tables.Leader(tmp_path), transaction(1)
    staged = leader.staged(tx, A, B)
    with monkeypatch.context() as patch:
        tables.lose_answers(patch)
        with pytest.raises(
            StoreBusyException, match="can't be reached, and the attempt is retried: the answer was lost"
        ):
            leader.transactions.commit(tx, staged)
    leader.transactions.abort(tx, staged)
    assert tables.rows_in(tmp_path) == [A, B]
    leader.commit(1, A, B, attempt=1)
    leader.transactions.abort(tx, staged)
    leader.transactions.abort(tx, None)
    assert tables.rows_in(tmp_path) == [A, B]


def test_a_table_that_nobody_told_the_fields_of_is_made_with_the_first_rows_or_led_if_it_is_there(
    tables: Tables, tmp_path: Path
) -> None:
    path = tmp_path / "words"
    early = tables.untold(path)
    assert early.recover(TOPOLOGY, 1) is None
    early.abort(transaction(1), None)
    assert tables.files_in(path) == set()
    tables.Leader(path, epoch=2).commit(1, A)
    assert tables.untold(path).recover(TOPOLOGY, 3) == CommitToken(1, 2, 0)
    with pytest.raises(FencedError):
        tables.Leader(path, epoch=2)
