"""The progress line of a running topology: its parts, their order, and how it fits into a narrow terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from coordinators.status.status import TopologyStatus
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.error_text import counted, safe_text

RATE_SECONDS = 10.0
FOLD_COLUMNS = 60
"""A terminal with fewer columns gets a line for each part."""


@define
class RecentRate:
    """Rows a second over the last ten seconds."""

    _samples: deque[tuple[float, int]] = field(factory=deque)

    def note(self, now: float, rows: int) -> None:
        """Record that ``rows`` more rows were committed by ``now``, in monotonic seconds."""
        self._samples.append((now, rows))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RATE_SECONDS:
            self._samples.popleft()

    @property
    def per_second(self) -> float:
        """The rate; 0 if nothing was committed in that time."""
        (begin, before), (end, rows) = (self._samples[0], self._samples[-1]) if self._samples else ((0.0, 0),) * 2
        return (rows - before) / (end - begin) if end > begin else 0.0


def parts(name: str, status: TopologyStatus, done: Mapping[str, Any], rate: float) -> list[str]:
    """Return the parts of the line, the most important first: name, activity or problem, progress, numbers."""
    in_flight = " ".join(tried(each.attempt) for each in status.transactions)
    return [
        name,
        status.message,
        *([in_flight] if in_flight else []),
        counted(done["committed_transactions"], "transaction"),
        counted(done["total_input_rows"], "row"),
        *([f"{rate:,.0f} rows/s"] if rate >= 0.5 else []),
        f"{done['seconds']:.0f} s",
    ]


def fitted(said: Sequence[str], columns: int) -> str:
    """Join the parts in one line, or with a line for each if there are few columns."""
    return ("\n" if columns < FOLD_COLUMNS else "  ").join(map(safe_text, said))


def tried(attempt: TransactionAttempt) -> str:
    """Format an attempt for people: ``16``, or ``16 (try 3)`` if it is not the first."""
    txid, tries = attempt.txid, attempt.attempt_id + 1
    return f"{txid}" if tries == 1 else f"{txid} (try {tries})"
