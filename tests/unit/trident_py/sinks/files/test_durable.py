"""Directories that are still there after a loss of power: which are synced, and when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trident_py.sinks.files.local_path import make_directory, sync_tree


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
    return found


def test_a_directory_is_on_the_disk_once_the_names_in_the_one_above_are(tmp_path: Path, synced: list[Path]) -> None:
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]


def test_of_a_tree_all_files_and_directories_are_synced(tmp_path: Path, synced: list[Path]) -> None:
    (tmp_path / "a").mkdir()
    for name in ("x", "a/y"):
        (tmp_path / name).touch()
    sync_tree(tmp_path)
    assert set(synced) == {tmp_path, tmp_path / "a", tmp_path / "x", tmp_path / "a" / "y"}
