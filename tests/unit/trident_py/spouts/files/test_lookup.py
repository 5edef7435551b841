from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from trident_py.errors import SpoutError
from trident_py.spouts.files.content import open_content
from trident_py.spouts.files.identity import Identity
from trident_py.spouts.files.whereabouts import beside, open_same

TEXT = b"".join(b"line %d\n" % number for number in range(1000))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(TEXT)
    return tmp_path / "a"


@pytest.fixture
def identity(file: Path) -> Identity:
    with open_content(str(file)) as content:
        known = Identity.of(content, 3000)
    assert known
    return known


def found(file: Path, identity: Identity | None) -> bytes:
    with open_same(str(file), identity) as content:
        return content.read_at(0, 3000)


@pytest.mark.parametrize("name", ["a", "b", "z.gz"])
def test_a_file_is_found_under_whatever_name_of_its_directory(file: Path, identity: Identity, name: str) -> None:
    file.unlink()
    (file.parent / "broken.gz").write_bytes(b"no gzip")
    (file.parent / "directory").mkdir()
    (file.parent / "other").write_bytes(TEXT[:2000] + TEXT)
    (file.parent / name).write_bytes(gzip.compress(TEXT) if name == "z.gz" else TEXT)
    assert found(file, identity) == TEXT[:3000]


def test_without_an_identity_only_the_name_counts(file: Path) -> None:
    file.write_bytes(b"other")
    assert found(file, None) == b"other"
    file.unlink()
    with pytest.raises(FileNotFoundError):
        found(file, None)


def test_a_file_that_is_nowhere_is_named(file: Path, identity: Identity) -> None:
    file.write_bytes(TEXT[:2999])
    with pytest.raises(SpoutError, match=r"neither file '.*/a' nor another one .* 3000 bytes .*put it back"):
        found(file, identity)


def test_a_directory_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert list(beside(str(tmp_path / "no" / "a"))) == []
