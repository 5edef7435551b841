"""The messages to the driver: posted from any thread, and handled one turn at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any

from attrs import field, frozen

from coordinators.protocol.protocol import StreamId
from coordinators.record.bad_rows import BadRow
from coordinators.record.parking import StoredRows
from coordinators.record.wishes import Wish
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint, Json


@frozen
class Acked:
    """A consumer of ``stream`` took the edge ``took`` and made the edges ``made``; each ``reporter`` counts once."""

    attempt: TransactionAttempt
    stream: StreamId
    took: int
    made: tuple[int, ...] = ()
    reporter: str = ""


class FailureKind(Enum):
    """Why an attempt failed, judged by the place where it failed, never by the text of the exception."""

    USER_CODE = "user code"
    """The batch's own code or data failed: the failure counts against the batch's retry policy."""

    UNREACHABLE = "unreachable"
    """The source can't be reached just now: the batch waits for it, which doesn't count."""

    BUSY = "busy"
    """The store of a state or sink is locked or can't be reached: the batch is replayed, which doesn't count."""

    INTERRUPTED = "interrupted"
    """Another cause, such as Spark or silence, interrupted the attempt: it is replayed, which doesn't count."""

    FATAL = "fatal"
    """No replay can succeed, for example after a later leader has fenced this one: the topology ends with the cause."""

    @property
    def counts(self) -> bool:
        """Whether the failure counts against the batch's retry policy."""
        return self is FailureKind.USER_CODE


@frozen
class Diagnosis:
    """Why something failed.

    Attributes:
        txid: the transaction that failed, if several were in progress at once and the failed one is known.
        state: the state or sink that failed, if the failure was in a commit.
    """

    cause: BaseException
    kind: FailureKind
    txid: int | None = None
    state: str | None = None


@frozen
class Failed:
    """``attempt`` cannot be finished.

    Attributes:
        spouts: the spouts whose rows or commit failed; for the kind `UNREACHABLE`, the spouts whose source is
            unreachable. If there are several, the failure is in one of them.
        state: the state or sink that failed, if the failure was in a commit.
    """

    attempt: TransactionAttempt
    cause: BaseException
    kind: FailureKind = FailureKind.USER_CODE
    spouts: Collection[str] = ()
    state: str | None = None


@frozen
class Defined:
    """A spout's coordinator defined ``txid``, in the spout's own numbering.

    Attributes:
        moved: the cursors that move when its first attempt starts.
        more: whether another answer to the same ask follows, about the next txid.
        bytes: the length of ``metadata`` as JSON.
    """

    spout: str
    ask: int
    txid: int
    metadata: Json
    moved: Mapping[str, Json] = field(factory=dict)
    more: bool = False
    bytes: int = 0


@frozen
class NotReady:
    """A spout's coordinator can't define ``txid`` yet.

    Attributes:
        is_pending: some input will become ready even if no more arrives.
    """

    spout: str
    ask: int
    txid: int
    is_pending: bool = False


@frozen
class DefinitionFailed:
    """A spout's coordinator raised an exception when it was asked for ``txid``."""

    spout: str
    ask: int
    txid: int
    cause: BaseException


@frozen
class OffsetsResolved:
    """Emitting a batch has found out which rows it consists of; posted before the emission is acked.

    Attributes:
        metadata: the definition, with its splits: replaces the one without.
        moved: the cursors that move when exactly this attempt has committed.
    """

    attempt: TransactionAttempt
    spout: str
    metadata: Json
    moved: Mapping[str, Json] = field(factory=dict)


@frozen
class Fingerprinted:
    """The fingerprint of a spout's rows in ``attempt``; arrives before the report of the job that read them."""

    attempt: TransactionAttempt
    spout: str
    fingerprint: Fingerprint


@frozen
class RowsStored:
    """The rows that ``spout`` emitted in ``attempt`` are stored; posted before the emission is acked."""

    attempt: TransactionAttempt
    spout: str
    stored: StoredRows


@frozen
class BadRowsFound:
    """The rows of a spout that branches leave out of ``attempt``; posted before the emission is acked."""

    attempt: TransactionAttempt
    rows: tuple[BadRow, ...]


@frozen
class RowsFailed:
    """These rows of ``spout`` make a row function raise; posted before the job that has found them is acked.

    Attributes:
        rows: their positions among the rows that ``spout`` emitted in ``attempt``.
    """

    attempt: TransactionAttempt
    spout: str
    rows: tuple[int, ...]


@frozen
class TrialPassed:
    """``attempt``, which is a trial, could have been committed: its outputs have done it, and undone it.

    Attributes:
        untried: the outputs that can't undo it, so they only prepared it.
    """

    attempt: TransactionAttempt
    untried: tuple[str, ...] = ()


@frozen
class SuccessDelivered:
    """Every ``success`` of ``txid`` has returned."""

    txid: int


@frozen
class OutputsAnswered:
    """The outputs were asked whether they can leave ``txid`` out; ``refusal`` says which can't; empty: all can."""

    txid: int
    refusal: str = ""


@frozen(kw_only=True)
class DeadLetters:
    """The dead letters of a branch that are to be processed.

    Attributes:
        txid: the first transaction that has left out one of them.
        stored: the rows, by spout.
    """

    branch: str
    txid: int
    stored: Mapping[str, StoredRows]


@frozen
class LettersRead:
    """The dead letters for ``wish`` are read and stored, by branch.

    ``refusal`` says why they can't be; empty: they are.
    """

    wish: Wish
    letters: tuple[DeadLetters, ...] = ()
    refusal: str = ""


@frozen
class Reported:
    """The announcements have results: `BatchStreams.take` returns them."""


@frozen
class Broken:
    """Something outside of any attempt failed, such as Spark itself; the topology ends with ``cause``."""

    cause: BaseException


@frozen
class PauseRequested:
    """The program wants no new batches: `TridentQuery.pause`. An operator's pause is a stored wish."""


@frozen
class ResumeRequested:
    """The program wants new batches again."""


@frozen
class WishesChanged:
    """An operator may have stored a wish."""


@frozen
class StopRequested:
    """The program wants to stop: after every active transaction has committed (``drain``), or immediately."""

    drain: bool


@frozen(eq=False)
class IdleWanted:
    """Call ``done(None)`` once a check begun after this message finds no work left, or ``done(error)`` if none can."""

    done: Callable[[BaseException | None], Any]


DefinitionMessage = Defined | NotReady | DefinitionFailed | OffsetsResolved | Fingerprinted
"""The definition of a transaction, and the parts of it that only emitting finds out."""

Message = (
    Acked
    | BadRowsFound
    | Broken
    | DefinitionMessage
    | Failed
    | IdleWanted
    | LettersRead
    | OutputsAnswered
    | PauseRequested
    | Reported
    | ResumeRequested
    | RowsFailed
    | RowsStored
    | StopRequested
    | SuccessDelivered
    | TrialPassed
    | WishesChanged
)
