"""The stimuli that the data plane receives, in the past tense."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import Diagnosis, LettersRead, Message
from coordinators.record.wishes import Wish
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import CommitCounts, CountsByNode
from trident_py.engine.plane.work import Half, Job, Processed

# --- stimuli: from the driver -----------------------------------------------------------------------------------------


@frozen
class TakenOver:
    """This process leads from now on.

    Attributes:
        partial_commit_txid: a transaction that may be in some states but not in all; 0: there is no such transaction.
        together: the groups of branches whose outputs commit in one step.
        committed_txid: the last transaction that is committed.
    """

    partial_commit_txid: int
    together: Sequence[Collection[int]] = ()
    committed_txid: int = field(default=0, kw_only=True)


@frozen
class BatchAnnounced:
    """``$batch``; the edges of ``batch`` are those of the spouts, in their order."""

    batch: Batch


@frozen
class CommitAnnounced:
    """``$commit`` for a group of consecutive attempts; the values are the edges of each, by output."""

    group: Mapping[TransactionAttempt, Sequence[int]]


@frozen
class OutputsWanted:
    """The driver asks whether every output can leave the transaction of ``attempt`` out, its next attempt.

    ``may_have_begun``: whether a commit of the transaction may have begun.
    """

    attempt: TransactionAttempt
    may_have_begun: bool


@frozen
class LettersWanted:
    """The driver wants the dead letters that ``wish`` is about."""

    wish: Wish


@frozen
class TrialCommitWanted:
    """``attempt``, a trial that is processed, is to be committed by each output, and undone."""

    attempt: TransactionAttempt


@frozen
class SuccessAnnounced:
    """``$success``; ``number`` is as in `Batch`."""

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
    """The threads have not ended in time."""


@frozen
class EndForced:
    """The end must not wait for commits without a fence."""


# --- stimuli: from threads --------------------------------------------------------------------------------------------


@frozen
class SiftedInput:
    """The input of a branch in the place of a spout's batch; ``is_small``: it may share a job."""

    batch: Any
    is_small: bool


@frozen(kw_only=True)
class Emitted:
    """A spout has emitted its part of an attempt.

    Attributes:
        batch: that it emitted.
        rows: how many rows the batch has, as far as known.
        is_small: whether it may share a job.
        edges: one for each branch that reads it.
        resolved: messages about its definition that emitting has found out.
        counts: the counts of the emitter.
        sifted: the input of branches that don't read ``batch``, but what came of its rows, or the bad ones among them.
    """

    attempt: TransactionAttempt
    spout: str
    batch: Any
    rows: int
    is_small: bool
    edges: Mapping[int, int]
    resolved: Sequence[Message] = ()
    counts: CountsByNode = field(factory=dict)
    sifted: Mapping[int, SiftedInput] = field(factory=dict)


@frozen
class EmitFailed:
    """A spout has raised instead, or its emission was cancelled before it began."""

    attempt: TransactionAttempt
    spout: str
    why: Diagnosis


@frozen
class CheckpointBegun:
    """A spout has emitted, and its own job reads the batch once, to its end; `Emitted` or `EmitFailed` follows."""

    attempt: TransactionAttempt
    spout: str


@frozen
class JobDone:
    """A job has ended; ``made`` are the results, in order of its attempts."""

    job: Job
    made: Sequence[Processed]


@frozen
class JobFailed:
    """A job has ended without a result."""

    job: Job
    why: Diagnosis


@frozen
class StepCommitted:
    """The commit step is done, with these counts."""

    counts: CommitCounts = field(factory=dict)


@frozen
class StepFailed:
    """The commit step has raised; ``counts`` are those before the failure."""

    why: Diagnosis
    counts: CommitCounts = field(factory=dict)


@frozen
class Aborted:
    """The abort was done, or failed."""


@frozen
class TrialCommitted:
    """Each output has committed the trial and undone it, except those in ``untried``, which can't undo it."""

    attempt: TransactionAttempt
    untried: tuple[str, ...] = ()


@frozen
class TrialFailed:
    """An output could not commit the trial."""

    attempt: TransactionAttempt
    why: Diagnosis


@frozen
class OutputsInspected:
    """The outputs were asked; ``refusal`` says which can't leave ``txid`` out, and why; empty: all can."""

    txid: int
    refusal: str


@frozen
class LettersStored:
    """The rows of dead letters are stored, or can't be."""

    answer: LettersRead


@frozen
class ReadWanted:
    """A reader wants to read the states.

    Attributes:
        read: identifies the read.
        whole: only while all states are at the same transaction.
    """

    read: Any
    whole: bool


@frozen
class ReadDone:
    """The running read is finished."""


@frozen
class StatesClosed:
    """The states and sinks are closed."""


@frozen
class SpoutSucceeded:
    """One half of a spout has processed the success of ``txid``."""

    txid: int
    spout: str
    half: Half


@frozen
class SpoutClosed:
    """One half of a spout is closed."""

    spout: str
    half: Half


@frozen
class Broke:
    """An error that no replay can mend."""

    cause: BaseException


Stimulus = (
    TakenOver
    | BatchAnnounced
    | CommitAnnounced
    | LettersWanted
    | OutputsWanted
    | TrialCommitWanted
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
    | TrialCommitted
    | TrialFailed
    | LettersStored
    | OutputsInspected
    | ReadWanted
    | ReadDone
    | StatesClosed
    | SpoutSucceeded
    | SpoutClosed
    | Broke
)
