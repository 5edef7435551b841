"""What the control plane needs of a data plane: the port through which batches are processed and committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import Message
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json


class BatchStreams(Protocol):
    """The data plane, as the control plane sees it: three streams and their consumers. Nothing here may block."""

    def consumers(self, stream: StreamId) -> int:
        """Return how many consumers ``$batch`` or ``$commit`` has; each reports the edge that it is handed."""
        ...

    def ask(self, spout: str, ask: Ask) -> None:
        """Have the spout's coordinator answer ``ask``, on the spout's own thread."""
        ...

    def emit_batch(
        self,
        attempt: TransactionAttempt,
        number: int | None,
        metadata: Mapping[str, Json],
        time: int,
        edges: Sequence[int],
    ) -> None:
        """Process ``attempt``.

        Args:
            attempt: states and sinks know it by this.
            number: spouts know its transaction by this; None: it is empty, and none of them hears of it.
            metadata: what it consists of, by spout.
            time: the transaction's, in milliseconds since 1970.
            edges: one for each consumer.
        """
        ...

    def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        """Commit these attempts, which follow each other, in this order; given are the edges of each."""
        ...

    def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
        """Tell everybody that ``attempt`` is committed for good; ``number`` is as in `emit_batch`."""
        ...

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Stop working on ``attempt``, and give up what it prepared."""
        ...

    def take(self) -> Sequence[Message]:
        """Return what has come of it since; `Reported` was posted when there was something."""
        ...

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Return the phases that something is visibly working on; they don't time out."""
        ...

    def next_window_at(self) -> int | None:
        """Return when the next window by time ends that holds rows of what is committed; None: no window waits.

        By the times of transactions, in milliseconds since 1970: the first at that time or after it lets it fire.
        Until then, time must not go back.
        """
        ...
