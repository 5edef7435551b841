"""What the data plane asks for, in the imperative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from coordinators.protocol.messages import Message
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.engine.plane.work import CommitMember, Job, JobMember


@frozen
class Emit:
    """Have ``spout`` emit its part of ``attempt``, after what it was asked for before.

    Attributes:
        number: by which it knows the transaction; None: its part is nothing, and it doesn't hear of it.
    """

    attempt: TransactionAttempt
    number: int | None
    spout: str
    metadata: Json


@frozen
class RunJob:
    """Run a job."""

    job: Job
    members: Sequence[JobMember]


@frozen
class CancelJob:
    """Cancel a job that was asked for; `JobDone` or `JobFailed` comes all the same."""

    job: Job


@frozen
class CancelEmit:
    """Nobody wants this batch any more, nor a job that reads it; `Emitted` or `EmitFailed` comes all the same."""

    attempt: TransactionAttempt
    spout: str


@frozen
class CommitStep:
    """Have an output commit these attempts, in this order and one atomic step: its `commit_group`.

    Attributes:
        spout: the committer spout that is the output; empty: the outputs of ``branches`` are.
        branches: one; several, if their outputs commit in one transaction of a database.
        group_first: the first transaction of the group that these attempts are a part of.
    """

    spout: str
    branches: tuple[int, ...]
    members: Sequence[CommitMember]
    group_first: int


@frozen
class Abort:
    """Have the output of ``branch`` give up what it prepared for ``attempt``."""

    attempt: TransactionAttempt
    time: int
    branch: int
    receipt: Any


@frozen
class Answer:
    """Make a read that was wanted.

    Attributes:
        committed_txid: the last transaction that all outputs have.
    """

    read: Any
    committed_txid: int = 0


@frozen
class Refuse:
    """Tell who wanted to read that the topology has ended."""

    read: Any


@frozen
class DeliverSuccess:
    """Tell both halves of ``spout`` of the success of ``attempt``, after what they were asked for before.

    Attributes:
        number: by which they know the transaction.
    """

    attempt: TransactionAttempt
    number: int
    spout: str


@frozen
class Post:
    """Tell the driver."""

    message: Message


@frozen
class CloseSpouts:
    """Close both halves of every spout, after what they were asked for before."""


@frozen
class CloseStates:
    """Close the states and sinks."""


@frozen
class KeepLeading:
    """Keep leading although the topology has ended: ``what`` goes on, and nothing would refuse what it writes late."""

    what: str


@frozen
class Abandon:
    """Have every state refuse what threads that don't return write from now on; they are left behind soon."""


Instruction = (
    Emit
    | RunJob
    | CancelJob
    | CancelEmit
    | CommitStep
    | Abort
    | Answer
    | Refuse
    | DeliverSuccess
    | Post
    | CloseSpouts
    | CloseStates
    | KeepLeading
    | Abandon
)
