"""Coordination of topologies: the interface through which they are led, waited for, listed, described and reset.

ZooKeeper implements it (`coordinators.backends.zookeeper.coordination`), and so does the memory of this process
(`coordinators.backends.local`). Both must pass tests/contract/test_coordination.py.
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
    """The records of any number of topologies, each of which has at most one leading process at a time.

    Any thread may call any method. All methods raise:

    - `CoordinationLost` if the servers can't be reached;
    - `ConfigError` if they deny access;
    - `MetadataError` if the topology's stored data can't be read.
    """

    @property
    def place(self) -> str:
        """Its location, for people; a topology of the same name at another place is another topology."""
        ...

    @property
    def is_in_memory(self) -> bool:
        """Whether it is only for topologies of this process, and ends with it."""
        ...

    @property
    def state_dir(self) -> Path | None:
        """The default directory for files of topologies; None: the directory that all topologies share."""
        ...

    def ensure_answering(self, topology: str) -> None:
        """Return if it answers and grants access, for ``topology``; called before long operations."""
        ...

    def lead(self, topology: str, address: str = "") -> RecordStore:
        """Lead ``topology`` from now on; every earlier leadership is fenced.

        Args:
            topology: its name.
            address: the URL of this process's HTTP server, for processes that look for the leader.

        Raises:
            FencedError: another process leads, and did not end in the time after which a crashed one would be gone.
        """
        ...

    def stand_by(self, candidate: Candidate, take_over: Callable[[RecordStore], T]) -> T | None:
        """Lead as soon as no other process does, without time limit; return None if ``candidate`` was withdrawn before.

        Args:
            candidate: names the topology.
            take_over: called with the record store once this process leads; its result is returned. If it raises
                `CoordinationLost`, it is called again when this process leads again. It closes the store that it fails
                with.
        """
        ...

    def topologies(self) -> list[str]:
        """Return the names of all topologies that were ever started here, sorted."""
        ...

    def describe(self, topology: str) -> TopologyDescription:
        """Return the stored data of ``topology``, also while it runs.

        Raises:
            ConfigError: there is no such topology; names the existing ones.
        """
        ...

    def wish(self, topology: str, wish: Wish) -> None:
        """Store ``wish`` for the leader of ``topology``; if no process leads, for the next leader.

        Once it is carried out, its outcome is in the record.

        Raises:
            ConfigError: there is no such topology.
        """
        ...

    def reset(self, topology: str) -> TopologyIdentity:
        """Delete the record and the wishes of ``topology``, so that its next start begins a new incarnation.

        Return its new identity. The record need not be readable. Epochs continue, so that tokens in sinks stay in
        order; late writes of an earlier leader are refused.

        Raises:
            FencedError: a process leads the topology.
            ConfigError: there is no such topology.
        """
        ...
