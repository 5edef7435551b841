"""The store of the record: the interface that the driver uses, and its in-memory implementation.

The in-memory implementation is used by tests, `trident script` and the simulation. It passes the same contract suite as
the ZooKeeper one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import uuid4

from attrs import define, field, frozen

from coordinators.record.record import CoordinatorRecord, EncodedRecord, decode, encode
from coordinators.record.wishes import Wish
from coordinators.values.errors import CoordinationLost, FencedError, TridentError


@frozen
class TopologyIdentity:
    """The identity of a topology for its sinks: the name may be used again, the uuid never is.

    Attributes:
        name: chosen by the user.
        uuid: drawn when the topology was first started.
        incarnation: from 1 on. Changes only when an operator resets the topology, after which txids begin at 1 again.
    """

    name: str
    uuid: str
    incarnation: int


class RecordStore(Protocol):
    """One leadership over one topology's record. Used by one thread, except `ensure_leading`."""

    @property
    def identity(self) -> TopologyIdentity:
        """The topology of this record."""
        ...

    @property
    def epoch(self) -> int:
        """The number of this leadership; greater than that of every earlier one."""
        ...

    @property
    def claimed_at(self) -> int:
        """When this leadership began, by the clock of the store, in milliseconds since 1970."""
        ...

    @property
    def writes(self) -> int:
        """How many synchronous rounds of writing this leadership has made."""
        ...

    def read(self) -> CoordinatorRecord | None:
        """Return the current record; None if the topology has none yet.

        Raises:
            MetadataError: the record cannot be read.
            CoordinationLost: the store can't be reached.
        """
        ...

    def write(self, record: CoordinatorRecord) -> None:
        """Replace the record; durable when this returns. Removes the wishes whose outcomes it adds.

        Raises:
            FencedError: a newer leadership exists; nothing was written.
            CoordinationLost: the store can't be reached.
            MetadataError: it is too large or not JSON; nothing was written.
        """
        ...

    def wishes(self, changed: Callable[[object], None]) -> Sequence[Wish]:
        """Return the operators' wishes that were not carried out yet, in order of arrival.

        Args:
            changed: called once, on any thread, when there may be other wishes than these.

        Raises:
            CoordinationLost: the store can't be reached.
        """
        ...

    def heartbeat(self) -> None:
        """Renew the proof of leadership if it is due; called regularly while nothing is written."""
        ...

    def ensure_leading(self) -> None:
        """Return if, by the local clock, no other leader can exist at this moment; any thread may call it.

        Raises:
            FencedError: another leadership exists.
            CoordinationLost: the local deadline has passed, or the store can't be reached.
        """
        ...

    def explain_loss(self, lost: CoordinationLost) -> TridentError:
        """Return the actual cause of ``lost``, the error that ended this leadership.

        `FencedError` if another process leads now.
        """
        ...

    def close(self) -> None:
        """Release leadership, so that the next leader need not wait. Never raises."""
        ...


@define
class InMemoryCoordination:
    """The durable state of one topology, as a server would store it: identity, epoch, record and wishes.

    Attributes:
        wishes: by id, in order of arrival.
        changed: called at the next change of ``wishes``.
    """

    identity: TopologyIdentity = field(factory=lambda: TopologyIdentity("in-memory", str(uuid4()), 1))
    epoch: int = 0
    stored: EncodedRecord | None = None
    wishes: dict[str, Wish] = field(factory=dict)
    changed: Callable[[object], None] | None = None

    def wish(self, wish: Wish) -> None:
        """Store ``wish`` of an operator for the leader."""
        self.wishes.setdefault(wish.id, wish)
        changed, self.changed = self.changed, None
        if changed is not None:
            changed(wish)

    def acquire(self) -> InMemoryRecordStore:
        """Begin a new leadership; every earlier one is fenced."""
        self.epoch += 1
        self.changed = None
        return InMemoryRecordStore(self, self.epoch)


@define
class InMemoryRecordStore:
    """One leadership over an `InMemoryCoordination`. Stores JSON, as ZooKeeper does."""

    coordination: InMemoryCoordination
    epoch: int
    writes: int = 0
    claimed_at: int = 0

    @property
    def identity(self) -> TopologyIdentity:
        return self.coordination.identity

    def read(self) -> CoordinatorRecord | None:
        stored = self.coordination.stored
        return None if stored is None else decode(stored.head, stored.blobs, where=f"memory of {self.identity.name}")

    def write(self, record: CoordinatorRecord) -> None:
        self.ensure_leading()
        self.coordination.stored = encode(record)
        for outcome in record.outcomes:
            self.coordination.wishes.pop(outcome.wish, None)
        self.writes += 1

    def wishes(self, changed: Callable[[object], None]) -> Sequence[Wish]:
        self.coordination.changed = changed
        return list(self.coordination.wishes.values())

    def heartbeat(self) -> None:
        """Check that no later leadership was acquired; nothing expires in memory."""
        self.ensure_leading()

    def ensure_leading(self) -> None:
        """Return if no later leadership was acquired.

        Raises:
            FencedError: one was.
        """
        if self.coordination.epoch != self.epoch:
            raise FencedError(
                f"topology {self.identity.name!r}: epoch {self.epoch} is over, epoch {self.coordination.epoch} leads",
                topology=self.identity.name,
            )

    def explain_loss(self, lost: CoordinationLost) -> TridentError:
        """Return ``lost``: memory can always be reached, so there is no other cause."""
        return lost

    def close(self) -> None:
        """Do nothing, because nothing is held."""
