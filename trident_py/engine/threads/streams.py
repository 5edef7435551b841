"""The three streams of a topology, as the driver sees them: runs `DataPlane` on the driver's thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from attrs import define, field

from coordinators.batches.spout_coordinator import Ask
from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import Message, Reported
from coordinators.protocol.protocol import StreamId
from coordinators.record.wishes import Wish
from coordinators.status.listener import Counts
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.shutdown import Shutdown
from trident_py.engine.plane.instructions import Abandon, Instruction, KeepLeading, Post
from trident_py.engine.plane.plane import DataPlane
from trident_py.engine.plane.stimuli import (
    AttemptCancelled,
    BatchAnnounced,
    Closing,
    CommitAnnounced,
    EndForced,
    LettersWanted,
    OutputsWanted,
    PatienceEnded,
    Stimulus,
    SuccessAnnounced,
    TakenOver,
    TrialCommitWanted,
)
from trident_py.engine.threads.workers import Workers
from trident_py.participants.participant import earliest

log = logging.getLogger(__name__)


@define(kw_only=True, eq=False)
class TopologyStreams:
    """`BatchStreams` with a `DataPlane` and the threads that carry out its instructions.

    Only `report` may be called on any thread. Other methods are called on one thread: the driver's, or before and after
    it the one that creates and closes the streams.

    Attributes:
        plane: makes the decisions.
        workers: the threads.
        post: sends a message to the driver, from any thread.
        shutdown: limits how long `close` waits.
    """

    topology: str
    plane: DataPlane
    workers: Workers
    post: Callable[[Message], object]
    shutdown: Shutdown
    _reports: SimpleQueue[Stimulus] = field(factory=SimpleQueue, init=False)

    def __attrs_post_init__(self) -> None:
        self.workers.open(self.report)

    def report(self, stimulus: Stimulus) -> None:
        """Send a stimulus to the data plane, from any thread."""
        self._reports.put(stimulus)
        self.post(Reported())

    # --- BatchStreams: called by the driver, never blocks -------------------------------------------------------------

    def consumers(self, stream: StreamId) -> int:
        return self.plane.consumers(stream)

    def ask(self, spout: str, ask: Ask) -> None:
        self.workers.ask(spout, ask, self.post)

    def emit_batch(self, batch: Batch) -> None:
        self._announce(BatchAnnounced(batch))

    def ask_outputs(self, attempt: TransactionAttempt, *, may_have_begun: bool) -> None:
        self._announce(OutputsWanted(attempt, may_have_begun))

    def read_letters(self, wish: Wish) -> None:
        self._announce(LettersWanted(wish))

    def try_commit(self, attempt: TransactionAttempt) -> None:
        self._announce(TrialCommitWanted(attempt))

    def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        self._announce(CommitAnnounced(group))

    def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
        self._announce(SuccessAnnounced(attempt, number))

    def cancel(self, attempt: TransactionAttempt) -> None:
        self._announce(AttemptCancelled(attempt))

    def take(self) -> Sequence[Message]:
        """Handle the reported stimuli; return the resulting messages for the driver, in order."""
        messages: list[Message] = []
        with suppress(Empty):
            while True:
                messages += self._turn(self._reports.get_nowait())
        return messages

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Return the phases in progress: attempts with a running job, and commits by built-in states."""
        if late := self.workers.commits.thread.warning():
            log.warning("topology %s: %s", self.topology, late)
        alive = self.plane.alive()
        if self.workers.commits.thread.gets_on():
            return alive
        return [(attempt, stream) for attempt, stream in alive if stream is not StreamId.COMMIT]

    def next_window_at(self) -> int | None:
        """Return when the next time window with committed rows ends."""
        return earliest(participant.next_window_at() for participant in self.workers.commits.participants)

    def counted(self, attempt: TransactionAttempt) -> Counts:
        """Return the counts of a live attempt, as far as known; rows of emitted DataFrames are not counted."""
        return self.plane.counted(attempt)

    def lag(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many records wait in the sources that report it, by spout and part of it."""
        told = {threads.tx_id: threads.coordinator.lag for threads in self.workers.spouts}
        return {spout: lag for spout, lag in told.items() if lag}

    def expiring(self) -> Mapping[int, str]:
        """Return, by parked transaction, why its rows may soon be gone."""
        told = [threads.coordinator.expiring for threads in self.workers.spouts]
        return {txid: why for expiring in told for txid, why in expiring.items()}

    def take_over(self, partial_commit_txid: int, together: Sequence[Collection[int]], committed_txid: int) -> None:
        """Begin a leadership; the arguments are those of `TakenOver`."""
        self._turn(TakenOver(partial_commit_txid, together, committed_txid=committed_txid))

    # --- turns --------------------------------------------------------------------------------------------------------

    def _announce(self, stimulus: Stimulus) -> None:
        for message in self._turn(stimulus):
            self.post(message)

    def _turn(self, stimulus: Stimulus) -> list[Message]:
        instructions = self.plane.handle(stimulus)
        for instruction in instructions:
            self._carry_out(instruction)
        return [each.message for each in instructions if isinstance(each, Post)]

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Post():
                pass  # returned, in order
            case KeepLeading(what):
                self._keep_leading(what)
            case Abandon():
                self.workers.abandon()
            case _:
                self.workers.do(instruction)

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the threads and close everything that they serve; leave behind threads that don't return in time.

        While an output commits without a fence, it waits for that, unless the shutdown is forced.
        """
        self.shutdown.when_forced(lambda: self.report(EndForced()))
        patience = self.shutdown.patience
        until = time.monotonic() + patience
        self._turn(Closing())
        while not self.plane.is_closed:
            was_held = self.plane.is_held
            try:
                stimulus = self._reports.get(timeout=None if was_held else max(0.0, until - time.monotonic()))
            except Empty:
                if self.workers.given_up.is_set():
                    break
                stimulus, until = PatienceEnded(), time.monotonic() + patience
            self._turn(stimulus)
            if was_held and not self.plane.is_held:
                until = time.monotonic() + patience
        self._leave(until)

    def _keep_leading(self, what: str) -> None:
        busy = ", ".join(self.workers.committing.busy())
        why = (
            f"topology {self.topology!r} keeps leading although it was asked to stop: {what}, on thread {busy}. If "
            f"another process led, the late writes of this thread would not be refused. So the topology ends when the "
            f"thread returns. To end it now: stop(force=True) releases leadership all the same"
        )
        log.warning("%s", why)
        self.shutdown.hold(why)

    def _leave(self, until: float) -> None:
        self.shutdown.left_behind = self.workers.leave(until)
        if self.shutdown.left_behind:
            log.error(
                "topology %s releases leadership and no longer waits for thread %s; its late writes are refused",
                self.topology,
                ", thread ".join(self.shutdown.left_behind),
            )
