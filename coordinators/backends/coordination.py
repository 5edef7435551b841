"""Where topologies are coordinated: the port through which they are led, waited for, listed, described and reset.

ZooKeeper implements it (`coordinators.backends.zookeeper.coordination`), and so does this process's memory
(`coordinators.backends.local`). Both are held to tests/contract/test_coordination.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from coordinators.record.store import RecordStore, TopologyIdentity
from coordinators.record.wishes import Wish
from coordinators.status.candidate import Candidate
from coordinators.status.description import TopologyDescription

T = TypeVar("T")


class Coordination(Protocol):
    """The records of any number of topologies, of each of which one process at a time is the leader.

    Any thread may call any method. All of them raise `CoordinationLost` if the place is out of reach, `ConfigError` if
    it doesn't let us in, and `MetadataError` if what is stored about the topology can't be read.
    """

    @property
    def place(self) -> str:
        """Where it is, for people; a topology of the same name at another place is another topology."""
        ...

    @property
    def is_in_memory(self) -> bool:
        """Whether it is for topologies of this process alone, and ends with it."""
        ...

    @property
    def state_dir(self) -> Path | None:
        """Where topologies keep their files if nobody names a directory; None: in the directory for all of them."""
        ...

    def ensure_answering(self, topology: str) -> None:
        """Return if it answers and lets us in, for ``topology``; asked before anything that takes long."""
        ...

    def lead(self, topology: str, address: str = "") -> RecordStore:
        """Lead ``topology`` from now on; every earlier leadership is fenced.

        Args:
            topology: its name.
            address: the URL at which this process answers requests, for those who look for the leader.

        Raises:
            FencedError: another leader is there, and did not end in the time that a crashed one needs to.
        """
        ...

    def stand_by(self, candidate: Candidate, take_over: Callable[[RecordStore], T]) -> T | None:
        """Lead as soon as nobody else does, however long that takes; None if ``candidate`` was withdrawn before.

        Args:
            candidate: for which topology.
            take_over: called with the record once we lead; what it returns is returned. If it raises
                `CoordinationLost`, it is called again when we lead again. It closes the store that it fails with.
        """
        ...

    def topologies(self) -> list[str]:
        """Return the names of all topologies that were ever started here, sorted."""
        ...

    def describe(self, topology: str) -> TopologyDescription:
        """Return what is stored about ``topology``, also while it runs.

        Raises:
            ConfigError: there is no such topology; names those that there are.
        """
        ...

    def wish(self, topology: str, wish: Wish) -> None:
        """Leave ``wish`` for whoever leads ``topology``; if nobody does, for the next leader.

        Once it is carried out, its outcome is in the record.

        Raises:
            ConfigError: there is no such topology.
        """
        ...

    def reset(self, topology: str) -> TopologyIdentity:
        """Forget the record and the wishes of ``topology``, so that its next start is the first of a new incarnation.

        Returns who it is then.

        The record need not be readable. Epochs go on, so that tokens in sinks stay in order; what an earlier leader may
        still send can't land any more.

        Raises:
            FencedError: somebody leads the topology.
            ConfigError: there is no such topology.
        """
        ...
