"""What a running topology has done lately, in the manner of a ``StreamingQueryProgress``."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from attrs import define, field

from coordinators.attempt import TransactionAttempt
from coordinators.protocol import CancelAttempt, Command, EmitBatch, EmitCommit, EmitSuccess

RECENT = 100
"""How many transactions ``recent_progress`` remembers; the memory of a run does not grow with its length."""


@define
class _Times:
    emitted: float
    processed: float = 0.0
    rows: int = 0


@define(eq=False)
class Progress:
    """Watches the driver's commands and keeps a line for each committed transaction."""

    name: str
    committed: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)
    late: Callable[[], str] = field(default=str, init=False)
    _rows_of: Callable[[TransactionAttempt], int] = field(init=False)
    _writes: Callable[[], int] = field(init=False)
    _metrics: Callable[[], Any] = field(init=False)
    _recent: deque[dict[str, Any]] = field(factory=lambda: deque(maxlen=RECENT), init=False)
    _times: dict[TransactionAttempt, _Times] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def follow(
        self,
        rows_of: Callable[[TransactionAttempt], int],
        writes: Callable[[], int],
        metrics: Callable[[], Any],
        late: Callable[[], str],
    ) -> None:
        """Where to look, from the takeover on.

        Args:
            rows_of: how many rows an attempt has read, as far as anybody counted.
            writes: synchronous ZooKeeper rounds so far.
            metrics: user code's own numbers.
            late: what commits have been waiting for, for too long.
        """
        self._rows_of, self._writes, self._metrics, self.late = rows_of, writes, metrics, late

    def observe(self, command: Command) -> None:
        """Note ``command``, which is about to be announced."""
        now = time.monotonic()
        match command:
            case EmitBatch(attempt):
                self._times[attempt] = _Times(now)
            case EmitCommit(attempt):
                self._times[attempt].processed = now
                self._times[attempt].rows = self._rows_of(attempt)
            case CancelAttempt(attempt):
                self._times.pop(attempt, None)
            case EmitSuccess(attempt):
                times = self._times.pop(attempt, None)
                if times is not None:  # otherwise an earlier leader committed it
                    self._add(attempt, times, now)

    def recent(self) -> list[dict[str, Any]]:
        """The last transactions, oldest first."""
        with self._lock:
            return list(self._recent)

    def _add(self, attempt: TransactionAttempt, times: _Times, now: float) -> None:
        self.committed += 1
        self.rows += times.rows
        entry = {
            "name": self.name,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "txid": attempt.txid,
            "attempt_id": attempt.attempt_id,
            "num_input_rows": times.rows,
            "duration_ms": {
                "processing": round((times.processed - times.emitted) * 1000, 1),
                "committing": round((now - times.processed) * 1000, 1),
                "total": round((now - times.emitted) * 1000, 1),
            },
            "committed_transactions": self.committed,
            "total_input_rows": self.rows,
            "zookeeper_writes": self._writes(),
            "metrics": self._metrics(),
        }
        with self._lock:
            self._recent.append(entry)
