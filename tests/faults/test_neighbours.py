"""The faults that other programs are, and the page that lists them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.all import FAULTS
from tests.faults.neighbours import PREFIX

PAGE = Path(__file__).parents[2] / "docs/how-to/other-writers.md"


def test_the_page_lists_every_change_that_is_tested_with_a_real_client() -> None:
    listed = re.findall(rf"^\| `({PREFIX}-[a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert listed == [name for name in FAULTS if name.startswith(f"{PREFIX}-")]
