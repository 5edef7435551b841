"""What the data plane is told, in the past tense."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from coordinators.protocol.messages import Diagnosis, Message
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.engine.plane.counting import CommitCounts, CountsByNode
from trident_py.engine.plane.work import Half, Job, Processed

# --- stimuli: from the driver -----------------------------------------------------------------------------------------


@frozen
class TakenOver:
    """What is done from now on is done by a new leader.

    Attributes:
        partial_commit_txid: a transaction that some states may have and others don't have yet; 0: there is none.
        together: the branches whose outputs commit in one step.
        committed_txid: the last transaction that is committed.
    """

    partial_commit_txid: int
    together: Sequence[Collection[int]] = ()
    committed_txid: int = field(default=0, kw_only=True)


@frozen
class BatchAnnounced:
    """``$batch``; ``edges`` are those of the spouts, in their order.

    Attributes:
        number: by which spouts know the transaction; None: it is empty, and none of them hears of it.
    """

    attempt: TransactionAttempt
    number: int | None
    metadata: Mapping[str, Json]
    time: int
    edges: Sequence[int]


@frozen
class CommitAnnounced:
    """``$commit`` for a group of attempts that follow each other; given are the edges of each, by output."""

    group: Mapping[TransactionAttempt, Sequence[int]]


@frozen
class SuccessAnnounced:
    """``$success``; ``number`` is as in `BatchAnnounced`."""

    attempt: TransactionAttempt
    number: int | None


@frozen
class AttemptCancelled:
    """``attempt`` will never commit."""

    attempt: TransactionAttempt


@frozen
class Closing:
    """The topology has ended; every attempt was cancelled before."""


@frozen
class PatienceEnded:
    """What was to end has not ended in time."""


@frozen
class EndForced:
    """The end may not wait for what commits without a fence."""


# --- stimuli: from threads --------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Emitted:
    """A spout has emitted its part of an attempt.

    Attributes:
        batch: what it emitted.
        rows: how many rows that are, as far as is known.
        is_small: whether it may share a job.
        edges: one for each branch that reads it.
        resolved: what emitting it has told of its definition.
        counts: what the emitter has counted.
    """

    attempt: TransactionAttempt
    spout: str
    batch: Any
    rows: int
    is_small: bool
    edges: Mapping[int, int]
    resolved: Sequence[Message] = ()
    counts: CountsByNode = field(factory=dict)


@frozen
class EmitFailed:
    """A spout has raised instead, or there was nobody who wanted its batch any more."""

    attempt: TransactionAttempt
    spout: str
    why: Diagnosis


@frozen
class CheckpointBegun:
    """A spout has emitted, and a job of its own reads the batch once, to its end; `Emitted` or `EmitFailed` follows."""

    attempt: TransactionAttempt
    spout: str


@frozen
class JobDone:
    """A job has ended; ``made`` is what it has made of each of its attempts."""

    job: Job
    made: Sequence[Processed]


@frozen
class JobFailed:
    """A job has ended without a result."""

    job: Job
    why: Diagnosis


@frozen
class StepCommitted:
    """The commit step that was asked for is done; told is what was counted in it."""

    counts: CommitCounts = field(factory=dict)


@frozen
class StepFailed:
    """The commit step that was asked for has raised; told is what was counted before."""

    why: Diagnosis
    counts: CommitCounts = field(factory=dict)


@frozen
class Aborted:
    """The abort that was asked for has been made, or couldn't be."""


@frozen
class ReadWanted:
    """Somebody wants to read the states.

    Attributes:
        read: whatever tells one from others.
        whole: only while all states are at the same transaction.
    """

    read: Any
    whole: bool


@frozen
class ReadDone:
    """The read that was asked for is over."""


@frozen
class StatesClosed:
    """The states and sinks are closed."""


@frozen
class SpoutSucceeded:
    """One half of a spout has taken the success of ``txid``."""

    txid: int
    spout: str
    half: Half


@frozen
class SpoutClosed:
    """One half of a spout is closed, as it was asked to be."""

    spout: str
    half: Half


@frozen
class Broke:
    """Something went wrong that no replay mends."""

    cause: BaseException


Stimulus = (
    TakenOver
    | BatchAnnounced
    | CommitAnnounced
    | SuccessAnnounced
    | AttemptCancelled
    | Closing
    | PatienceEnded
    | EndForced
    | Emitted
    | EmitFailed
    | CheckpointBegun
    | JobDone
    | JobFailed
    | StepCommitted
    | StepFailed
    | Aborted
    | ReadWanted
    | ReadDone
    | StatesClosed
    | SpoutSucceeded
    | SpoutClosed
    | Broke
)
