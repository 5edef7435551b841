"""The fast faults, for whoever has no hour; `python -m tests.faults` does them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinators.values.errors import ConfigError
from tests.faults.all import FAULTS
from tests.faults.catalogue import do
from tests.faults.world import World
from tests.servers.missing import IS_CI, lacks
from tests.servers.postgresql import NoServerError

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.postgres]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One set of servers and warm drivers for all of them."""
    running = World.running()
    try:
        made = running.__enter__()
    except (ConfigError, NoServerError) as error:
        lacks("a server of the faults", error)
    made.prepare(3)
    yield made
    running.__exit__(None, None, None)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.fast])
def test_every_rule_holds_under(name: str, world: World) -> None:
    result = do(world, FAULTS[name])
    if result.skipped and not IS_CI:
        pytest.skip(result.skipped)
    assert result.is_good, [result.error, *map(str, result.broken)]
