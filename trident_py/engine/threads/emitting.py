"""One emission, on the thread of its spout's emitter: emits the batch, and reads it once if necessary."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from attrs import define, field

from coordinators.protocol.messages import Diagnosis, FailureKind, Message
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.stimuli import CheckpointBegun, EmitFailed, Emitted, Stimulus
from trident_py.engine.threads.threads import SpoutThreads


class Unwanted(Exception):
    """The emission or job was cancelled before it began."""


@define(eq=False)
class Running:
    """An emission or job that runs on a thread and may be cancelled.

    Attributes:
        is_in_spark: there may be a Spark job that must be cancelled, too.
    """

    cancelled: threading.Event = field(factory=threading.Event, init=False)
    is_in_spark: threading.Event = field(factory=threading.Event, init=False)
    ended: threading.Event = field(factory=threading.Event, init=False)

    def enter_spark(self) -> None:
        """Record that a Spark job may exist from here on.

        Raises:
            Unwanted: it was cancelled before.
        """
        self.is_in_spark.set()  # before the check: `cancel` does both in the opposite order
        if self.cancelled.is_set():
            raise Unwanted

    def cancel(self) -> bool:
        """Cancel it; return true if there may be a Spark job to cancel."""
        self.cancelled.set()
        return self.is_in_spark.is_set()


@define(kw_only=True, eq=False)
class SpoutEmission:
    """Lets one spout emit its part of one attempt.

    Attributes:
        readers: the branches that read it.
        is_reread: one of them reads it more than once.
        checkpoint: reads a batch once, by a Spark job, and stores its rows; its last argument is whether they are
            verified.
        diagnose: returns the meaning of an exception.
        draw_edge: draws an acker edge.
    """

    emit: Emit
    spout: SpoutThreads
    readers: Sequence[int]
    is_reread: bool
    checkpoint: Callable[[Emit, EmittedBatch, bool], EmittedBatch]
    diagnose: Callable[[BaseException], Diagnosis]
    draw_edge: Callable[[], int]
    running: Running = field(factory=Running, init=False)

    def run(self, report: Callable[[Stimulus], object]) -> None:
        """Emit, and pass the result or the exception to ``report``."""
        attempt, tx_id = self.emit.attempt, self.spout.tx_id
        try:
            if self.running.cancelled.is_set():
                raise Unwanted
            outcome: Stimulus = self._emitted(report)
        except Unwanted as error:
            outcome = EmitFailed(attempt, tx_id, Diagnosis(error, FailureKind.INTERRUPTED))
        except BaseException as error:  # noqa: BLE001 - user code
            outcome = EmitFailed(attempt, tx_id, self.diagnose(error))
        self.running.ended.set()
        report(outcome)

    def _emitted(self, report: Callable[[Stimulus], object]) -> Emitted:
        attempt, executor = self.emit.attempt, self.spout.executor
        number = self.emit.number
        if number is None:  # the spout is not called for an empty transaction
            return self._as_emitted(EmittedBatch(executor.schema))
        batch = self._settled(executor.emit_batch(attempt, number, self.emit.metadata), report)
        return self._as_emitted(batch, tuple(executor.resolve_offsets(attempt, number, batch.reported)))

    def _as_emitted(self, batch: EmittedBatch, resolved: Sequence[Message] = ()) -> Emitted:
        return Emitted(
            attempt=self.emit.attempt,
            spout=self.spout.tx_id,
            batch=batch,
            rows=batch.known_rows,
            is_small=batch.is_small,
            edges={branch: self.draw_edge() for branch in self.readers},
            resolved=resolved,
            counts=batch.counts,
        )

    def _settled(self, batch: EmittedBatch, report: Callable[[Stimulus], object]) -> EmittedBatch:
        """Return ``batch``, or its rows read once: if reading reports something, or a second read might differ."""
        is_reread, exact = len(self.readers) > 1 or self.is_reread, self.spout.coordinator.exact
        if not batch.is_read_once and (not is_reread or exact or batch.is_settled):
            return batch
        report(CheckpointBegun(self.emit.attempt, self.spout.tx_id))
        self.running.enter_spark()
        return self.checkpoint(self.emit, batch, exact)
