"""What the world tells the driver: messages, posted from any thread, taken one turn at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any

from attrs import field, frozen

from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint, Json


@frozen
class Acked:
    """A consumer of ``stream`` took the edge ``took`` and made the edges ``made``; ``reporter`` names it once."""

    attempt: TransactionAttempt
    stream: StreamId
    took: int
    made: tuple[int, ...] = ()
    reporter: str = ""


class FailureKind(Enum):
    """Why an attempt failed, judged by the place where it did: never by what an exception says."""

    USER_CODE = "user code"
    """The batch's own code or data: it counts against the batch's retry policy."""

    UNREACHABLE = "unreachable"
    """The source can't be reached just now: the batch waits for it, which doesn't count."""

    BUSY = "busy"
    """The store of a state or sink is locked or can't be reached: the batch is replayed, which doesn't count."""

    INTERRUPTED = "interrupted"
    """Something else broke it off, such as Spark or silence: it is replayed, which doesn't count."""

    FATAL = "fatal"
    """No replay mends it: the topology ends with the cause."""

    @property
    def counts(self) -> bool:
        """Whether it counts against the batch's retry policy."""
        return self is FailureKind.USER_CODE


@frozen
class Diagnosis:
    """Why something failed.

    Attributes:
        txid: the transaction whose failure it is, where several were worked on at once and it is known.
        state: the state or sink that it was in, where it was in a commit.
    """

    cause: BaseException
    kind: FailureKind
    txid: int | None = None
    state: str | None = None


@frozen
class Failed:
    """``attempt`` cannot be finished.

    Attributes:
        spouts: whose rows it was about, or whose commit; whose source is unreachable, where that is the kind. Several:
            one of them.
        state: the state or sink that it was in, where it was in a commit.
    """

    attempt: TransactionAttempt
    cause: BaseException
    kind: FailureKind = FailureKind.USER_CODE
    spouts: Collection[str] = ()
    state: str | None = None


@frozen
class Defined:
    """A spout's coordinator defined ``txid``, as it calls a number; ``moved`` are the cursors that move with it.

    Attributes:
        more: whether another answer to the same ask follows, about the next txid.
        bytes: how long ``metadata`` is as JSON.
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
    """A spout's coordinator has nothing to define ``txid`` with yet.

    Attributes:
        is_pending: some input will be ready without any more coming.
    """

    spout: str
    ask: int
    txid: int
    is_pending: bool = False


@frozen
class DefinitionFailed:
    """A spout's coordinator raised while it was asked for ``txid``."""

    spout: str
    ask: int
    txid: int
    cause: BaseException


@frozen
class OffsetsResolved:
    """What a batch consists of was found out by emitting it; posted before the emission is acked.

    Attributes:
        metadata: the definition, with its splits: replaces the one without.
        moved: the cursors that move when this very attempt has committed.
    """

    attempt: TransactionAttempt
    spout: str
    metadata: Json
    moved: Mapping[str, Json] = field(factory=dict)


@frozen
class Fingerprinted:
    """What the rows of a spout's part of ``attempt`` were; comes before the report of the job that saw them."""

    attempt: TransactionAttempt
    spout: str
    fingerprint: Fingerprint


@frozen
class SuccessDelivered:
    """Every ``success`` of ``txid`` has returned."""

    txid: int


@frozen
class Reported:
    """Something has come of what was announced: `BatchStreams.take` tells what."""


@frozen
class Broken:
    """Something that no replay mends; the topology ends with ``cause``."""

    cause: BaseException


@frozen
class PauseRequested:
    """The user wants no new batches."""


@frozen
class ResumeRequested:
    """The user wants new batches again."""


@frozen
class WishesChanged:
    """An operator may have left a wish."""


@frozen
class StopRequested:
    """The user wants an end: after what is active has committed (``drain``), or now."""

    drain: bool


@frozen(eq=False)
class IdleWanted:
    """Call ``done(None)`` once a check begun after this message finds nothing left to do, or ``done(error)`` if not."""

    done: Callable[[BaseException | None], Any]


DefinitionMessage = Defined | NotReady | DefinitionFailed | OffsetsResolved | Fingerprinted
"""What a transaction consists of: its definition, and what is found out by emitting it."""

Message = (
    Acked
    | Broken
    | DefinitionMessage
    | Failed
    | IdleWanted
    | PauseRequested
    | Reported
    | ResumeRequested
    | StopRequested
    | SuccessDelivered
    | WishesChanged
)
