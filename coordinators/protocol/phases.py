"""Which phases of which attempts are unfinished, and the silence after which one fails."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from attrs import define, field

from coordinators.protocol.acker import Acker, Completed
from coordinators.protocol.messages import Acked, Failed, FailureKind
from coordinators.protocol.protocol import PhaseAcked, StreamId
from coordinators.values.attempt import TransactionAttempt


@define(kw_only=True)
class Phases:
    """The phases of one leadership. Pure: time is an argument.

    Attributes:
        epoch: of the leadership; names its roots, so that no late ack counts for a later one.
        message_timeout: seconds of silence after which a phase fails.
        next_rotation_at: when silence is looked for again.
    """

    epoch: int
    message_timeout: float
    next_rotation_at: float = 0.0
    acker: Acker = field(factory=Acker, init=False)

    def open(self, attempt: TransactionAttempt, stream: StreamId, edges: Sequence[int]) -> Iterable[PhaseAcked]:
        """Begin a phase, with an edge for each consumer."""
        return self._completed(self.acker.init(self._root(attempt, stream), edges))

    def take(self, acked: Acked) -> Iterable[PhaseAcked]:
        """Take in a report."""
        root = self._root(acked.attempt, acked.stream)
        return self._completed(self.acker.ack(root, acked.took, acked.made, reporter=acked.reporter or acked.took))

    def forget(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which is cancelled."""
        for stream in (StreamId.BATCH, StreamId.COMMIT):
            self.acker.forget(self._root(attempt, stream))

    def rotate_at(self, now: float) -> None:
        """Look for silence half a timeout from ``now``."""
        self.next_rotation_at = now + self.message_timeout / 2

    def silent(self, alive: Collection[tuple[TransactionAttempt, StreamId]]) -> Iterator[Failed]:
        """Give the phases of which nothing was heard for too long, but for those that something works on."""
        for attempt, stream in alive:
            self.acker.reset_timeout(self._root(attempt, stream))
        for expired in self.acker.rotate():
            attempt, stream = self._phase(expired.root)
            silence = f"{stream} was silent for {self.message_timeout:g} s with {expired.outstanding} reports missing"
            yield Failed(attempt, TimeoutError(silence), FailureKind.INTERRUPTED)

    def _root(self, attempt: TransactionAttempt, stream: StreamId) -> tuple[int, TransactionAttempt, StreamId]:
        return (self.epoch, attempt, stream)

    def _phase(self, root: Any) -> tuple[TransactionAttempt, StreamId]:
        _, attempt, stream = root  # ours, see _root
        return attempt, stream

    def _completed(self, outcome: object) -> Iterable[PhaseAcked]:
        return (PhaseAcked(*self._phase(outcome.root)),) if isinstance(outcome, Completed) else ()
