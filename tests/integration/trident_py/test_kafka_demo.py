"""`trident demo --kafka`, whole, on a broker that it starts itself."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.topologies import TRIDENT

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_the_story_of_kafka_ends_well() -> None:
    command = [*TRIDENT, "demo", "--kafka", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["orders"], told["kills"], told["each_exactly_once"]) == (24_000, 3, True)
    assert sum(told["turnover"].values()) > 0
    assert done.stderr.count("killed it, by SIGKILL") == 3
