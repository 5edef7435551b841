"""The progress of a running topology: one entry per recent transaction, similar to ``StreamingQueryProgress``."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from attrs import define, field

from coordinators.status.listener import TransactionEvent, TridentListener
from coordinators.values.counts import Counts

RECENT = 100
"""How many transactions ``recent_progress`` remembers, so that the memory of a run does not grow with its length."""


class TransactionProgress(dict[str, Any]):
    """The progress of a committed transaction: a dict with its values also as attributes, as in PySpark's progress."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}; there are {', '.join(self)}") from None


@define(eq=False)
class Progress(TridentListener):
    """The first listener: keeps an entry for each committed transaction.

    It is called on the driver's thread, before any component is notified of a success. So the receiver of a success
    finds its entry.

    Attributes:
        recent_max: how many entries it keeps; None: all.
    """

    recent_max: int | None = RECENT
    _committed: int = field(default=0, init=False)
    _totals: Counts = field(factory=Counts, init=False)
    _writes: Callable[[], int] = field(default=int, init=False)
    _metrics: Callable[[], Any] = field(default=dict, init=False)
    _recent: deque[TransactionProgress] = field(init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._recent = deque(maxlen=self.recent_max)

    def follow(self, writes: Callable[[], int], metrics: Callable[[], Any]) -> None:
        """Set the sources of values, from the takeover on.

        Args:
            writes: returns the synchronous ZooKeeper rounds so far.
            metrics: returns the metrics of user code.
        """
        self._writes, self._metrics = writes, metrics

    def on_committed(self, event: TransactionEvent) -> None:
        self._committed += 1
        self._totals += Counts(event.rows, event.counts)
        entry = TransactionProgress(
            name=event.topology,
            timestamp=datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
            txid=event.attempt.txid,
            attempt_id=event.attempt.attempt_id,
            num_input_rows=event.rows,
            counts=dict(event.counts),
            duration_ms={
                "processing": _millis(event.processing),
                "committing": _millis(event.committing),
                "total": _millis(event.processing + event.committing),
            },
            committed_transactions=self._committed,
            total_input_rows=self._totals.rows,
            total_counts=dict(self._totals.by_name),
            zookeeper_writes=self._writes(),
            metrics=self._metrics(),
        )
        with self._lock:
            self._recent.append(entry)

    def recent(self) -> list[TransactionProgress]:
        """Return the last transactions, oldest first."""
        with self._lock:
            return list(self._recent)


def _millis(seconds: float) -> float:
    return round(seconds * 1000, 1)
