from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.spouts.files.content import open_content
from trident_py.spouts.files.cursor import FileCursor, Sight
from trident_py.spouts.files.following import Beginnings
from trident_py.spouts.files.identity import HASHED_BYTES, stamp_of

pieces = st.lists(st.sampled_from([b"a", b"b", b"ab" * 40, b"b" * 700]), min_size=1, max_size=4).map(b"".join)


def cursor_of(path: Path, data: bytes) -> FileCursor:
    path.write_bytes(data)
    cursor = FileCursor(str(path), str(path))
    with open_content(str(path)) as content:
        cursor.take(content, Sight(stamp_of(content.status), 0.0), 0.0)
    return cursor


@given(st.lists(pieces, max_size=5), pieces)
def test_a_file_begins_like_one_that_has_its_first_kib_or_less(
    tmp_path_factory: pytest.TempPathFactory, known: list[bytes], new: bytes
) -> None:
    directory = tmp_path_factory.mktemp("beginnings")
    beginnings = Beginnings()
    for number, data in enumerate(known):
        beginnings.add(cursor_of(directory / str(number), data))
    head = new[:HASHED_BYTES]
    alike = [data for data in known if head.startswith(data[:HASHED_BYTES]) or data.startswith(head)]
    found = beginnings.like(head)
    assert (found is not None) == bool(alike)
    assert found is None or Path(found.path).read_bytes() in alike


def test_an_empty_file_begins_like_nothing(tmp_path: Path) -> None:
    beginnings = Beginnings()
    beginnings.add(cursor_of(tmp_path / "a", b""))
    assert beginnings.like(b"text") is None


def test_many_files_with_one_start_are_not_all_read(tmp_path: Path) -> None:
    beginnings = Beginnings()
    for number in range(20):
        beginnings.add(cursor_of(tmp_path / str(number), b"x" * 100 + b"%d" % number))
    assert beginnings.like(b"x" * 100 + b"?") is not None
