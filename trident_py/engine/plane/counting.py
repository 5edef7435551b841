"""`TransactionCounts`: what user functions have counted in transactions that are not committed, each function once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TypeAlias

from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from trident_py.worker.counters import NodeCounts, summed

CountsByNode: TypeAlias = Mapping[str, NodeCounts]
"""What was counted while an attempt was processed, by the node whose function it was."""

CommitCounts: TypeAlias = Mapping[tuple[int, str], Mapping[str, int]]
"""What was counted in a step of a commit, by transaction and output."""


@define
class TransactionCounts:
    """Keeps what is told of attempts and commits. Pure."""

    _processed: dict[TransactionAttempt, dict[str, NodeCounts]] = field(factory=dict, init=False)
    _committed: dict[int, dict[str, Mapping[str, int]]] = field(factory=dict, init=False)

    def process(self, attempt: TransactionAttempt, counts: CountsByNode) -> None:
        """Told by one of the jobs of ``attempt``.

        Several branches may have run one node, over the same rows: that of which more tasks tell counts, as the other
        one may have been cut short.
        """
        for node, told in counts.items():
            known = self._processed.setdefault(attempt, {})
            if node not in known or told.tasks > known[node].tasks:
                known[node] = told

    def commit(self, counts: CommitCounts) -> None:
        """Told by a step of a commit, which may have failed.

        An output that has applied a transaction isn't called for it again by the next attempt: what was counted for it
        first is kept until something else is.
        """
        for (txid, output), by_name in counts.items():
            if by_name:
                self._committed.setdefault(txid, {})[output] = by_name

    def of(self, attempt: TransactionAttempt) -> Mapping[str, int]:
        """Return what was counted in ``attempt`` so far, by name."""
        processed = (each.by_name for each in self._processed.get(attempt, {}).values())
        return _total([*processed, *self._committed.get(attempt.txid, {}).values()])

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which will never commit."""
        self._processed.pop(attempt, None)

    def close(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which is committed, and of which all that was counted is told."""
        self._processed.pop(attempt, None)
        self._committed.pop(attempt.txid, None)


def _total(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    return reduce(summed, counts, {})
