"""`Coordination` by ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import frozen

from coordinators.backends.zookeeper import administration, leadership
from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess
from coordinators.record.store import RecordStore, TopologyIdentity
from coordinators.record.wishes import Wish
from coordinators.status.candidate import Candidate
from coordinators.status.description import TopologyDescription

T = TypeVar("T")


@frozen(kw_only=True)
class ZooKeeperCoordination:
    """Topologies on ZooKeeper servers.

    Attributes:
        hosts: ``"host:port,…/chroot"``.
        root: the node under which every topology has its own.
        session_timeout: seconds after which the servers end the session of a silent leader.
        access: credentials and TLS.
    """

    hosts: str
    root: str = "/trident"
    session_timeout: float = 10.0
    access: ZooKeeperAccess = ANONYMOUS

    @property
    def place(self) -> str:
        return f"ZooKeeper {self.hosts}{self.root}"

    @property
    def is_in_memory(self) -> bool:
        """False: the servers outlive the leading process."""
        return False

    @property
    def state_dir(self) -> None:
        """None: topologies store their files in the directory that all topologies share."""
        return

    def ensure_answering(self, topology: str) -> None:
        leadership.ensure_answering(topology, self.hosts, self.session_timeout, self.access)

    def lead(self, topology: str, address: str = "") -> RecordStore:
        """Lead ``topology`` from now on, see `leadership.lead`."""
        return leadership.lead(topology, address=address, session_timeout=self.session_timeout, **self._where)

    def stand_by(self, candidate: Candidate, take_over: Callable[[RecordStore], T]) -> T | None:
        """Lead as soon as no other process does, see `leadership.stand_by`."""
        return leadership.stand_by(candidate, take_over, session_timeout=self.session_timeout, **self._where)

    def topologies(self) -> list[str]:
        return administration.list_topologies(**self._where)

    def describe(self, topology: str) -> TopologyDescription:
        """Return the stored data of ``topology``, see `administration.describe`."""
        return administration.describe(topology, **self._where)

    def wish(self, topology: str, wish: Wish) -> None:
        """Store ``wish`` for the leader of ``topology``, see `administration.leave_wish`."""
        administration.leave_wish(topology, wish, **self._where)

    def reset(self, topology: str) -> TopologyIdentity:
        """Begin a new incarnation of ``topology``, see `administration.reset`."""
        return administration.reset(topology, **self._where)

    @property
    def _where(self) -> dict[str, Any]:
        return {"hosts": self.hosts, "root": self.root, "access": self.access}
