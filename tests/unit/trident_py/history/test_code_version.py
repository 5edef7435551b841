"""When the name of the code changes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from trident_py.history.recorder import code_version


def test_other_code_has_another_name_wherever_it_lies(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "package" / "deep").mkdir(parents=True)
        (tmp_path / name / "package" / "deep" / "steps.py").write_text("x = 1")
    before = code_version(tmp_path / "one" / "package")
    assert len(before) == 12
    assert code_version([tmp_path / "two" / "package"]) == before
    (tmp_path / "two" / "package" / "deep" / "steps.py").write_text("x = 2")
    assert code_version(tmp_path / "two" / "package") != before


def test_a_module_that_is_loaded_counts_and_what_is_installed_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_version()
    for folder, counts in (("site-packages", False), ("project", True)):
        file = tmp_path / folder / "some_steps.py"
        file.parent.mkdir()
        file.write_text("x = 1")
        spec = importlib.util.spec_from_file_location("some_steps", file)
        assert spec is not None
        monkeypatch.setitem(sys.modules, "some_steps", importlib.util.module_from_spec(spec))
        assert (code_version() != before) == counts
    file.unlink()
    assert code_version() == before
