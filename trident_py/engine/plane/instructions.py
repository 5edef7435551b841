"""The instructions that the data plane returns, in the imperative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from coordinators.protocol.messages import Message
from coordinators.record.bad_rows import BadRow
from coordinators.record.parking import StoredRows
from coordinators.record.wishes import Wish
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.engine.plane.work import CommitMember, Job, JobMember


@frozen
class Emit:
    """Let ``spout`` emit its part of ``attempt``, after its earlier work.

    Attributes:
        number: of the transaction, for the spout; None: its part is empty, and the spout is not called.
        stores: whether its rows are only stored, and no branch reads them.
        stored: rows that were stored before, which are emitted in place of the spout; None: the spout emits.
        bad_rows, sifts: as in `Batch`.
        branches: the branches that run, if ``stored`` are dead letters; None: each branch of the spout.
    """

    attempt: TransactionAttempt
    number: int | None
    spout: str
    metadata: Json
    stores: bool = False
    stored: StoredRows | None = None
    bad_rows: tuple[BadRow, ...] | None = None
    sifts: bool = False
    branches: frozenset[int] | None = None


@frozen
class RunJob:
    """Run a job."""

    job: Job
    members: Sequence[JobMember]


@frozen
class CancelJob:
    """Cancel a job that was started; `JobDone` or `JobFailed` follows all the same."""

    job: Job


@frozen
class CancelEmit:
    """Cancel an emission, and any job that reads the batch; `Emitted` or `EmitFailed` follows all the same."""

    attempt: TransactionAttempt
    spout: str


@frozen
class CancelStaging:
    """Cancel the Spark job with which the commit of ``attempt`` has begun, if it still runs; the step fails then."""

    attempt: TransactionAttempt


@frozen
class CommitStep:
    """Let an output commit these attempts, in this order and in one atomic step: its `commit_group`.

    Attributes:
        spout: the committer spout that is the output; empty: the outputs of ``branches`` are.
        branches: one; several, if their outputs commit in one transaction of a database.
        group_first: the first transaction of the group that these attempts belong to.
    """

    spout: str
    branches: tuple[int, ...]
    members: Sequence[CommitMember]
    group_first: int


@frozen
class Abort:
    """Let the output of ``branch`` discard the work that it prepared for ``attempt``."""

    attempt: TransactionAttempt
    time: int
    branch: int
    receipt: Any


@frozen
class InspectOutputs:
    """Ask every output whether it can leave a transaction out; the attributes are those of `OutputsWanted`."""

    attempt: TransactionAttempt
    may_have_begun: bool


@frozen
class ReadLetters:
    """Store the rows of the dead letters that ``wish`` is about."""

    wish: Wish


@frozen
class TryCommit:
    """Let each output commit a trial, and undo it.

    Attributes:
        receipts: the work that the output of each branch has prepared.
    """

    attempt: TransactionAttempt
    time: int
    receipts: Mapping[int, Any]


@frozen
class Answer:
    """Run a read that was requested.

    Attributes:
        committed_txid: the last transaction that all outputs have.
    """

    read: Any
    committed_txid: int = 0


@frozen
class Refuse:
    """Fail a requested read, because the topology has ended."""

    read: Any


@frozen
class DeliverSuccess:
    """Deliver the success of ``attempt`` to both halves of ``spout``, after their earlier work.

    Attributes:
        number: of the transaction, for the spout.
    """

    attempt: TransactionAttempt
    number: int
    spout: str


@frozen
class Post:
    """Send ``message`` to the driver."""

    message: Message


@frozen
class CloseSpouts:
    """Close both halves of every spout, after their earlier work."""


@frozen
class CloseStates:
    """Close the states and sinks."""


@frozen
class KeepLeading:
    """Keep leading although the topology has ended: late writes of ``what``, which still runs, would be accepted."""

    what: str


@frozen
class Abandon:
    """Make every state refuse late writes of threads that don't return; these threads are soon left behind."""


Instruction = (
    Emit
    | RunJob
    | CancelJob
    | CancelEmit
    | CancelStaging
    | CommitStep
    | Abort
    | InspectOutputs
    | ReadLetters
    | TryCommit
    | Answer
    | Refuse
    | DeliverSuccess
    | Post
    | CloseSpouts
    | CloseStates
    | KeepLeading
    | Abandon
)
