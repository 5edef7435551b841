"""The vocabulary of the machine: the events that it receives (past tense) and the commands that it returns.

The driver (`CoordinatorDriver`) calls `BatchStreams` to carry out commands, and makes events of the messages that come
back:

- `EmitBatch` reaches the data plane as `BatchAnnounced`; its acks end in `PhaseAcked` for ``$batch``.
- `EmitCommit` reaches it as `CommitAnnounced`; its acks end in `PhaseAcked` for ``$commit``.
- `EmitSuccess` reaches it as `SuccessAnnounced`; `SuccessDelivered` answers, and no phase waits for it.
- `CancelAttempt` reaches it as `AttemptCancelled`; there is no answer.
- `StoreRecord` stays with the driver, which writes the record before it carries out the commands after it.
- `AskOutputs` reaches it as `OutputsWanted`; the message `OutputsAnswered` comes back, and the driver makes `Wished` of
  it, or first `RowsWanted`, if rows have to be stored.
- The message `Failed` becomes the event `AttemptFailed`. The next `Ticked` starts the transaction again. But if its
  kind is `FATAL`, the driver ends the leadership, and the machine receives no further event.

The driver handles no further event while it writes. A write whose outcome is unknown is tried until it is known, or
until the lease ends; then the leadership ends, and the next one reads what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import field, frozen

from coordinators.record.parking import NOTHING_PARKED, Parked, ParkedList, Parking, Split
from coordinators.record.wishes import NOTHING_STANDS, Outcome, Standing, Wish
from coordinators.values.attempt import TransactionAttempt


class StreamId(StrEnum):
    """The three streams of a master batch coordinator, under Storm's names; ``$success`` has no ledger."""

    BATCH = "$batch"
    COMMIT = "$commit"
    SUCCESS = "$success"


def _frozen(txids: Iterable[int]) -> frozenset[int]:
    return frozenset(txids)


# --- events -----------------------------------------------------------------------------------------------------------


@frozen
class Ticked:
    """New batches may start. ``ready`` are the txids that may be emitted now: defined, and not backing off."""

    ready: frozenset[int] = field(converter=_frozen)


@frozen
class PhaseAcked:
    """The ledger of ``stream`` for ``attempt`` reached zero. A late ack can't finish another phase."""

    attempt: TransactionAttempt
    stream: StreamId


@frozen
class AttemptFailed:
    """``attempt`` failed or was silent for too long, in any phase."""

    attempt: TransactionAttempt


@frozen
class Stopping:
    """The process was asked to stop: no new batches and no replays; transactions in progress commit."""


@frozen
class ParkWanted:
    """``txid``, the lowest transaction, is to be parked by ``wish``, if its outputs can leave it out."""

    txid: int
    wish: Wish


@frozen
class RowsWanted:
    """``txid``, which its outputs can leave out, needs one more attempt, which only stores the rows of its batch."""

    txid: int


@frozen
class Wished:
    """An operator or the process itself wants ``wish``, which was not carried out yet.

    Attributes:
        refusal: why it can't be carried out; empty: it can.
        parking: for a wish to park that can be carried out, how the lowest transaction is parked.
        split: for a wish to bisect that was carried out, the rows that fail.
        stored: for a wish to see rows, the parked transaction, all rows of which are stored.
        letters: for a wish to process dead letters, the entries with their rows.
    """

    wish: Wish
    refusal: str = ""
    parking: Parking | None = None
    split: Split | None = None
    stored: Parked | None = None
    letters: tuple[Parked, ...] = ()


Event = Ticked | PhaseAcked | AttemptFailed | Stopping | ParkWanted | RowsWanted | Wished


# --- commands ---------------------------------------------------------------------------------------------------------


@frozen
class StoreRecord:
    """Store the coordinator's position; the commands that follow it in the list wait until it is durable.

    Attributes:
        current_txid: the lowest transaction that is not committed.
        attempt_ids: the last attempt id of each transaction from ``current_txid`` on that was ever tried.
        committing: attempts whose commit may have begun and is not closed (only if intents are stored).
        standing: the wishes of operators that are in effect.
        outcomes: the outcomes of the wishes that exactly this write carries out, and removes.
        parked: the transaction that is being parked, and the parked ones.
    """

    current_txid: int
    attempt_ids: dict[int, int]
    committing: tuple[TransactionAttempt, ...] = ()
    standing: Standing = NOTHING_STANDS
    outcomes: tuple[Outcome, ...] = ()
    parked: ParkedList = NOTHING_PARKED


@frozen
class EmitBatch:
    """Announce ``attempt`` on ``$batch``."""

    attempt: TransactionAttempt


@frozen
class EmitCommit:
    """Announce ``attempt`` on ``$commit``."""

    attempt: TransactionAttempt


@frozen
class EmitSuccess:
    """Announce ``attempt`` on ``$success``."""

    attempt: TransactionAttempt


@frozen
class CancelAttempt:
    """Stop working on ``attempt``, which will never be closed; a commit step that already runs is not interrupted."""

    attempt: TransactionAttempt


@frozen
class AskOutputs:
    """Ask each output whether it can leave ``txid`` out, after everything that may still change outputs."""

    txid: int


Command = StoreRecord | EmitBatch | EmitCommit | EmitSuccess | CancelAttempt | AskOutputs
