"""Data classes of the data plane and its threads.

The shape of a topology (`TopologyShape`), jobs (`Job`, `JobMember`, `Processed`) and commit steps (`CommitMember`).
Batches and receipts are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any

from attrs import field, frozen

from coordinators.protocol.messages import Acked, Message, RowsFailed
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import CountsByNode
from trident_py.participants.capabilities import COMMITTING, Capabilities


@frozen(kw_only=True)
class SpoutShape:
    """The facts about a spout that the data plane needs.

    Attributes:
        is_committer: whether its emitter takes part in commits.
    """

    name: str
    is_committer: bool = False


@frozen(kw_only=True)
class BranchShape:
    """The facts about a branch and its output that the data plane needs.

    Attributes:
        name: of the output, for messages.
        spouts: the spouts that it reads.
        is_shareable: whether small batches of several attempts may run through it in one job.
        collects: the branches whose bad rows it reads.
        capabilities: of its output.
    """

    name: str
    spouts: frozenset[str]
    is_shareable: bool = False
    collects: frozenset[str] = frozenset()
    capabilities: Capabilities = COMMITTING


@frozen(kw_only=True)
class TopologyShape:
    """The facts about a topology that the data plane needs."""

    spouts: tuple[SpoutShape, ...]
    branches: tuple[BranchShape, ...]

    def about(self, branch: str) -> frozenset[int]:
        """Return the numbers of ``branch`` and of the branches that read its bad rows."""
        return frozenset(n for n, each in enumerate(self.branches) if branch in {each.name, *each.collects})


class Half(Enum):
    """The two halves of a spout, each with its own thread."""

    COORDINATOR = "coordinator"
    EMITTER = "emitter"


@frozen(cache_hash=True)  # each of its attempts keeps it in a set
class Job:
    """One Spark job: one branch of these attempts.

    Attributes:
        is_shared: whether it is a job for small batches, of one or more attempts.
        sieves: whether it only finds the rows that make a row function raise.
    """

    branch: int
    attempts: tuple[TransactionAttempt, ...]
    is_shared: bool = False
    sieves: bool = False


@frozen
class BranchInput:
    """A spout's input for a branch: the batch, and the acker edge that announces it."""

    edge: int
    batch: Any


@frozen
class JobMember:
    """One of the attempts of a job: the input of its branch, by spout, and its transaction's time in milliseconds."""

    attempt: TransactionAttempt
    time: int
    inputs: Mapping[str, BranchInput]


@frozen
class Processed:
    """The result of a job for an attempt.

    Attributes:
        receipt: the work that the output has prepared; passed to its commit or abort.
        reports: messages for the driver, to send once the receipt is kept.
        rows: how many rows its tasks read, by spout, if they count them.
        counts: the counts of user functions.
        written: how many rows its commit adds or changes; None: the output doesn't know.
    """

    receipt: Any
    reports: Sequence[Message] = ()
    rows: Mapping[str, int] = field(factory=dict)
    counts: CountsByNode = field(factory=dict)
    written: int | None = None

    @classmethod
    def sieved(cls, member: JobMember, found: Mapping[str, Collection[int]]) -> Processed:
        """Return the result of a job that has only found these rows, by spout."""
        attempt = member.attempt
        failed = [RowsFailed(attempt, spout, tuple(sorted(rows))) for spout, rows in found.items() if rows]
        acked = [Acked(attempt, StreamId.BATCH, given.edge) for given in member.inputs.values()]
        return cls(None, [*failed, *acked])


@frozen
class CommitMember:
    """One of the attempts that commit in one step.

    Attributes:
        number: for spouts that take part in commits; None: they are not called. As ``commits`` of `Batch`.
        receipts: the work that the output of each branch has prepared; none for a committer spout.
        parks: as in `Batch`.
        idle: the branches whose output changes nothing in any attempt, although the transaction isn't parked.
    """

    attempt: TransactionAttempt
    number: int | None
    time: int
    receipts: Mapping[int, Any] = field(factory=dict)
    parks: int | None = None
    idle: frozenset[int] = frozenset()
