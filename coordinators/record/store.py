"""Where the record lives: the port that the driver uses, and its in-memory twin.

The twin is a real implementation (tests, `trident script` and the simulation run on it), held to the same contract
suite as the ZooKeeper one.
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
    """Who a topology is to its sinks: the name may be used again, the uuid never is.

    Attributes:
        name: what the user called it.
        uuid: drawn when the topology was first started.
        incarnation: from 1 on; changes only when an operator resets the topology, which starts txids over.
    """

    name: str
    uuid: str
    incarnation: int


class RecordStore(Protocol):
    """One leadership over one topology's record. Used by one thread, except `ensure_leading`."""

    @property
    def identity(self) -> TopologyIdentity:
        """Whose record this is."""
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
        """Return the record as it is now; None if the topology has none yet.

        Raises:
            MetadataError: it cannot be read.
            CoordinationLost: the store is out of reach.
        """
        ...

    def write(self, record: CoordinatorRecord) -> None:
        """Replace the record; durable when this returns. Wishes whose outcomes it adds are removed with it.

        Raises:
            FencedError: a newer leadership exists; nothing was written.
            CoordinationLost: the store is out of reach.
            MetadataError: it is too large or not JSON; nothing was written.
        """
        ...

    def wishes(self, changed: Callable[[object], None]) -> Sequence[Wish]:
        """Return what operators have wished and nobody carried out, in the order in which it came.

        Args:
            changed: called once, on any thread, when there may be other wishes than these.

        Raises:
            CoordinationLost: the store is out of reach.
        """
        ...

    def heartbeat(self) -> None:
        """Prove leadership to ourselves, if it is time to; called every so often while nothing is written."""
        ...

    def ensure_leading(self) -> None:
        """Return if no other leader can exist at this moment by our own clock; any thread may ask.

        Raises:
            FencedError: another leadership exists.
            CoordinationLost: our own deadline has passed, or the store is out of reach.
        """
        ...

    def explain_loss(self, lost: CoordinationLost) -> TridentError:
        """Return what ``lost``, by which this leadership ended, turns out to be.

        `FencedError` if somebody else leads now.
        """
        ...

    def close(self) -> None:
        """Give up leadership, so that the next one need not wait. Never raises."""
        ...


@define
class InMemoryCoordination:
    """What outlives a crash: identity, epoch, record and wishes of one topology, as a server would keep them.

    Attributes:
        wishes: by id, in the order in which they came.
        changed: whom to tell of the next change of ``wishes``.
    """

    identity: TopologyIdentity = field(factory=lambda: TopologyIdentity("in-memory", str(uuid4()), 1))
    epoch: int = 0
    stored: EncodedRecord | None = None
    wishes: dict[str, Wish] = field(factory=dict)
    changed: Callable[[object], None] | None = None

    def wish(self, wish: Wish) -> None:
        """Leave ``wish`` of an operator for whoever leads."""
        self.wishes.setdefault(wish.id, wish)
        changed, self.changed = self.changed, None
        if changed is not None:
            changed(wish)

    def acquire(self) -> InMemoryRecordStore:
        """Lead from now on; every earlier leadership is fenced."""
        self.epoch += 1
        self.changed = None
        return InMemoryRecordStore(self, self.epoch)


@define
class InMemoryRecordStore:
    """One leadership over an `InMemoryCoordination`. Keeps what JSON keeps, as ZooKeeper would."""

    coordination: InMemoryCoordination
    epoch: int
    writes: int = 0
    claimed_at: int = 0

    @property
    def identity(self) -> TopologyIdentity:
        """Whose record this is."""
        return self.coordination.identity

    def read(self) -> CoordinatorRecord | None:
        """Return the record as it is now; None if the topology has none yet."""
        stored = self.coordination.stored
        return None if stored is None else decode(stored.head, stored.blobs, where=f"memory of {self.identity.name}")

    def write(self, record: CoordinatorRecord) -> None:
        """Replace the record, if we still lead."""
        self.ensure_leading()
        self.coordination.stored = encode(record)
        for outcome in record.outcomes:
            self.coordination.wishes.pop(outcome.wish, None)
        self.writes += 1

    def wishes(self, changed: Callable[[object], None]) -> Sequence[Wish]:
        """Return what operators have wished and nobody carried out."""
        self.coordination.changed = changed
        return list(self.coordination.wishes.values())

    def heartbeat(self) -> None:
        """Do nothing: nothing expires in memory."""
        self.ensure_leading()

    def ensure_leading(self) -> None:
        """Raise FencedError if a later leadership was acquired."""
        if self.coordination.epoch != self.epoch:
            raise FencedError(
                f"topology {self.identity.name!r}: epoch {self.epoch} is over, epoch {self.coordination.epoch} leads",
                topology=self.identity.name,
            )

    def explain_loss(self, lost: CoordinationLost) -> TridentError:
        """Return ``lost``: memory is never out of reach, so there is nothing to find out."""
        return lost

    def close(self) -> None:
        """Do nothing: there is nothing to give up."""
