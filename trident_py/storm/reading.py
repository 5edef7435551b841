"""Reads a topology of Storm from its ZooKeeper; writes nothing there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial

from attrs import frozen

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import Znode
from trident_py.errors import TopologyError
from trident_py.storm.snapshot import StormSnapshot, StormSpout, ensure_stopped
from trident_py.storm.thrift import StormBase, storm_base

SESSION_SECONDS = 20.0
NODES_PER_ROUND = 500


@frozen(kw_only=True)
class StormZooKeeper:
    """The ZooKeeper of a Storm cluster.

    Attributes:
        hosts: ``"host:port,…/chroot"``.
        root: Storm's ``storm.zookeeper.root``.
        transactional_root: Storm's ``transactional.zookeeper.root``.
        access: credentials and TLS.
    """

    hosts: str
    root: str = "/storm"
    transactional_root: str = "/transactional"
    access: ZooKeeperAccess = ANONYMOUS

    def read(self, name: str, tx_ids: Sequence[str]) -> StormSnapshot:
        """Return the stored data of the topology ``name``, which is killed or inactive, for these spouts.

        Raises:
            ConfigError: it may still begin batches, or access is denied.
            TopologyError: Storm has stored nothing for one of the spouts.
            MetadataError: something can't be read.
            CoordinationLost: the servers can't be reached.
        """
        session = ZooKeeperSession.connect(
            self.hosts, who=f"Storm's topology {name!r}", session_timeout=SESSION_SECONDS, access=self.access
        )
        with closing(session):
            nodes = _Nodes(session)
            is_killed = self._ensure_stopped(nodes, name)
            return StormSnapshot(name, is_killed, {tx_id: self._spout(nodes, name, tx_id) for tx_id in tx_ids})

    def _ensure_stopped(self, nodes: _Nodes, name: str) -> bool:
        bases = {id: storm_base(data, path) for id, path, data in nodes.below(f"{self.root}/storms")}
        assignments = {id: data for id, _, data in nodes.below(f"{self.root}/assignments")}
        known: dict[str, StormBase] = bases
        beats = {id: nodes.children(path) for id, path, _ in nodes.below(f"{self.root}/workerbeats")}
        return ensure_stopped(name, known, assignments, {id: workers for id, workers in beats.items() if workers})

    def _spout(self, nodes: _Nodes, name: str, tx_id: str) -> StormSpout:
        base = f"{self.transactional_root}/{tx_id}"
        found = {path.removeprefix(f"{base}/"): data for path, data in nodes.all_below(base)}
        if not found:
            stored = ", ".join(sorted(nodes.children(self.transactional_root))) or "nothing"
            raise TopologyError(
                f"Storm's topology {name!r}: there is no {base} at {self.hosts}; {self.transactional_root} has "
                f"{stored}. To fix this: give the spout the tx_id that it has in Storm, or say --transactional-root"
            )
        return StormSpout.of(tx_id, found)


@frozen
class _Nodes:
    """The nodes that one session reads."""

    session: ZooKeeperSession

    def children(self, path: str) -> list[str]:
        """Return the names of the nodes below ``path``."""
        return self.session.retry_within_lease(lambda: self.session.children(self._placed(path)))

    def below(self, path: str) -> Iterator[tuple[str, str, bytes]]:
        """Yield name, path and data of each node below ``path``."""
        paths = [f"{path}/{name}" for name in self.children(path)]
        for each, data in self._read(paths):
            yield each.rpartition("/")[2], each, data

    def all_below(self, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield path and data of each node below ``path``, at any depth."""
        for _, each, data in self.below(path):
            yield each, data
            yield from self.all_below(each)

    def _read(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for first in range(0, len(paths), NODES_PER_ROUND):
            some = paths[first : first + NODES_PER_ROUND]
            read = partial(self.session.read, *map(self._placed, some))
            yield from _there(some, self.session.retry_within_lease(read))

    def _placed(self, path: str) -> str:
        return f"{self.session.chroot}{path}"


def _there(paths: Iterable[str], found: Iterable[Znode | None]) -> Iterator[tuple[str, bytes]]:
    """Yield the nodes that were not removed meanwhile."""
    for path, node in zip(paths, found, strict=True):
        if node is not None:
            yield path, node.data
