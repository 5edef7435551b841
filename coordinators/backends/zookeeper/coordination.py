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
        session_timeout: seconds after which the servers give up a silent leader.
        access: how to be let in.
    """

    hosts: str
    root: str = "/trident"
    session_timeout: float = 10.0
    access: ZooKeeperAccess = ANONYMOUS

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"ZooKeeper {self.hosts}{self.root}"

    @property
    def is_in_memory(self) -> bool:
        """False: servers outlive those who lead."""
        return False

    @property
    def state_dir(self) -> None:
        """None: topologies keep their files in the directory for all of them."""
        return

    def ensure_answering(self, topology: str) -> None:
        """Return if a server answers and lets us in, on behalf of ``topology``."""
        leadership.ensure_answering(topology, self.hosts, self.session_timeout, self.access)

    def lead(self, topology: str, address: str = "") -> RecordStore:
        """Lead ``topology`` from now on, as `leadership.lead` does."""
        return leadership.lead(topology, address=address, session_timeout=self.session_timeout, **self._where)

    def stand_by(self, candidate: Candidate, take_over: Callable[[RecordStore], T]) -> T | None:
        """Lead as soon as nobody else does, as `leadership.stand_by` does."""
        return leadership.stand_by(candidate, take_over, session_timeout=self.session_timeout, **self._where)

    def topologies(self) -> list[str]:
        """Return the names of all topologies that were ever started here, sorted."""
        return administration.list_topologies(**self._where)

    def describe(self, topology: str) -> TopologyDescription:
        """Return what is stored about ``topology``, as `administration.describe` finds it."""
        return administration.describe(topology, **self._where)

    def wish(self, topology: str, wish: Wish) -> None:
        """Leave ``wish`` for whoever leads ``topology``, as `administration.leave_wish` does."""
        administration.leave_wish(topology, wish, **self._where)

    def reset(self, topology: str) -> TopologyIdentity:
        """Begin a new incarnation of ``topology``, as `administration.reset` does."""
        return administration.reset(topology, **self._where)

    @property
    def _where(self) -> dict[str, Any]:
        return {"hosts": self.hosts, "root": self.root, "access": self.access}
