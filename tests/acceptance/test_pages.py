"""Every snippet of the documentation runs as it stands there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.pages import snippets

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
RUN = [
    page for page in PAGES if any(snippet.is_run and snippet.language in {"python", "sh"} for snippet in snippets(page))
]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.zookeeper
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path) -> None:
    program = Path(__file__).with_name("pages.py")
    done = subprocess.run([sys.executable, program, page], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_block_says_what_it_is() -> None:
    for page in PAGES:
        for snippet in snippets(page):
            assert snippet.language, f"a block of {page.name} has no language: {snippet.text[:60]!r}"
