"""Places of files: what is stored of a file, and a file that isn't as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trident_py import SpoutError
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles, WholeFile


@pytest.mark.parametrize("stored", [["a", 3, 17], ["s3://b/a", 3, '"tag"', 17000]])
def test_a_file_is_what_was_stored_of_it(stored: list[int | str]) -> None:
    assert WholeFile.parse(stored).stored == stored


def test_an_object_that_was_written_again_with_the_same_content_is_the_same() -> None:
    assert WholeFile("a", 3, "tag", 1) == WholeFile("a", 3, "tag", 2) != WholeFile("a", 3, "other", 1)


def test_another_form_is_refused() -> None:
    with pytest.raises(SpoutError, match="which this version cannot read"):
        WholeFile.parse(["a", "3", 17])


def test_a_local_file_that_was_changed_or_deleted_stops_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    place = LocalFiles(PathPattern.of(tmp_path / "*"))
    (file,) = place.find()
    place.check(file)
    os.utime(tmp_path / "a", ns=(0, 17))
    with pytest.raises(SpoutError, match=r"a' was changed after a batch was defined with its 3 bytes; to fix this"):
        place.check(file)
    (tmp_path / "a").unlink()
    with pytest.raises(SpoutError, match=r"a' is gone, and a batch has its rows; to fix this"):
        place.check(file)
