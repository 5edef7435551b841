"""The directory protocol of `FileSink`, with two leaders and late tasks, and killed at each of its steps."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.sinks.files.staging import TOPOLOGY, staged, token, transaction, words
from trident_py import CommitToken, FencedError, SinkError, TopologyKey
from trident_py.sinks.files.directory import TransactionDirectory, committed
from trident_py.sinks.files.token import FileToken


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "below" / "words"


def leader(path: Path, epoch: int = 1, topology: TopologyKey = TOPOLOGY) -> TransactionDirectory:
    directory = TransactionDirectory(path)
    directory.recover(topology, epoch)
    return directory


def commit(directory: TransactionDirectory, txid: int, *rows: str, attempt: int = 0, epoch: int = 1) -> None:
    tx = transaction(txid, attempt, epoch)
    directory.commit(tx, staged(directory, tx, *rows))


def staging(path: Path) -> Path:
    return path.parent / f".{path.name}.staging"


def names(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*"))


def test_a_transaction_appears_whole_and_leaves_nothing_beside_its_token(path: Path) -> None:
    directory = leader(path)
    receipt = staged(directory, transaction(1), "a", "b")
    assert words(path) == []
    directory.commit(transaction(1), receipt)
    assert words(path) == ["a", "b"]
    assert names(path) == ["txid=1", "txid=1/_token", "txid=1/part-00000-1.json"]
    assert [name for name in names(staging(path)) if "0" in name.split("/")[-1]] == [TOPOLOGY.uuid]


def test_the_token_says_whose_a_transaction_is(path: Path) -> None:
    commit(leader(path, 4), 1, "a", attempt=2, epoch=4)
    facts = json.loads((path / "txid=1" / "_token").read_text())
    assert {name: facts[name] for name in ("uuid", "incarnation", "txid", "epoch", "attempt")} == {
        "uuid": TOPOLOGY.uuid,
        "incarnation": 1,
        "txid": 1,
        "epoch": 4,
        "attempt": 2,
    }


def test_a_transaction_without_rows_is_a_directory_with_its_token_only(path: Path) -> None:
    directory, tx = leader(path), transaction(1)
    directory.commit(tx, directory.stage(tx, [], token(tx, 0)))
    assert names(path) == ["txid=1", "txid=1/_token"]
    assert TransactionDirectory(path).recover(TOPOLOGY, 2) == tx.token


def test_recovery_returns_the_token_of_the_last_commit(path: Path) -> None:
    directory = TransactionDirectory(path)
    assert directory.recover(TOPOLOGY, 1) is None
    for txid in (1, 2, 10):
        commit(directory, txid, "a")
    assert TransactionDirectory(path).recover(TOPOLOGY, 2) == CommitToken(10, 1, 0)


def test_a_transaction_that_comes_again_changes_nothing(path: Path) -> None:
    """The repros of apache/paimon#9666 and delta-io/delta#1813."""
    directory = leader(path)
    commit(directory, 1, "a")
    commit(directory, 1, "a", attempt=1)
    successor = leader(path, 2)
    commit(successor, 1, "a", attempt=2, epoch=2)
    assert words(path) == ["a"]


def test_an_attempt_whose_commit_was_not_answered_is_adopted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = leader(path)
    with monkeypatch.context() as patch:
        patch.setattr("trident_py.sinks.files.directory.sync", _fails)
        with pytest.raises(OSError, match="no answer"):
            commit(directory, 1, "a")
    commit(directory, 1, "a", attempt=1)
    commit(directory, 2, "b")
    assert words(path) == ["a", "b"]


def test_a_rename_whose_answer_was_lost_is_found_to_have_been_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, rename = leader(path), Path.rename

    def unanswered(self: Path, target: Path) -> None:
        rename(self, target)
        if target.name == "txid=1":
            raise FileNotFoundError(errno.ENOENT, "no such file")

    receipt = staged(directory, transaction(1), "a")
    monkeypatch.setattr(Path, "rename", unanswered)
    directory.commit(transaction(1), receipt)
    assert words(path) == ["a"]


def _fails(path: Path) -> None:
    raise OSError("no answer")


def test_an_aborted_attempt_leaves_nothing(path: Path) -> None:
    directory = leader(path)
    staged(directory, transaction(1), "a")
    directory.draft(transaction(2)).mkdir()
    directory.abort(transaction(1))
    directory.abort(transaction(2))
    directory.abort(transaction(3))
    assert not [name for name in names(staging(path)) if name.endswith(("-0", "-whole"))]


