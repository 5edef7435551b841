"""Which files may be one that is not found where it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trident_py.spouts.files.content import open_content
from trident_py.spouts.files.cursor import FileCursor, Sight
from trident_py.spouts.files.following import Suspects
from trident_py.spouts.files.identity import stamp_of
from trident_py.spouts.files.whereabouts import Here, Likeness

TEXT = b"".join(b"line %d\n" % number for number in range(1000))
LONG_AGO = float("-inf")


@pytest.fixture
def cursor(tmp_path: Path) -> FileCursor:
    """A file that was read, and is about to be renamed or copied."""
    path = str(tmp_path / "log")
    Path(path).write_bytes(TEXT)
    followed = FileCursor(path, path)
    with open_content(path) as content:
        assert followed.take(content, Sight(stamp_of(content.status), LONG_AGO), 0.0)
    return followed


def suspects(*paths: Path) -> Suspects:
    strangers = {str(path): os.stat(path) for path in paths}
    return Suspects({}, strangers, {path: Sight(stamp_of(status), LONG_AGO) for path, status in strangers.items()}, 0.0)


def test_a_file_that_was_renamed_is_found_by_device_and_inode_and_nothing_else_is_read(cursor: FileCursor) -> None:
    moved = Path(cursor.path).rename(cursor.path + ".1")
    copy = moved.with_suffix(".2")
    copy.write_bytes(TEXT)
    [found] = suspects(moved, copy).of(cursor, Here.NOTHING)
    assert (found.path, found.likeness, found.has_hint) == (str(moved), Likeness.EQUAL, True)


def test_a_copy_is_found_by_its_bytes_and_one_that_ends_before_is_told_from_it(cursor: FileCursor) -> None:
    copy, part, other = (Path(cursor.path + suffix) for suffix in (".copy", ".part", ".other"))
    copy.write_bytes(TEXT + b"more\n")
    part.write_bytes(TEXT[:5000])
    other.write_bytes(b"something else\n" * 500)
    Path(cursor.path).unlink()
    found = suspects(copy, part, other).of(cursor, Here.NOTHING)
    assert [(each.path, each.likeness) for each in found] == [
        (str(copy), Likeness.EQUAL),
        (str(part), Likeness.BEGINNING),
    ]


def test_one_that_has_device_inode_and_hashes_is_the_most_certain(cursor: FileCursor) -> None:
    moved = Path(cursor.path).rename(cursor.path + ".1")
    assert suspects(moved).certainty(cursor) == (True, len(TEXT))
    assert suspects().certainty(FileCursor("/nowhere", "/nowhere")) == (False, 0)


def test_while_it_changes_nobody_is_suspected(cursor: FileCursor) -> None:
    copy = Path(cursor.path + ".copy")
    copy.write_bytes(TEXT)
    assert suspects(copy).of(cursor, Here.CHANGING) == []


def test_a_file_whose_inode_has_other_bytes_was_cut(cursor: FileCursor) -> None:
    copy = Path(cursor.path + ".copy")
    copy.write_bytes(TEXT)
    with open(cursor.path, "r+b") as file:
        file.truncate(0)
        file.write(b"new\n")
    found = suspects(Path(cursor.path), copy)
    assert found.is_cut(cursor, found.of(cursor, Here.OTHER))
