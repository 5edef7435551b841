"""Storm's example programs, as examples/storm has them, print what the originals gave for the same input.

The originals are those of storm-starter. They ran once in a ``LocalCluster`` of Storm 2.8.3, over the input that the
examples have (their cycles end, and their random numbers are fixed), and printed what is written here.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "storm"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run a program in this process; return the lines that it prints."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_trident_word_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("trident_word_count", capsys) == ["DRPC RESULT: [['the', 5], ['jumped', 1]]"]


def test_trident_map_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("trident_map_example", capsys) == [*["THE"] * 5, "DRPC RESULT: [[5]]"]


def test_trident_windowing(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [*range(100, 1000, 100), 1000, 1000, 1000]
    assert printed("trident_windowing", capsys) == [f"Received tuple: [{count}]" for count in counts]
