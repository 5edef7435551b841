"""The history of transactions: entries by transaction, with outcomes that their writer could not record. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from trident_py.history.entries import AttemptEntry, LeadershipEntry

ABANDONED = "abandoned"
"""The outcome of an attempt that ran when its leadership ended, and is not known to have committed."""


@frozen
class AttemptHistory:
    """An attempt.

    Attributes:
        outcome: ``processing``, ``processed``, ``committed``, ``parked``, ``failed`` or `ABANDONED`.
        leadership: its leadership; None if that was deleted.
    """

    entry: AttemptEntry
    outcome: str
    leadership: LeadershipEntry | None

    @property
    def is_closed(self) -> bool:
        """Whether it is committed, with its rows or, if it is parked, without them."""
        return self.outcome in ("committed", "parked")

    def facts(self) -> dict[str, Any]:
        """Return the facts as JSON; moments are in seconds since 1970, durations in seconds."""
        entry, program = self.entry, self.leadership.program if self.leadership else None
        return {
            "attempt": str(entry.attempt),
            "txid": entry.txid,
            "attempt_id": entry.attempt.attempt_id,
            "number": entry.number,
            "outcome": self.outcome,
            "epoch": entry.epoch,
            "host": program.host if program else None,
            "pid": program.pid if program else None,
            "version": program.version if program else None,
            "code": program.code if program else None,
            "emitted": entry.emitted,
            "ended": entry.ended,
            "succeeded": entry.succeeded,
            "processing": entry.processing,
            "waiting": entry.waiting,
            "committing": entry.committing,
            "rows": entry.rows,
            "written": dict(entry.written),
            "counts": dict(entry.counts),
            "definition": dict(entry.definition),
            "error": entry.error or None,
            "failed": entry.failed or None,
        }


@frozen
class TransactionHistory:
    """A transaction, by its attempts, oldest first; there is at least one."""

    attempts: tuple[AttemptHistory, ...]

    @property
    def last(self) -> AttemptHistory:
        """The last attempt: the committed or parked one, if there is one."""
        return self.attempts[-1]

    @property
    def txid(self) -> int:
        """The txid of the transaction."""
        return self.last.entry.txid

    @property
    def own_failure(self) -> AttemptHistory | None:
        """The last attempt that has failed by itself, not by an earlier transaction's failure; or None."""
        own = (each for each in reversed(self.attempts) if each.entry.failed == str(each.entry.attempt))
        return next(own, None)

    @property
    def has_failed(self) -> bool:
        """Whether one of its attempts has failed."""
        return any(each.outcome == "failed" for each in self.attempts)

    def facts(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {
            "txid": self.txid,
            "outcome": self.last.outcome,
            "attempts": [each.facts() for each in self.attempts],
        }


def transactions(
    leaderships: Iterable[LeadershipEntry], attempts: Sequence[AttemptEntry], parked: Collection[int] = ()
) -> list[TransactionHistory]:
    """Join entries by transaction, lowest first.

    Args:
        leaderships: all leaderships of one life.
        attempts: attempts of the same life, with all attempts of each transaction.
        parked: the transactions of the same life for which it was decided that they are parked.
    """
    by_epoch = {each.epoch: each for each in leaderships}
    by_txid: dict[int, list[AttemptEntry]] = {}
    for entry in sorted(attempts, key=lambda each: (each.txid, each.attempt.attempt_id)):
        by_txid.setdefault(entry.txid, []).append(entry)
    return [
        TransactionHistory(
            tuple(
                AttemptHistory(
                    entry, _outcome(entry, entry is entries[-1], by_epoch, parked), by_epoch.get(entry.epoch)
                )
                for entry in entries
            )
        )
        for entries in by_txid.values()
    ]


def _outcome(
    entry: AttemptEntry, is_last: bool, by_epoch: Mapping[int, LeadershipEntry], parked: Collection[int]
) -> str:
    if entry.phase in ("committed", "parked", "failed"):
        return entry.phase
    later = [each for epoch, each in by_epoch.items() if epoch > entry.epoch]
    if is_last and any(each.current_txid > entry.txid for each in later):
        return "parked" if entry.txid in parked else "committed"  # right before its leader ended
    leadership = by_epoch.get(entry.epoch)
    has_ended = bool(later) or leadership is None or leadership.ended is not None
    return ABANDONED if has_ended else entry.phase
