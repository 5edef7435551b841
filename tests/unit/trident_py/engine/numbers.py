"""Spouts that number their rows."""

from __future__ import annotations

import pyarrow as pa

from coordinators.values.attempt import TransactionAttempt
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import Committing, Emitter


class Numbers(Emitter[int]):
    """Emits as many rows as the metadata says."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        if metadata < 0:
            raise SystemExit(metadata)
        collector.emit_arrow(pa.table({"n": list(range(metadata))}))


class CommitterNumbers(Numbers, Committing):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        self.heard.append(("emit", str(attempt)))
        super().emit_batch(attempt, metadata, collector)

    def commit(self, attempt: TransactionAttempt) -> None:
        self.heard.append(("commit", str(attempt)))

    def success(self, attempt: TransactionAttempt) -> None:
        self.heard.append(("success", str(attempt)))