def test_two_attempts_are_prepared_side_by_side(path: Path) -> None:
    directory = leader(path)
    first, second = transaction(1), transaction(1, attempt=1)
    receipts = staged(directory, first, "a"), staged(directory, second, "a")
    directory.abort(first)
    directory.commit(second, receipts[1])
    assert words(path) == ["a"]


# --- leaders ----------------------------------------------------------------------------------------------------------


def test_what_an_older_leader_has_staged_can_not_be_committed(path: Path) -> None:
    older = leader(path, 1)
    receipt = staged(older, transaction(1), "a")
    newer = leader(path, 2)
    with pytest.raises(FencedError, match=r"attempt 1:0, epoch 1: .*'/.*words'"):
        older.commit(transaction(1), receipt)
    assert words(path) == []
    commit(newer, 1, "b", epoch=2)
    with pytest.raises(FencedError):
        older.commit(transaction(2), receipt)
    assert words(path) == ["b"]


def test_an_older_leader_can_stage_nothing_more_also_where_tasks_have_made_its_directories_again(path: Path) -> None:
    older = leader(path, 1)
    leader(path, 2)
    with pytest.raises(FencedError):
        staged(older, transaction(1), "a")
    assert words(path) == []
    assert not (staging(path) / TOPOLOGY.uuid / "1").exists()


def test_a_leader_that_was_overtaken_before_it_took_over_is_refused(path: Path) -> None:
    leader(path, 3)
    with pytest.raises(FencedError, match=r"topology 'words', epoch 2: a leader of epoch 3"):
        leader(path, 2)
    leader(path, 3)


def test_a_transaction_of_a_newer_leader_stays_and_ends_the_older_one(path: Path) -> None:
    older = leader(path, 1)
    receipt = staged(older, transaction(1), "a")
    shutil.copytree(staging(path), staging(path).with_name("kept"))
    commit(leader(path, 2), 1, "b", epoch=2)
    shutil.rmtree(staging(path))
    staging(path).with_name("kept").rename(staging(path))  # a fence that was lost: the token still refuses
    with pytest.raises(FencedError, match="a leader of epoch 2"):
        older.commit(transaction(1), receipt)
    with pytest.raises(FencedError, match="a leader of epoch 2"):
        leader(path, 1)
    assert words(path) == ["b"]


def test_a_recovery_may_be_repeated_and_sweeps_what_the_first_one_found(path: Path) -> None:
    directory = leader(path, 1)
    receipt = staged(directory, transaction(1), "a")
    directory.recover(TOPOLOGY, 1)
    assert not receipt.exists()
    commit(directory, 1, "a")
    assert words(path) == ["a"]


def test_recovery_removes_what_older_leaders_have_left_and_not_what_newer_ones_write(path: Path) -> None:
    first = leader(path, 1)
    staged(first, transaction(1), "a")
    first.draft(transaction(2)).mkdir(parents=True)
    first.draft(transaction(2, epoch=3)).mkdir(parents=True)
    leader(path, 2)
    own = staging(path) / TOPOLOGY.uuid
    assert sorted(each.name for each in own.iterdir()) == ["2", "drafts-3"]


# --- what is in the directory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "whose"),
    [
        (
            TopologyKey("words", "other", 1),
            "another topology: 1 is of topology 9510caa8, incarnation 1, and ours is other",
        ),
        (TopologyKey("words", TOPOLOGY.uuid, 2), "this topology before it was reset"),
    ],
)
def test_a_directory_with_somebody_elses_transactions_is_refused_by_name(
    path: Path, other: TopologyKey, whose: str
) -> None:
    commit(leader(path), 1, "a")
    with pytest.raises(SinkError, match=f"words' has transactions of {whose}"):
        leader(path, 2, other)
    assert words(path) == ["a"]


def test_a_transaction_that_somebody_else_has_committed_meanwhile_is_not_adopted(path: Path) -> None:
    ours, theirs = leader(path), leader(path, 1, other := TopologyKey("others", "other", 1))
    tx = transaction(1, topology=other)
    theirs.commit(tx, staged(theirs, tx, "b"))
    with pytest.raises(SinkError, match="has transactions of another topology"):
        commit(ours, 1, "a")
    assert words(path) == ["b"]


