"""What `trident compact` takes, and refuses; that it copies rows as they are is in tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trident_py.sinks.files.staging import TOPOLOGY, staged, transaction
from trident_py import SinkError, TopologyKey
from trident_py.cli import main
from trident_py.sinks.files.compaction import compactable
from trident_py.sinks.files.directory import TransactionDirectory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "words"
    written(path, TOPOLOGY, 3, 4, 5)
    return path


def written(path: Path, topology: TopologyKey, *txids: int) -> None:
    directory = TransactionDirectory(path)
    directory.recover(topology, 1)
    for txid in txids:
        tx = transaction(txid, topology=topology)
        directory.commit(tx, staged(directory, tx, *"ab"))


def test_all_that_is_committed_is_taken_or_what_is_up_to_a_transaction(path: Path, tmp_path: Path) -> None:
    every, some = (compactable(path, tmp_path / "new", up_to) for up_to in (None, 4))
    assert (every.first, every.last.commit.txid, every.rows) == (3, 5, 6)
    assert (some.first, some.last.commit.txid, some.rows) == (3, 4, 4)
    assert some.size == 2 * len('{"word": "a"}\n{"word": "b"}\n')


@pytest.mark.parametrize(("up_to", "there"), [(6, "has 3 to 5"), (2, "has 3 to 5"), (0, "has 3 to 5")])
def test_a_transaction_that_is_not_there_is_refused(path: Path, tmp_path: Path, up_to: int, there: str) -> None:
    with pytest.raises(SinkError, match=f"transaction {up_to} is not in .*{there}"):
        compactable(path, tmp_path / "new", up_to)


def test_a_target_that_exists_is_refused_whatever_it_is(path: Path, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("directory", "file", "link", "words"):
        with pytest.raises(SinkError, match=f"{name}' exists already"):
            compactable(path, tmp_path / name, None)


def test_a_target_below_the_path_is_refused_also_by_another_name(path: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(path)
    for target in (path / "new", path / "txid=3" / "new", tmp_path / "alias" / "new"):
        with pytest.raises(SinkError, match=r"is below .*words', and its readers would see rows twice"):
            compactable(path, target, None)


def test_a_path_without_transactions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        with pytest.raises(SinkError, match=f"nothing is committed in '.*{name}'"):
            compactable(tmp_path / name, tmp_path / "new", None)


def test_transactions_of_several_topologies_are_refused(path: Path, tmp_path: Path) -> None:
    written(tmp_path / "other", other := TopologyKey("others", "other", 1), 6)
    (tmp_path / "other" / "txid=6").rename(path / "txid=6")
    with pytest.raises(SinkError, match="has transactions of another topology: 6 is of topology other"):
        compactable(path, tmp_path / "new", None)
    assert compactable(path, tmp_path / "new", 5).rows == 6
    assert other.uuid == "other"


def test_what_is_refused_is_told_by_the_command_and_nothing_is_started(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["compact", str(path), str(path)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["compact", "s3a://bucket/words", "new"]) == 1
    assert "is on no file system that is mounted here" in capsys.readouterr().err
