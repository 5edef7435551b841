"""Storm's znodes, as Storm 2.8.3 has stored them, in a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import Create, Step
from coordinators.values.errors import ConfigError, TopologyError
from tests.storm_data.dumps import NAMES, nodes_of, snapshot_of
from trident_py.storm.reading import StormZooKeeper

pytestmark = pytest.mark.zookeeper


def fill(hosts: str, nodes: Mapping[str, bytes], roots: tuple[str, str] = ("/storm", "/transactional")) -> None:
    """Store these nodes below Storm's two roots."""
    session = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0)
    placed = {
        f"{session.chroot}{roots[0]}{path.removeprefix('/storm')}"
        if path.startswith("/storm/")
        else f"{session.chroot}{roots[1]}{path.removeprefix('/transactional')}": data
        for path, data in nodes.items()
        if path != "/transactional"
    }
    for root in roots:
        session.retry_within_lease(partial(session.ensure_path, f"{session.chroot}{root}"))
    creates: list[Step] = [Create(path, data) for path, data in sorted(placed.items())]
    session.retry_within_lease(lambda: session.commit(creates))
    session.close()


def test_all_of_a_topology_is_read_from_below_the_roots_of_storms_configuration(zookeeper: str) -> None:
    name = "storm-kafka-exact"
    fill(zookeeper, nodes_of(name), ("/cluster/storm", "/tx"))
    storm = StormZooKeeper(hosts=zookeeper, root="/cluster/storm", transactional_root="/tx")
    assert storm.read(name, [name]) == snapshot_of(name)
    with pytest.raises(
        TopologyError, match=r"'storm-kafka-exact': there is no /tx/lines at .*; /tx has storm-exact, st"
    ):
        storm.read(name, ["lines"])
    assert storm.read(name, list(NAMES[:3])).spouts.keys() == set(NAMES[:3])


def test_an_active_topology_is_refused_and_an_inactive_one_is_read(zookeeper: str) -> None:
    fill(zookeeper, nodes_of("storm-exact", "active"))
    with pytest.raises(ConfigError, match="is ACTIVE"):
        StormZooKeeper(hosts=zookeeper).read("storm-exact", ["storm-exact"])
    fill(f"{zookeeper}/other", nodes_of("storm-exact", "inactive"))
    assert StormZooKeeper(hosts=f"{zookeeper}/other").read("storm-exact", ["storm-exact"]) == snapshot_of(
        "storm-exact", "inactive"
    )
