"""Protocol traces as text: a script of steps drives the real machine, and what it emits is the trace.

The driver behind ``trident script``: the real `MasterBatchCoordinator`, the real `Acker` and the in-memory store, and
nothing else: no threads, no clock, no spout, no sink. Every stream has one consumer, the script itself, unless it says
that nobody listens; then the acker completes what is emitted there at once.

One step is its own event, what follows from it, one tick in which new batches may start, and what follows from that.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from attrs import define, field, frozen

from coordinators.acker import Acker, Completed, Outcome
from coordinators.attempt import TransactionAttempt
from coordinators.errors import TridentError
from coordinators.master import MasterBatchCoordinator
from coordinators.protocol import (
    AttemptFailed,
    CancelAttempt,
    Command,
    EmitBatch,
    EmitCommit,
    EmitSuccess,
    Event,
    Paused,
    PhaseAcked,
    Resumed,
    StoreRecord,
    StreamId,
    Ticked,
)
from coordinators.record import CoordinatorRecord
from coordinators.store import InMemoryCoordination, InMemoryRecordStore

EDGE = 1
"""One consumer a stream means one edge a ledger, and one edge needs no randomness."""


class ScriptError(TridentError):
    """A line of a script is not a step; the message begins with its number, from 1 on."""


# --- the steps --------------------------------------------------------------------------------------------------------


@frozen
class Start:
    """Start on what is stored; a running machine is lost first."""


@frozen
class Next:
    """One turn of the loop."""


@frozen
class Ack:
    """The pending phase of ``attempt`` was handled."""

    attempt: TransactionAttempt


@frozen
class Fail:
    """``attempt`` failed."""

    attempt: TransactionAttempt


@frozen
class SetReady:
    """What ``is_ready`` says from now on, of one txid, or of every one where ``txid`` is None."""

    txid: int | None
    ready: bool


@frozen
class Pause:
    """No new batches and no replays."""


@frozen
class Resume:
    """The end of a pause."""


@frozen
class SetMax:
    """``max_spout_pending`` from now on. Starts nothing."""

    max_spout_pending: int


@frozen
class SetConsumers:
    """Whether somebody listens to ``stream`` from now on. Starts nothing."""

    stream: StreamId
    listening: bool


@frozen
class Show:
    """Print what is stored about the window. Starts nothing."""


@frozen
class Crash:
    """Lose the process, keep the store. Starts nothing."""


Step = Start | Next | Ack | Fail | SetReady | Pause | Resume | SetMax | SetConsumers | Show | Crash


def _attempt(txid: str, attempt_id: str) -> TransactionAttempt:
    return TransactionAttempt(int(txid), int(attempt_id))


_STEPS: dict[str, tuple[str, str, Callable[..., Step]]] = {
    "start": ("start", r"", Start),
    "next": ("next", r"", Next),
    "ack": ("ack TXID:ATTEMPT", r"(\d{1,18}):(\d{1,18})", lambda *ids: Ack(_attempt(*ids))),
    "fail": ("fail TXID:ATTEMPT", r"(\d{1,18}):(\d{1,18})", lambda *ids: Fail(_attempt(*ids))),
    "ready": (
        "ready [TXID] on|off",
        r"(?:(\d{1,18}) )?(on|off)",
        lambda txid, word: SetReady(txid and int(txid), word == "on"),
    ),
    "pause": ("pause", r"", Pause),
    "resume": ("resume", r"", Resume),
    "max": ("max N, at least 1", r"(0*[1-9]\d{0,17})", lambda number: SetMax(int(number))),
    "consumers": (
        "consumers batch|commit on|off",
        r"(batch|commit) (on|off)",
        lambda stream, word: SetConsumers(StreamId[stream.upper()], word == "on"),
    ),
    "show": ("show", r"", Show),
    "crash": ("crash", r"", Crash),
}


def parse(text: str) -> list[Step]:
    """The steps of a script: one a line; blank lines and what follows a ``#`` are skipped.

    Raises:
        ScriptError: a line is not a step.
    """
    steps = []
    for number, line in enumerate(text.split("\n"), start=1):
        word, *arguments = line.partition("#")[0].split() or [""]
        if not word:
            continue
        if word not in _STEPS:
            raise ScriptError(f"line {number}: unknown step {word!r}")
        form, pattern, build = _STEPS[word]
        match = re.fullmatch(pattern, " ".join(arguments), re.ASCII)
        if match is None:
            raise ScriptError(f"line {number}: malformed step {' '.join([word, *arguments])!r}, expected {form!r}")
        steps.append(build(*match.groups()))
    return steps


# --- the driver -------------------------------------------------------------------------------------------------------


def _stored(store: InMemoryRecordStore) -> CoordinatorRecord:
    return store.read() or CoordinatorRecord(epoch=store.epoch)


@define
class _Process:
    """What a crash loses: the machine, its ledgers, and the events that wait."""

    store: InMemoryRecordStore
    machine: MasterBatchCoordinator
    seq: int
    acker: Acker = field(factory=Acker)
    events: deque[Event] = field(factory=deque)

    @classmethod
    def on(cls, store: InMemoryRecordStore, max_spout_pending: int) -> _Process:
        """A machine that goes on from what is stored."""
        record = _stored(store)
        machine = MasterBatchCoordinator(
            max_spout_pending=max_spout_pending,
            current_txid=record.current_txid,
            attempt_ids=dict(record.attempt_ids),
        )
        return cls(store, machine, seq=record.seq)

    def ack(self, attempt: TransactionAttempt) -> None:
        """The script handled ``attempt`` in the phase that is pending; without one, nothing happens."""
        for stream in (StreamId.BATCH, StreamId.COMMIT):
            root = self._root(attempt, stream)
            if self.acker.is_pending(root):
                self._heard(attempt, stream, self.acker.ack(root, EDGE))

    def emit(self, attempt: TransactionAttempt, stream: StreamId, *, listening: bool) -> None:
        """Open the ledger of an emission."""
        edges = [EDGE] if listening else []
        self._heard(attempt, stream, self.acker.init(self._root(attempt, stream), edges))

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Nobody will hear of ``attempt`` again."""
        for stream in (StreamId.BATCH, StreamId.COMMIT):
            self.acker.forget(self._root(attempt, stream))

    def write(self, wish: StoreRecord) -> None:
        """Make ``wish`` durable. No crash comes between a write and what it announces, so no success is ever owed."""
        self.seq += 1
        self.store.write(
            CoordinatorRecord(
                epoch=self.store.epoch,
                seq=self.seq,
                current_txid=wish.current_txid,
                attempt_ids=wish.attempt_ids,
                success_upto=wish.current_txid - 1,
            )
        )

    def _root(self, attempt: TransactionAttempt, stream: StreamId) -> tuple[int, TransactionAttempt, StreamId]:
        return self.store.epoch, attempt, stream

    def _heard(self, attempt: TransactionAttempt, stream: StreamId, outcome: Outcome | None) -> None:
        if isinstance(outcome, Completed):
            self.events.append(PhaseAcked(attempt, stream))


