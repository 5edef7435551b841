from __future__ import annotations

from pathlib import Path

import pytest

from trident_py.spouts.spool.files import SpoolDirectory


def test_files_appear_whole_grow_and_go(tmp_path: Path) -> None:
    files = SpoolDirectory(tmp_path / "deep" / "spool")
    assert files.names() == []
    assert files.write_new("b", b"one")
    assert not files.write_new("b", b"other")
    assert files.write_new("a", b"")
    files.append("b", b" two")
    files.append("a", b"x")
    files.append("b", b" three")
    assert (files.names(), files.read("b"), files.read("b", 4, 7)) == (["a", "b"], b"one two three", b"two")
    assert files.read("b", 8, 99) == b"three"
    files.remove("a")
    files.remove("a")
    files.close()
    files.close()
    assert files.names() == ["b"]
    with pytest.raises(FileNotFoundError):
        files.read("a")


def test_what_was_never_finished_is_no_file(tmp_path: Path) -> None:
    files = SpoolDirectory(tmp_path)
    (tmp_path / ".draft").touch()
    assert files.names() == []
    with pytest.raises(FileNotFoundError):
        files.append("c", b"x")
    assert files.place == str(tmp_path)
