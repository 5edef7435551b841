"""Coordination in the memory of this process: any number of topologies, without a server."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from attrs import define, evolve, field

from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import InMemoryCoordination, InMemoryRecordStore, RecordStore, TopologyIdentity
from coordinators.record.wishes import Wish
from coordinators.status.candidate import Candidate, Leader, Withdrawn
from coordinators.status.description import TopologyDescription
from coordinators.values.errors import ConfigError, CoordinationLost, FencedError, TridentError
from coordinators.values.transaction_time import MILLIS

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 1.0


@define(eq=False)
class LocalCoordination:
    """Coordinates topologies in memory: their data are kept as long as this object exists.

    A topology that is started again with the same object continues where it was, as it would with ZooKeeper. So do its
    windows: their waiting rows are in files of this object, unless ``state_dir`` is set. Any thread may use it; it is
    not visible to other processes.
    """

    place: str = field(factory=lambda: f"memory {uuid4().hex[:8]}", init=False)
    state_dir: Path = field(factory=lambda: Path(tempfile.mkdtemp(prefix="trident-local-")), init=False)
    is_in_memory: bool = field(default=True, init=False)
    _topologies: dict[str, _Topology] = field(factory=dict, init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.state_dir, ignore_errors=True)

    def ensure_answering(self, topology: str) -> None:
        """Return at once: memory always answers."""

    def lead(self, topology: str, address: str = "") -> RecordStore:
        """Lead ``topology`` from now on; every earlier leadership is fenced.

        ``address`` is the URL of this process's HTTP server.

        Raises:
            FencedError: it is led in this process already; this can't change by waiting.
        """
        return self._elected(Candidate(topology, patience=0.0, address=address))

    def stand_by(self, candidate: Candidate, take_over: Callable[[RecordStore], T]) -> T | None:
        """Lead as soon as no other process does, without limit; return None if ``candidate`` was withdrawn before."""
        with suppress(Withdrawn):
            while True:
                try:
                    return take_over(self._elected(candidate))
                except CoordinationLost as error:
                    log.warning("topology %s: standing by, but: %s", candidate.topology, error)
        return None

    def expire(self, topology: str) -> None:
        """End the leadership of ``topology`` without notice to its leader, as if it had crashed or lost its connection.

        Its later writes are refused, and another process can lead.
        """
        with self._lock:
            self._known(topology).end()

    def topologies(self) -> list[str]:
        """Return the names of all topologies that were ever started here, sorted."""
        with self._lock:
            return sorted(self._topologies)

    def describe(self, topology: str) -> TopologyDescription:
        """Return the stored data of ``topology``, also while it runs."""
        with self._lock:
            return self._known(topology).described()

    def wish(self, topology: str, wish: Wish) -> None:
        """Store ``wish`` for the leader of ``topology``; if no process leads, for the next leader.

        Raises:
            ConfigError: there is no such topology.
        """
        with self._lock:
            self._known(topology).kept.wish(wish)

    def reset(self, topology: str) -> TopologyIdentity:
        """Delete the record of ``topology``, so that its next start begins a new incarnation; return its new identity.

        Raises:
            FencedError: a process leads the topology.
            ConfigError: there is no such topology.
        """
        with self._lock:
            return self._known(topology).reset()

    def _elected(self, candidate: Candidate) -> RecordStore:
        while True:
            with self._lock:
                topology = self._topologies.setdefault(candidate.topology, _Topology.named(candidate.topology))
                if topology.leader is None:
                    return topology.led(self._lock, candidate.address)
                topology.candidates.add(candidate)
                candidate.saw(topology.leader)
            candidate.wait(LOOK_AGAIN_SECONDS)

    def _known(self, topology: str) -> _Topology:
        if topology not in self._topologies:
            known = ", ".join(sorted(self._topologies)) or "none at all"
            raise ConfigError(f"there is no topology {topology!r} in {self.place}; there is {known}")
        return self._topologies[topology]


@define(eq=False)
class _Topology:
    """One topology. All callers hold the lock of its coordination.

    Attributes:
        kept: the data that outlive a leadership.
        leader: the current leader; None if no process leads.
        store: the record store of the current or last leadership.
        candidates: to be woken when ``leader`` ends.
    """

    kept: InMemoryCoordination
    leader: Leader | None = None
    store: LocalRecordStore | None = None
    candidates: set[Candidate] = field(factory=set)

    @classmethod
    def named(cls, name: str) -> _Topology:
        """Return a new topology."""
        return cls(InMemoryCoordination(TopologyIdentity(name, str(uuid4()), 1)))

    def led(self, lock: threading.RLock, address: str) -> LocalRecordStore:
        """Begin a new leadership, with the URL ``address``."""
        self.leader = Leader(address=address)
        epoch = self.kept.acquire().epoch
        self.store = LocalRecordStore(
            self.kept, epoch, claimed_at=round(time.time() * MILLIS), topology=self, lock=lock
        )
        log.info("topology %s: pid %d leads with epoch %d", self.kept.identity.name, self.leader.pid, epoch)
        return self.store

    def end(self) -> None:
        """End the leadership: no process leads any more."""
        self.leader = self.store = self.kept.changed = None
        for candidate in self.candidates:
            candidate.wake()
        self.candidates.clear()

    def described(self) -> TopologyDescription:
        """Return the operator's view of it."""
        kept = self.kept
        record = InMemoryRecordStore(kept, kept.epoch).read()
        return TopologyDescription(
            identity=kept.identity,
            epoch=kept.epoch,
            leader=self.leader,
            record=record,
            wishes=tuple(kept.wishes.values()),
        )

    def reset(self) -> TopologyIdentity:
        """Begin a new incarnation, which keeps nothing of the earlier one except the number of the last epoch."""
        before = self.kept.identity
        if self.leader is not None:
            raise FencedError(
                f"topology {before.name!r} was not reset: {self.leader} leads it. To fix this: stop it first, then try "
                f"again",
                topology=before.name,
            )
        after = evolve(before, incarnation=before.incarnation + 1)
        self.kept = InMemoryCoordination(after, self.kept.epoch)
        return after


@define(eq=False, kw_only=True)
class LocalRecordStore(InMemoryRecordStore):
    """One leadership over a topology of a `LocalCoordination`, which can end it at any time."""

    _topology: _Topology
    _lock: threading.RLock

    def write(self, record: CoordinatorRecord) -> None:
        with self._lock:
            super().write(record)

    def wishes(self, changed: Callable[[object], None]) -> Sequence[Wish]:
        with self._lock:
            return super().wishes(changed)

    def ensure_leading(self) -> None:
        """Return if no other leader can exist at this moment.

        Raises:
            FencedError: another leadership exists.
            CoordinationLost: this one was ended.
        """
        with self._lock:
            super().ensure_leading()
            if self._topology.store is not self:
                raise CoordinationLost(
                    f"topology {self.identity.name!r}: epoch {self.epoch} is over, no process leads now",
                    topology=self.identity.name,
                )

    def explain_loss(self, lost: CoordinationLost) -> TridentError:
        try:
            super().ensure_leading()
        except FencedError as error:
            return error
        return lost

    def close(self) -> None:
        with self._lock:
            if self._topology.store is self:
                self._topology.end()