@define
class ScriptDriver:
    """Plays steps. The settings and the store outlive a crash, as they would outside the process."""

    coordination: InMemoryCoordination = field(factory=InMemoryCoordination)
    _max_spout_pending: int = 1
    _listening: dict[StreamId, bool] = field(factory=dict, init=False)
    _ready: bool = field(default=True, init=False)
    _ready_of: dict[int, bool] = field(factory=dict, init=False)
    _process: _Process | None = field(default=None, init=False)

    def play(self, steps: Iterable[Step]) -> Iterator[str]:
        """One line for each thing that is emitted or shown, as it happens."""
        for step in steps:
            match step:
                case SetMax(max_spout_pending):
                    self._set_max(max_spout_pending)
                case SetConsumers(stream, listening):
                    self._listening[stream] = listening
                case Show():
                    yield self._shown()
                case Crash():
                    self._process = None
                case _:
                    yield from self._take(step)

    def _take(self, step: Step) -> Iterator[str]:
        self._prepare(step)
        if self._process is None:
            return
        process = self._process
        match step:
            case Ack(attempt):
                process.ack(attempt)
            case Fail(attempt):
                process.events.append(AttemptFailed(attempt))
            case Pause():
                process.events.append(Paused())
            case Resume():
                process.events.append(Resumed())
        yield from self._settle(process)
        process.events.append(Ticked(frozenset(txid for txid in process.machine.window if self._is_ready(txid))))
        yield from self._settle(process)

    def _prepare(self, step: Step) -> None:
        """What a step does outside the process, so also while there is none."""
        match step:
            case Start():
                self._process = _Process.on(self.coordination.acquire(), self._max_spout_pending)
            case SetReady(None, ready):
                self._ready = ready
                self._ready_of.clear()
            case SetReady(int(txid), ready):
                self._ready_of[txid] = ready

    def _settle(self, process: _Process) -> Iterator[str]:
        """Take events until none waits; the commands of one are carried out before the next is taken."""
        while process.events:
            for command in process.machine.handle(process.events.popleft()):
                yield from self._carry_out(process, command)

    def _carry_out(self, process: _Process, command: Command) -> Iterator[str]:
        match command:
            case StoreRecord():
                process.write(command)
            case CancelAttempt(attempt):
                process.cancel(attempt)
            case EmitBatch(attempt):
                yield f"BATCH {attempt}"
                process.emit(attempt, StreamId.BATCH, listening=self._listening.get(StreamId.BATCH, True))
            case EmitCommit(attempt):
                yield f"COMMIT {attempt}"
                process.emit(attempt, StreamId.COMMIT, listening=self._listening.get(StreamId.COMMIT, True))
            case EmitSuccess(attempt):
                yield f"SUCCESS {attempt}"

    def _set_max(self, max_spout_pending: int) -> None:
        self._max_spout_pending = max_spout_pending
        if self._process is not None:
            self._process.machine.max_spout_pending = max_spout_pending

    def _is_ready(self, txid: int) -> bool:
        return self._ready_of.get(txid, self._ready)

    def _shown(self) -> str:
        record = _stored(InMemoryRecordStore(self.coordination, self.coordination.epoch))
        window = range(record.current_txid, record.current_txid + self._max_spout_pending)
        attempts = ",".join(f"{txid}:{last}" for txid, last in sorted(record.attempt_ids.items()) if txid in window)
        return f"currtx={record.current_txid} attempts={{{attempts}}}"


def run_script(text: str) -> Iterator[str]:
    """The trace of a script, line by line. All of it is parsed before anything is run.

    Raises:
        ScriptError: a line is not a step.
    """
    return ScriptDriver().play(parse(text))
