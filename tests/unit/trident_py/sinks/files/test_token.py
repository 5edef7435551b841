"""The token in a transaction's directory."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from tests.unit.trident_py.sinks.files.staging import token, transaction
from trident_py.sinks.files.layout import Layout
from trident_py.sinks.files.token import FileToken


def test_a_token_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = token(transaction(7, 2, 5), 3, Layout("csv", ("day", "word"), {"header": True, "sep": "ü"}))
    written.write(tmp_path)
    found = FileToken.read(tmp_path)
    assert found == written
    assert found is not None
    assert (found.rows, found.layout, found.fields) == (3, written.layout, written.fields)


def test_tokens_are_the_same_if_they_are_of_the_same_attempt() -> None:
    one = token(transaction(7))
    assert one == evolve(one, rows=9)
    assert one != token(transaction(7, 1))
    assert one != token(transaction(7, epoch=2))
    assert one != evolve(one, uuid="another")
    assert one != evolve(one, incarnation=2)


def test_a_directory_without_a_token_has_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert FileToken.read(tmp_path) is None
    assert FileToken.read(tmp_path / "nowhere") is None
    assert FileToken.read(tmp_path / "file") is None
