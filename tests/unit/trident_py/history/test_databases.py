"""Which database a place is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coordinators.values.secret import Secret
from trident_py.errors import ConfigError
from trident_py.history.databases import history_at


def test_a_path_is_a_file_and_a_secret_a_database(tmp_path: Path) -> None:
    assert history_at(tmp_path / "h.db").shown == str(tmp_path / "h.db")
    assert history_at(Secret("postgresql://me:secret@db.example/past")).shown == "db.example/past"


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setattr("trident_py.history.databases.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'trident-py\[postgres\]'"):
        history_at(Secret("postgresql://localhost/past"))
