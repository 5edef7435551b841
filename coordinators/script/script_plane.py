"""The data plane of ``trident script``: what is announced is printed, and the script says what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import define, field

from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import Acked, Defined, Message, NotReady, SuccessDelivered
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json

SPOUT = "script"


@define
class ScriptOutside:
    """What outlives a crash, since it is outside the process: the settings, and what was heard.

    Attributes:
        printed: the last transaction whose success was printed. Who hears of one again, as it is owed, knows it.
    """

    max_spout_pending: int = 1
    listening: dict[StreamId, bool] = field(factory=dict)
    ready: bool = True
    ready_of: dict[int, bool] = field(factory=dict)
    printed: int = 0

    def is_ready(self, txid: int) -> bool:
        """Tell whether the spout has something to define ``txid`` with."""
        return self.ready_of.get(txid, self.ready)


@define
class ScriptPlane:
    """The data plane of one process: keeps what was announced, and does nothing of itself.

    Attributes:
        said: the lines to print.
        inbox: what came of it.
        pending: the phase of each live attempt that waits for the script, and its edges.
        asks: those that aren't answered.
    """

    outside: ScriptOutside
    said: list[str] = field(factory=list)
    inbox: list[Message] = field(factory=list)
    pending: dict[TransactionAttempt, tuple[StreamId, Sequence[int]]] = field(factory=dict)
    asks: list[Ask] = field(factory=list)

    def consumers(self, stream: StreamId) -> int:
        """Count the script, if it listens."""
        return int(self.outside.listening.get(stream, True))

    def ask(self, spout: str, ask: Ask) -> None:
        """Keep the ask; it is answered when the step's tick comes."""
        self.asks.append(ask)

    def emit_batch(
        self,
        attempt: TransactionAttempt,
        number: int | None,
        metadata: Mapping[str, Json],
        time: int,
        edges: Sequence[int],
    ) -> None:
        """Print it."""
        self.said.append(f"BATCH {attempt}")
        self._wait_for(attempt, StreamId.BATCH, edges)

    def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        """Print it."""
        for attempt, edges in group.items():
            self.said.append(f"COMMIT {attempt}")
            self._wait_for(attempt, StreamId.COMMIT, edges)

    def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
        """Print it, unless it was."""
        if attempt.txid > self.outside.printed:
            self.said.append(f"SUCCESS {attempt}")
            self.outside.printed = attempt.txid
        self.inbox.append(SuccessDelivered(attempt.txid))

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Forget it: nobody will hear of it again."""
        self.pending.pop(attempt, None)

    def take(self) -> Sequence[Message]:
        """Return nothing: there are no threads."""
        return ()

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Return nothing: where no time passes, nothing falls silent."""
        return ()

    def next_window_at(self) -> int | None:
        """Return None: there are no windows."""
        return None

    def ack(self, attempt: TransactionAttempt) -> list[Message]:
        """Handle ``attempt`` in the phase that is pending; without one, nothing happens."""
        stream, edges = self.pending.pop(attempt, (StreamId.BATCH, ()))
        return [Acked(attempt, stream, edge) for edge in edges]

    def define(self, window: range) -> list[Message]:
        """Answer what is asked with all of ``window`` that is ready."""
        return [message for ask in self._taken() for message in self._answers(ask, window)]

    def refuse(self) -> list[Message]:
        """Answer what is still asked: not now."""
        return [NotReady(SPOUT, ask.number, ask.txid) for ask in self._taken()]

    def taken(self) -> list[Message]:
        """Return what has come of it since."""
        messages, self.inbox = self.inbox, []
        return messages

    def _answers(self, ask: Ask, window: range) -> Iterator[Message]:
        for txid in range(ask.txid, ask.upto + 1):
            if txid not in window or not self.outside.is_ready(txid):
                yield NotReady(SPOUT, ask.number, txid)
                return
            yield Defined(SPOUT, ask.number, txid, None, more=txid < ask.upto)

    def _taken(self) -> list[Ask]:
        asks, self.asks = self.asks, []
        return asks

    def _wait_for(self, attempt: TransactionAttempt, stream: StreamId, edges: Sequence[int]) -> None:
        if edges:
            self.pending[attempt] = stream, edges
