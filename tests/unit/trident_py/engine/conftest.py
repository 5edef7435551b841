from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.trident_py.engine.driving import Driven, driven, spout_of
from tests.unit.trident_py.engine.numbers import Numbers
from tests.unit.trident_py.engine.steps import PATIENCE_SECONDS, Steps
from trident_py.engine.ports.commit_thread import CommitThread


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def world(steps: Steps) -> Iterator[Driven]:
    thread = CommitThread(PATIENCE_SECONDS, lambda: steps.now[0])
    with driven([spout_of(Numbers(), "n bigint")], [steps], thread=thread) as made:
        steps.world = made
        yield made
