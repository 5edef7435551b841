from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import FailedException, SpoutError
from trident_py.spouts.files import content
from trident_py.spouts.files.content import file_errors, is_compressed, open_content

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", ["", *PACKERS])
@given(
    places=st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 3000)), max_size=6), size=st.integers(0, 30_000)
)
def test_bytes_are_found_in_whatever_order_they_are_asked_for(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, places: list[tuple[int, int]], size: int
) -> None:
    data = os.urandom(size)
    path = tmp_path_factory.mktemp("content") / f"a{suffix}"
    path.write_bytes(PACKERS.get(suffix, bytes)(data))
    assert is_compressed(str(path)) == bool(suffix)
    with pytest.MonkeyPatch.context() as small, open_content(str(path)) as opened:
        small.setattr(content, "_PULL_BYTES", 700)
        small.setattr(content, "_KEPT_BYTES", 500)
        for position, wanted in places:
            assert opened.read_at(position, wanted) == data[position : position + wanted]
        assert opened.size == size
        assert opened.packed == (path.stat().st_size if suffix else 0)
        for position, wanted in places:
            assert opened.read_at(position, wanted) == data[position : position + wanted]


def test_what_cannot_be_read_is_named_but_for_what_its_reader_expects(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    with pytest.raises(SpoutError, match=r"a.txt' is gone, .*put it back"), file_errors(path):
        open_content(path)
    with pytest.raises(FileNotFoundError), file_errors(path, FileNotFoundError):
        open_content(path)
    with pytest.raises(SpoutError, match=r"cannot be read: .*make it readable"), file_errors(path):
        raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTUNREACH])
def test_a_file_server_that_is_away_is_waited_for(number: int) -> None:
    with pytest.raises(FailedException, match=r"file 'a\.txt' can't be reached: "), file_errors("a.txt"):
        raise OSError(number, os.strerror(number), "a.txt")
