"""`Trials`: starts the trials of a leadership and follows each to its end. Attempts in the data plane, none commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, evolve

from coordinators.driver.batch_streams import BatchStreams
from coordinators.driver.bisect_desk import BisectDesk, TrialMessage
from coordinators.protocol.acker import Phases
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt


@define
class Trials:
    """Carries out the decisions of `BisectDesk`.

    Attributes:
        open: begins a phase of an attempt; returns an edge for each of its consumers.
    """

    streams: BatchStreams
    phases: Phases
    desk: BisectDesk
    open: Callable[[TransactionAttempt, StreamId], Sequence[int]]

    def start(self, time: int) -> None:
        """Start the next trial, if one is due; ``time`` is as in `Batch`."""
        if (batch := self.desk.due(time)) is not None:
            self.streams.emit_batch(evolve(batch, edges=self.open(batch.attempt, StreamId.BATCH)))

    def processed(self, attempt: TransactionAttempt) -> None:
        """Let the outputs commit the trial, and undo it; if it has only stored rows, end it."""
        if not self.desk.is_running(attempt):
            return
        if self.desk.is_processed():
            self._end(attempt)
        else:
            self.streams.try_commit(attempt)

    def take(self, message: TrialMessage) -> None:
        """Take a message about a trial; a late one changes nothing."""
        if self.desk.is_running(message.attempt) and self.desk.take(message):
            self._end(message.attempt)

    def _end(self, attempt: TransactionAttempt) -> None:
        self.phases.forget(attempt)
        self.streams.cancel(attempt)
