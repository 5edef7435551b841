from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from trident_py.errors import SpoutError, TopologyError
from trident_py.spouts.files.paths import PathPattern

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[5])}


def found(directory: Path, pattern: str) -> list[str]:
    return sorted(str(Path(path).relative_to(directory)) for path in PathPattern.of(directory / pattern).find())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.txt",
        "b.txt",
        "c.log",
        ".hidden.txt",
        "x/a.txt",
        "x/y/a.txt",
        "x/.h/a.txt",
        "z/[1].txt",
        "z/1.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.txt", ["a.txt", "b.txt"]),
        ("?.*", ["a.txt", "b.txt", "c.log"]),
        ("[ac].*", ["a.txt", "c.log"]),
        ("[!a].txt", ["b.txt"]),
        (".*.txt", [".hidden.txt"]),
        ("a.txt", ["a.txt"]),
        ("no.txt", []),
        ("no/*.txt", []),
        ("a.txt/*", []),
        ("*/a.txt", ["x/a.txt"]),
        ("*/*/*", ["x/y/a.txt"]),
        ("**/a.txt", ["a.txt", "x/a.txt", "x/y/a.txt"]),
        ("x/**", ["x/a.txt", "x/y/a.txt"]),
        ("**/y/*", ["x/y/a.txt"]),
        ("x/.h/*", ["x/.h/a.txt"]),
        ("z/[[]1].txt", ["z/[1].txt"]),
        ("z/[1].txt", ["z/1.txt", "z/[1].txt"]),
        ("x/../*.log", ["c.log"]),
    ],
)
def test_a_pattern_finds_files_as_glob_does(tree: Path, pattern: str, names: list[str]) -> None:
    assert found(tree, pattern) == names
    files = [path for path in tree.rglob("*") if path.is_file()]
    matching = [path for path in files if PathPattern.of(tree / pattern).matches(str(path))]
    assert sorted(str(path.relative_to(tree)) for path in matching) == names


def test_directories_and_pipes_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "directory.txt").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    assert found(tmp_path, "*.txt") == []


def test_links_to_files_are_files_and_links_that_lead_nowhere_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "dangling.txt").symlink_to("gone")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    assert found(tmp_path, "*.txt") == ["a.txt", "link.txt"]


def test_a_loop_of_directories_comes_to_an_end(tree: Path) -> None:
    (tree / "x" / "up").symlink_to(tree)
    assert found(tree, "**/a.txt") == ["a.txt", "x/a.txt", "x/y/a.txt"]
    assert found(tree, "x/up/b.txt") == ["x/up/b.txt"]


def test_a_name_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).touch()
    with pytest.raises(SpoutError, match=r"caf\\xe9.txt' is not UTF-8; to fix this: rename it"):
        found(tmp_path, "*.txt")


AS_NOBODY = """
import os, sys
from trident_py.spouts.files.paths import PathPattern, SpoutError
if os.geteuid() == 0:  # root may read anything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print(list(PathPattern.of(sys.argv[1]).find()))
except SpoutError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("mode", "message"), [(0o000, "directory '{}' cannot be read"), (0o444, "file '{}/a.txt' has no readable status")]
)
def test_a_directory_that_cannot_be_read_is_named(mode: int, message: str) -> None:
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        directory = Path(base, "closed")
        directory.mkdir()
        (directory / "a.txt").touch()
        directory.chmod(mode)
        run = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, f"{base}/**/*"], capture_output=True, text=True, check=False, env=ENV
        )
        directory.chmod(0o700)
    assert message.format(directory) in run.stdout, run.stderr


def test_a_missing_base_directory_and_a_bare_directory_are_errors_at_the_start(tree: Path) -> None:
    PathPattern.of(tree / "x" / "*.none").check()
    with pytest.raises(
        SpoutError, match=r"there is no directory '.*/no', where '.*/no/.*txt' is searched; to fix this: make it"
    ):
        PathPattern.of(tree / "no" / "*.txt").check()
    with pytest.raises(SpoutError, match=r"/x' is a directory; to fix this: for the files in it write '.*/x/\*'"):
        PathPattern.of(tree / "x").check()


def test_a_pattern_is_relative_to_where_it_is_used(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert list(PathPattern.of("x/*.txt").find()) == [str(tree / "x" / "a.txt")]


@pytest.mark.parametrize("pattern", ["", "s3://bucket/*.txt", "file:///tmp/*", "a\0b", None, 5, b"/tmp/*"])
def test_what_is_no_pattern_of_local_files_is_refused(pattern: Any) -> None:
    with pytest.raises(TopologyError, match="is not a pattern of local files"):
        PathPattern.of(pattern)
