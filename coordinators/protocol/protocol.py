"""The vocabulary of the machine: what it is told (events, past tense) and what it asks for (commands, imperative)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import field, frozen

from coordinators.record.wishes import NOTHING_STANDS, Outcome, Standing, Wish
from coordinators.values.attempt import TransactionAttempt


class StreamId(StrEnum):
    """The three streams of a master batch coordinator, under Storm's names."""

    BATCH = "$batch"
    COMMIT = "$commit"
    SUCCESS = "$success"


def _frozen(txids: Iterable[int]) -> frozenset[int]:
    return frozenset(txids)


# --- events -----------------------------------------------------------------------------------------------------------


@frozen
class Ticked:
    """Time for new batches. ``ready`` are the txids that may be emitted now: defined, and not backing off."""

    ready: frozenset[int] = field(converter=_frozen)


@frozen
class PhaseAcked:
    """The ledger of ``stream`` for ``attempt`` came to zero. A late ack can't finish another phase."""

    attempt: TransactionAttempt
    stream: StreamId


@frozen
class AttemptFailed:
    """``attempt`` failed or fell silent, in whatever phase."""

    attempt: TransactionAttempt


@frozen
class Stopping:
    """The process was asked to stop: no new batches and no replays; what is under way commits."""


@frozen
class Wished:
    """An operator or the process itself wants ``wish``, which was not carried out yet."""

    wish: Wish


Event = Ticked | PhaseAcked | AttemptFailed | Stopping | Wished


# --- commands ---------------------------------------------------------------------------------------------------------


@frozen
class StoreRecord:
    """Make the coordinator's position durable; everything after it in the list waits for that.

    Attributes:
        current_txid: the lowest transaction that is not committed.
        attempt_ids: the last attempt id of each transaction from ``current_txid`` on that was ever tried.
        committing: attempts whose commit may have begun and is not closed (only where intents are stored).
        standing: what stands by the wishes of operators.
        outcomes: of the wishes that this very write carries out, and removes.
    """

    current_txid: int
    attempt_ids: dict[int, int]
    committing: tuple[TransactionAttempt, ...] = ()
    standing: Standing = NOTHING_STANDS
    outcomes: tuple[Outcome, ...] = ()


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
    """Stop working on ``attempt``: it will never commit."""

    attempt: TransactionAttempt


Command = StoreRecord | EmitBatch | EmitCommit | EmitSuccess | CancelAttempt
