"""A data plane for tests of the driver: keeps what it was told, and answers only when the test says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from attrs import define, field

from coordinators.batches.spout_coordinator import Ask, TridentSpoutCoordinator
from coordinators.driver.batch_streams import Batch
from coordinators.driver.driver import CoordinatorDriver
from coordinators.driver.publisher import Publisher
from coordinators.protocol.messages import (
    Acked,
    Defined,
    DefinitionFailed,
    Message,
    NotReady,
    SuccessDelivered,
    WishesChanged,
)
from coordinators.protocol.protocol import StreamId
from coordinators.record.store import InMemoryCoordination
from coordinators.record.wishes import Wish
from coordinators.takeover.takeover import recover
from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from coordinators.values.settings import LeadershipSettings
from coordinators.values.transaction_time import LeaderClock


@define
class Numbers(BatchCoordinator[Any]):
    """Defines batch t as ``[t, tag]``; ready up to ``upto``, and soon up to ``pending``."""

    upto: int = 100
    pending: int = 0
    tag: str = "first"
    calls: list[tuple[Any, ...]] = field(factory=list)
    fails: dict[int, int] = field(factory=dict)
    limits: list[int | None] = field(factory=list)

    def limit_batches(self, max_rows: int | None) -> None:
        self.limits.append(max_rows)

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        self.calls.append((txid, prev_metadata, curr_metadata))
        if self.fails.get(txid, 0) > 0:
            self.fails[txid] -= 1
            raise ValueError(f"no definition of {txid}")
        return curr_metadata or [txid, self.tag]

    def is_ready(self, txid: int) -> bool:
        return txid <= self.upto

    def has_pending_input(self) -> bool:
        return self.pending > self.upto


def attempt(text: str) -> TransactionAttempt:
    if text.startswith("trial-"):
        return TransactionAttempt(TRIAL_TXID, int(text.removeprefix("trial-")))
    txid, attempt_id = text.split(":")
    return TransactionAttempt(int(txid), int(attempt_id))


@define
class World:
    """One driver over an in-memory store and this scripted data plane."""

    coordination: InMemoryCoordination = field(factory=InMemoryCoordination)
    spouts: dict[str, Numbers] = field(factory=lambda: {"lines": Numbers()})
    committers: int = 1
    said: list[str] = field(factory=list)
    working: list[tuple[TransactionAttempt, StreamId]] = field(factory=list)
    metadata: dict[str, Any] = field(factory=dict)
    now: float = 0.0
    wall: float = 0.0
    window_at: int | None = None
    windows_asked: int = 0
    numbers: dict[int, int | None] = field(factory=dict)
    batches: dict[str, Batch] = field(factory=dict)
    successes: list[tuple[int, int | None]] = field(factory=list)
    times: dict[str, int] = field(factory=dict)
    exact: bool = True
    inbox: list[Message] = field(factory=list)
    reports: list[Message] = field(factory=list)
    edges: dict[tuple[str, StreamId], list[int]] = field(factory=dict)
    groups: list[list[str]] = field(factory=list)
    driver: CoordinatorDriver = field(init=False)

    def start(self, publisher: Publisher | None = None, **settings: Any) -> World:
        store = self.coordination.acquire()
        defaults: dict[str, Any] = {"max_spout_pending": 1, "message_timeout": 30.0}
        numbers = count(1)
        self.driver = CoordinatorDriver.leading(
            topology="test",
            store=store,
            record=recover(store, []),
            streams=self,
            spouts=tuple(self.spouts),
            exact=frozenset(self.spouts if self.exact else ()),
            clock=LeaderClock(round(self.wall * 1000), self.now),
            draw_edge=lambda: next(numbers),
            settings=LeadershipSettings(**{**defaults, **settings}),
            publisher=publisher,
            wished=lambda _: self.inbox.append(WishesChanged()),
        )
        self.inbox.clear()
        self.driver.start(self.now, self.wall)
        return self

    # --- BatchStreams -------------------------------------------------------------------------------------------------

    def consumers(self, stream: StreamId) -> int:
        return len(self.spouts) if stream is StreamId.BATCH else self.committers

    def ask(self, spout: str, ask: Ask) -> None:
        for answer in self.answers(spout, ask):
            self.inbox.append(answer)

    def answers(self, spout: str, ask: Ask) -> Iterator[Defined | NotReady | DefinitionFailed]:
        return TridentSpoutCoordinator("test", spout, self.spouts[spout], self.exact).answers(ask)

    def emit_batch(self, batch: Batch) -> None:
        attempt = batch.attempt
        kind = "STORE" if batch.stores else "BATCH" if batch.parks is None else "EMPTY"
        kind = "SIEVE" if batch.sieves else kind
        self.said.append(f"{kind} {attempt}")
        self.batches[str(attempt)] = batch
        self.numbers[attempt.txid] = batch.number
        self.times[str(attempt)] = batch.time
        self.metadata[str(attempt)] = dict(batch.metadata)
        self.edges[str(attempt), StreamId.BATCH] = list(batch.edges)

    def ask_outputs(self, attempt: TransactionAttempt, *, may_have_begun: bool) -> None:
        self.said.append(f"ASK {attempt}{'' if may_have_begun else ', never begun'}")

    def read_letters(self, wish: Wish) -> None:
        self.said.append(f"LETTERS {wish.id}")

    def try_commit(self, attempt: TransactionAttempt) -> None:
        self.said.append(f"TRY {attempt}")

    def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        for attempt, edges in group.items():
            self.said.append(f"COMMIT {attempt}")
            self.edges[str(attempt), StreamId.COMMIT] = list(edges)
        self.groups.append([str(attempt) for attempt in group])

    def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
        self.said.append(f"SUCCESS {attempt}")
        self.successes.append((attempt.txid, number))

    def cancel(self, attempt: TransactionAttempt) -> None:
        self.said.append(f"CANCEL {attempt}")

    def take(self) -> Sequence[Message]:
        reports, self.reports = self.reports, []
        return reports

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        return self.working

    def next_window_at(self) -> int | None:
        self.windows_asked += 1
        return self.window_at

    # --- what tests do ------------------------------------------------------------------------------------------------

    def turn(self, *messages: Message) -> list[str]:
        """One turn with these messages; returns what was said in it."""
        before = len(self.said)
        self.driver.turn([*messages, *self._taken()], self.now, self.wall)
        return self.said[before:]

    def run_until_quiet(self, *messages: Message) -> list[str]:
        """Take turns until nothing more happens at this moment."""
        said = self.turn(*messages)
        while self.inbox or self.driver.next_turn_at(self.now) <= self.now:
            said += self.turn()
        return said

    def after(self, seconds: float) -> list[str]:
        """Let time pass."""
        self.now += seconds
        self.wall += seconds
        return self.run_until_quiet()

    def ack(self, text: str, stream: StreamId) -> list[str]:
        """Every consumer of ``stream`` reports its edge."""
        return self.run_until_quiet(*[Acked(attempt(text), stream, edge) for edge in self.edges[text, stream]])

    def processed(self, text: str) -> list[str]:
        return self.ack(text, StreamId.BATCH)

    def committed(self, text: str) -> list[str]:
        return self.ack(text, StreamId.COMMIT)

    def delivered(self, txid: int) -> list[str]:
        return self.run_until_quiet(SuccessDelivered(txid))

    def _taken(self) -> list[Message]:
        messages, self.inbox = self.inbox, []
        return messages
