"""The kill harness, in a small size; `tests.faults` kills at chosen points."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.acceptance.kills import TARGETS, Killing

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.zookeeper]


def test_a_word_count_killed_four_times_counts_every_word_once(tmp_path: Path) -> None:
    killing = Killing(tmp_path, megabytes=4, chance=random.Random(7), files=10, latest_seconds=16)
    killing.write(0.9)
    killing.run(len(TARGETS))
    assert [target for target, _, _ in killing.exits] == list(TARGETS)
    killing.write(0.1)
    killing.run(0)
    assert killing.difference() == ({}, {})
