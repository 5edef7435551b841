"""Spouts that are shipped give each row once: the kit kills them everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from trident_py import FileSpout
from trident_py.testing import check_spout

pytestmark = pytest.mark.hours

LINES = [(f"line {number}",) for number in range(12)]


def test_a_file_passes(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{line}\n" for (line,) in LINES))
    report = check_spout(lambda: FileSpout(path, max_bytes_per_batch=20), lambda: LINES)
    assert report.ok, str(report)
