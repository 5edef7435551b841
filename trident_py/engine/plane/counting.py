"""`TransactionCounts`: the counts by user functions in transactions that are not committed, once per function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TypeAlias

from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from trident_py.worker.counters import NodeCounts, summed

CountsByNode: TypeAlias = Mapping[str, NodeCounts]
"""The counts while an attempt was processed, by the node of the function."""

CommitCounts: TypeAlias = Mapping[tuple[int, str], Mapping[str, int]]
"""The counts in a step of a commit, by transaction and output."""


@define
class TransactionCounts:
    """Stores the reported counts of attempts and commits. Pure."""

    _processed: dict[TransactionAttempt, dict[str, NodeCounts]] = field(factory=dict, init=False)
    _committed: dict[int, dict[str, Mapping[str, int]]] = field(factory=dict, init=False)

    def process(self, attempt: TransactionAttempt, counts: CountsByNode) -> None:
        """Record the counts of one of the jobs of ``attempt``.

        Several branches may have run one node, over the same rows. The counts from more tasks are used, because the
        other branch may have stopped reading early.
        """
        for node, told in counts.items():
            known = self._processed.setdefault(attempt, {})
            if node not in known or told.tasks > known[node].tasks:
                known[node] = told

    def commit(self, counts: CommitCounts) -> None:
        """Record the counts of a commit step, which may have failed.

        If an output has applied a transaction, the next attempt doesn't call it again. So its first counts are kept
        until others replace them.
        """
        for (txid, output), by_name in counts.items():
            if by_name:
                self._committed.setdefault(txid, {})[output] = by_name

    def of(self, attempt: TransactionAttempt) -> Mapping[str, int]:
        """Return the counts in ``attempt`` so far, by name."""
        processed = (each.by_name for each in self._processed.get(attempt, {}).values())
        return _total([*processed, *self._committed.get(attempt.txid, {}).values()])

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which will never commit."""
        self._processed.pop(attempt, None)

    def close(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which is committed and has published all its counts."""
        self._processed.pop(attempt, None)
        self._committed.pop(attempt.txid, None)


def _total(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    return reduce(summed, counts, {})
