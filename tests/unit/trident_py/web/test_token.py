from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trident_py.errors import ConfigError
from trident_py.web.token import CHARS_MIN, VARIABLE, token_at


@pytest.fixture(autouse=True)
def none_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = {token.reveal() for token in pool.map(token_at, [tmp_path / "state"] * 8)}
    assert len(found) == 1
    [file] = (tmp_path / "state").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert found == {file.read_text().strip()}
    assert len(found.pop()) >= CHARS_MIN


def test_processes_on_several_machines_are_given_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "x" * CHARS_MIN)
    assert token_at(tmp_path).reveal() == "x" * CHARS_MIN
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(VARIABLE, "x" * (CHARS_MIN - 1))
    with pytest.raises(ConfigError, match="could be guessed"):
        token_at(tmp_path)


def test_where_none_can_be_kept_the_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=rf"{tmp_path / 'file'}/token: File exists"):
        token_at(tmp_path / "file")
