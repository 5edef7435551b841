"""Unit tests of what users see need neither Spark nor ZooKeeper, and find out if they come to need one."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tests.topologies import topology as topology
from tests.topologies import words as words


def _refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a unit test would have started a JVM; give the topology a LocalCoordination and no session")


@pytest.fixture(autouse=True)
def _no_jvm_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.core.context.launch_gateway", _refuse)
    monkeypatch.setattr("coordinators.backends.zookeeper.embedded._launch", _refuse)