@pytest.mark.parametrize("name", ["rows.parquet", "txid=x", "txid=01", "txid=-1", "year=2026"])
def test_a_directory_that_holds_something_else_is_refused_by_name(path: Path, name: str) -> None:
    (path / name).mkdir(parents=True)
    with pytest.raises(SinkError, match=f"holds '{name}', which is not a transaction"):
        leader(path)


def test_hidden_files_in_the_directory_are_left_alone(path: Path) -> None:
    path.mkdir(parents=True)
    for name in ("_SUCCESS", ".DS_Store"):
        (path / name).touch()
    commit(leader(path), 1, "a")
    assert committed(path) == {1: path / "txid=1"}


def test_a_directory_of_a_transaction_without_a_token_is_refused(path: Path) -> None:
    (path / "txid=1").mkdir(parents=True)
    (path / "txid=1" / "rows.json").touch()
    with pytest.raises(SinkError, match=r"txid=1' .* has no token"):
        leader(path)
    (path / "txid=1").rename(path / ".aside")
    directory = leader(path)
    (path / ".aside").rename(path / "txid=1")
    with pytest.raises(SinkError, match="has no token"):
        commit(directory, 1, "a")


def test_a_damaged_token_is_refused(path: Path) -> None:
    commit(leader(path), 1, "a")
    for damaged in ("", "[]", "{}", '{"uuid": 1}'):
        (path / "txid=1" / "_token").write_text(damaged)
        with pytest.raises(SinkError, match="_token can't be read"):
            leader(path, 2)


def test_a_path_that_is_a_file_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with pytest.raises(FileExistsError):
        leader(path)


def test_a_path_behind_a_link_is_staged_beside_what_it_leads_to(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "disk" / "data"
    real.mkdir(parents=True)
    path.parent.mkdir()
    path.symlink_to(real)
    commit(leader(path), 1, "a")
    assert words(real) == words(path) == ["a"]
    assert staging(real).is_dir()
    assert not staging(path).exists()


def test_a_path_on_another_file_system_than_its_parent_is_refused_at_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def across(source: Any, target: Any) -> None:
        if Path(target).is_relative_to(path) != Path(source).is_relative_to(path):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target)

    monkeypatch.setattr(os, "rename", across)
    with pytest.raises(SinkError, match=r"words' is on another file system than the directory it is in"):
        leader(path)


def test_what_is_wrong_with_a_rename_is_told_as_it_is(path: Path) -> None:
    directory = leader(path)
    receipt = staged(directory, transaction(1), "a")
    shutil.rmtree(path)
    with pytest.raises(FileNotFoundError, match="txid=1"):
        directory.commit(transaction(1), receipt)


# --- killed at each step ----------------------------------------------------------------------------------------------


def test_whatever_step_is_the_last_one_readers_see_whole_transactions_and_the_next_leader_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader commits; another takes over while an attempt is staged, and commits that: killed before each step."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nobody cuts the power
    for last in count(1):
        path = tmp_path / str(last) / "words"
        is_killed = _is_killed_before(last, path)
        before = words(path)
        assert before in ([], ["a"], ["a", "b"])
        successor = TransactionDirectory(path)
        found = successor.recover(TOPOLOGY, 3)
        assert (found.txid if found else 0) == len(before), f"killed before step {last}"
        for txid, word in enumerate("abc", 1):
            commit(successor, txid, word, epoch=3)
        assert words(path) == ["a", "b", "c"]
        assert names(staging(path) / TOPOLOGY.uuid) == ["3", "drafts-3"]
        if not is_killed:
            break
    assert last > 40


def _is_killed_before(last: int, path: Path) -> bool:
    """Have another process do it up to that step, and die of SIGKILL; False: it has got to its end."""
    child = os.fork()
    if child == 0:
        try:
            _do(path, last)
        except BaseException:  # noqa: BLE001 - nothing may come back from here: pytest runs in the other process
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def _do(path: Path, last: int) -> None:
    remaining = last

    def dying(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            assert words(path) in ([], ["a"], ["a", "b"])
            return step(*args, **kwargs)

        return run

    steps: Sequence[tuple[Any, str]] = (
        (os, "mkdir"),
        (os, "rename"),
        (os, "fsync"),
        (shutil, "rmtree"),
        (FileToken, "write"),
    )
    for owner, step in steps:
        setattr(owner, step, dying(getattr(owner, step)))  # in this process only
    first = leader(path, 1)
    commit(first, 1, "a")
    staged(first, transaction(2), "b")
    commit(leader(path, 2), 2, "b", epoch=2)
