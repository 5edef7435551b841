"""Jobs and commits, as the data plane and its threads hand them around: batches and receipts go along as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from attrs import field, frozen

from coordinators.protocol.messages import Message
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.counting import CountsByNode
from trident_py.participants.capabilities import COMMITTING, Capabilities


@frozen(kw_only=True)
class SpoutShape:
    """What the data plane has to know of a spout.

    Attributes:
        is_committer: whether its emitter takes part in commits.
    """

    name: str
    is_committer: bool = False


@frozen(kw_only=True)
class BranchShape:
    """What the data plane has to know of a branch and of the output at its end.

    Attributes:
        name: of the output, for messages.
        spouts: whose batches it reads.
        is_shareable: whether small batches of several attempts may go through it in one job.
        capabilities: what its output can do.
    """

    name: str
    spouts: frozenset[str]
    is_shareable: bool = False
    capabilities: Capabilities = COMMITTING


@frozen(kw_only=True)
class TopologyShape:
    """What the data plane has to know of a topology."""

    spouts: tuple[SpoutShape, ...]
    branches: tuple[BranchShape, ...]


class Half(Enum):
    """The two halves of a spout, each on a thread of its own."""

    COORDINATOR = "coordinator"
    EMITTER = "emitter"


@frozen(cache_hash=True)  # each of its attempts keeps it in a set
class Job:
    """One Spark job: one branch of these attempts; ``is_shared`` where it is for small batches, of one or more."""

    branch: int
    attempts: tuple[TransactionAttempt, ...]
    is_shared: bool = False


@frozen
class BranchInput:
    """What a spout gives a branch: the batch, and the acker edge that announces it."""

    edge: int
    batch: Any


@frozen
class JobMember:
    """One of the attempts of a job: what its branch reads, by spout, and its transaction's time in milliseconds."""

    attempt: TransactionAttempt
    time: int
    inputs: Mapping[str, BranchInput]


@frozen
class Processed:
    """What a job has made of an attempt.

    Attributes:
        receipt: what the output has prepared; handed to its commit, or given up.
        reports: for the driver, once the receipt is kept.
        rows: how many rows its tasks read, by spout, where they count them.
        counts: what user functions have counted.
        written: how many rows its commit adds or changes; None: the output can't tell.
    """

    receipt: Any
    reports: Sequence[Message] = ()
    rows: Mapping[str, int] = field(factory=dict)
    counts: CountsByNode = field(factory=dict)
    written: int | None = None


@frozen
class CommitMember:
    """One of the attempts that commit in one step.

    Attributes:
        number: as in `BatchAnnounced`.
        receipts: what the output of each branch has prepared; none for a committer spout.
    """

    attempt: TransactionAttempt
    number: int | None
    time: int
    receipts: Mapping[int, Any] = field(factory=dict)
