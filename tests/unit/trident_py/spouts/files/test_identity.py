from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.spouts.files.content import open_content
from trident_py.spouts.files.identity import HASHED_BYTES, Identity

TEXT = b"".join(b"line %d\n" % number for number in range(1000))


def identity(path: Path, length: int) -> Identity | None:
    with open_content(str(path)) as content:
        return Identity.of(content, length)


def fits(path: Path, known: Identity | None) -> bool:
    assert known
    with open_content(str(path)) as content:
        return known.fits(content)


@given(length=st.integers(1, len(TEXT)), changed=st.integers(0, len(TEXT) - 1))
def test_a_change_in_the_first_or_the_last_kib_before_the_position_makes_another_file(
    tmp_path_factory: pytest.TempPathFactory, length: int, changed: int
) -> None:
    path = tmp_path_factory.mktemp("identity") / "a"
    path.write_bytes(TEXT)
    known = identity(path, length)
    path.write_bytes(TEXT[:changed] + b"\0" + TEXT[changed + 1 :])
    is_hashed = changed < min(HASHED_BYTES, length) or length - HASHED_BYTES <= changed < length
    assert fits(path, known) == (not is_hashed)


@pytest.mark.parametrize("length", [1, HASHED_BYTES, HASHED_BYTES + 1, len(TEXT)])
@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_an_identity_is_stored_in_few_bytes(tmp_path: Path, length: int, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT) if name == "a.gz" else TEXT)
    known = identity(path, length)
    assert known
    text = json.dumps(known.stored)
    assert len(text) < 64
    assert Identity.parse(json.loads(text), length) == known


def test_more_than_there_is_has_no_identity(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    assert identity(tmp_path / "a", len(TEXT) + 1) is None


def test_a_shorter_file_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    known = identity(path, 3000)
    for size in (0, 500, 1024, 2999):
        path.write_bytes(TEXT[:size])
        assert not fits(path, known)


def test_a_compressed_file_is_what_it_contains(tmp_path: Path) -> None:
    path, packed = tmp_path / "a", tmp_path / "a.gz"
    path.write_bytes(TEXT)
    packed.write_bytes(gzip.compress(TEXT))
    assert fits(packed, identity(path, 3000))
    assert fits(path, identity(packed, len(TEXT)))
    known = identity(packed, len(TEXT))
    assert known
    assert known.is_untouched(packed.stat())
    packed.write_bytes(gzip.compress(TEXT, 1))
    assert not known.is_untouched(packed.stat())
    assert fits(packed, known)


@pytest.mark.parametrize("stored", [None, 1, [], [1, 2], ["1", 2, "h"], [1, 2, 3], [1, 2, "h", "l", "5"]])
def test_what_is_no_identity_is_none(stored: object) -> None:
    assert Identity.parse(stored, 5) is None
