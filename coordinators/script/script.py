"""Protocol traces as text: a script of steps drives the real coordinator, and the emissions are the trace.

``trident script`` uses the real `CoordinatorDriver` and takeover on an in-memory store, with the script as the data
plane. Its one spout defines the transactions that the script makes ready. Every stream has one consumer, unless the
script removes it; an emission without consumers is acked at once. There are no threads, no clock and no rows.

A step is its own event and the reactions to it, followed by one tick in which new batches may start, and its
reactions. The driver ticks in every turn. So the spout returns its definitions in only one turn of each step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from attrs import define, field, frozen

from coordinators.batches.spout_coordinator import Ask
from coordinators.driver.batch_streams import Batch
from coordinators.driver.driver import CoordinatorDriver
from coordinators.protocol.messages import (
    Acked,
    Defined,
    Failed,
    FailureKind,
    Message,
    NotReady,
    OutputsAnswered,
    PauseRequested,
    ResumeRequested,
    SuccessDelivered,
)
from coordinators.protocol.protocol import StreamId
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import InMemoryCoordination, InMemoryRecordStore
from coordinators.record.wishes import Wish
from coordinators.takeover.takeover import recover
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import TridentError, our_bug
from coordinators.values.settings import LeadershipSettings
from coordinators.values.transaction_time import LeaderClock

SPOUT = "script"


@define
class ScriptOutside:
    """The data that outlive a crash, because they are outside the process: the settings, and the printed successes.

    Attributes:
        max_spout_pending: as in `LeadershipSettings`.
        listening: by stream, whether it has a consumer; by default it has.
        ready: whether the spout has input for transactions that are not in ``ready_of``.
        ready_of: by txid, whether the spout has input.
        printed: the last transaction with a printed success. An owed success that is delivered again is not printed.
    """

    max_spout_pending: int = 1
    listening: dict[StreamId, bool] = field(factory=dict)
    ready: bool = True
    ready_of: dict[int, bool] = field(factory=dict)
    printed: int = 0

    def is_ready(self, txid: int) -> bool:
        """Return true if the spout has input to define ``txid`` with."""
        return self.ready_of.get(txid, self.ready)


@define
class ScriptPlane:
    """The data plane of one process: stores the announcements, and does nothing by itself.

    Attributes:
        said: the lines to print.
        inbox: the results.
        pending: by live attempt, the phase that waits for the script, and its edges.
        asks: the asks without an answer.
    """

    outside: ScriptOutside
    said: list[str] = field(factory=list)
    inbox: list[Message] = field(factory=list)
    pending: dict[TransactionAttempt, tuple[StreamId, Sequence[int]]] = field(factory=dict)
    asks: list[Ask] = field(factory=list)

    def consumers(self, stream: StreamId) -> int:
        """Return 1 if the script consumes ``stream``, else 0."""
        return int(self.outside.listening.get(stream, True))

    def ask(self, spout: str, ask: Ask) -> None:
        """Store the ask; it is answered in the step's tick."""
        self.asks.append(ask)

    def emit_batch(self, batch: Batch) -> None:
        self.said.append(f"BATCH {batch.attempt}")
        self._wait_for(batch.attempt, StreamId.BATCH, batch.edges)

    def ask_outputs(self, attempt: TransactionAttempt, *, may_have_begun: bool) -> None:
        """Answer that all can: a script has no outputs."""
        self.inbox.append(OutputsAnswered(attempt.txid))

    def read_letters(self, wish: Wish) -> None:
        """Raise: a script has no dead letters."""
        raise AssertionError(our_bug(f"{wish} in a script"))

    def try_commit(self, attempt: TransactionAttempt) -> None:
        """Raise: a script parks nothing, so nothing is tried."""
        raise AssertionError(our_bug(f"{attempt} in a script"))

    def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        for attempt, edges in group.items():
            self.said.append(f"COMMIT {attempt}")
            self._wait_for(attempt, StreamId.COMMIT, edges)

    def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
        """Print the success, unless it was printed before."""
        if attempt.txid > self.outside.printed:
            self.said.append(f"SUCCESS {attempt}")
            self.outside.printed = attempt.txid
        self.inbox.append(SuccessDelivered(attempt.txid))

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Forget the pending phase of ``attempt``."""
        self.pending.pop(attempt, None)

    def take(self) -> Sequence[Message]:
        """Return no messages: there are no threads."""
        return ()

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Return no phases: without time, no phase times out."""
        return ()

    def next_window_at(self) -> int | None:
        """Return None: there are no windows."""
        return None

    def ack(self, attempt: TransactionAttempt) -> list[Message]:
        """Return the acks of the pending phase of ``attempt``; none if no phase is pending."""
        stream, edges = self.pending.pop(attempt, (StreamId.BATCH, ()))
        return [Acked(attempt, stream, edge) for edge in edges]

    def define(self, window: range) -> list[Message]:
        """Answer the asks with the transactions in ``window`` that are ready."""
        return [message for ask in self._taken() for message in self._answers(ask, window)]

    def refuse(self) -> list[Message]:
        """Answer the remaining asks with `NotReady`."""
        return [NotReady(SPOUT, ask.number, ask.txid) for ask in self._taken()]

    def taken(self) -> list[Message]:
        """Return the results since the last call."""
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


TURN_SECONDS = 60.0
"""The time between turns: longer than any wait, such as that of a replay."""


class ScriptError(TridentError):
    """A line of a script is not a step; the message begins with its number, from 1 on."""


# --- the steps --------------------------------------------------------------------------------------------------------


@frozen
class Start:
    """Start a process from the stored state; a running process is lost first."""


@frozen
class Next:
    """Take one turn of the loop."""


@frozen
class Ack:
    """Handle the pending phase of ``attempt``."""

    attempt: TransactionAttempt


@frozen
class Fail:
    """Let ``attempt`` fail."""

    attempt: TransactionAttempt


@frozen
class SetReady:
    """Set the result of ``is_ready`` from now on, for one txid; without ``txid``, for every one."""

    txid: int | None
    ready: bool


@frozen
class Pause:
    """Start no new batches and no replays."""


@frozen
class Resume:
    """End a pause."""


@frozen
class SetMax:
    """Set ``max_spout_pending`` from now on. Starts nothing."""

    max_spout_pending: int


@frozen
class SetConsumers:
    """Set whether ``stream`` has a consumer from now on. Starts nothing."""

    stream: StreamId
    listening: bool


@frozen
class Show:
    """Print the stored state of the window. Starts nothing."""


@frozen
class Crash:
    """Lose the process, keep the store. Starts nothing.

    Attributes:
        after_write: lose it right after its next write to the store, before any announcement.
    """

    after_write: bool = False


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
    "crash": ("crash [after write]", r"(after write)?", lambda words: Crash(after_write=words is not None)),
}


def parse(text: str) -> list[Step]:
    """Return the steps of a script: one per line; blank lines and comments after a ``#`` are skipped.

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


class _Lost(Exception):
    """The process ends here."""


@define
class _Store(InMemoryRecordStore):
    """Ends the process after a write, if the script says so."""

    crashes: bool = False

    def write(self, record: CoordinatorRecord) -> None:
        super().write(record)
        if self.crashes:
            raise _Lost


@define
class _Process:
    """The data that a crash loses: one leadership."""

    store: _Store
    plane: ScriptPlane
    driver: CoordinatorDriver

    @classmethod
    def start(cls, coordination: InMemoryCoordination, outside: ScriptOutside, now: float) -> _Process:
        """Take over, and continue from the stored state."""
        store, plane = _Store(coordination, coordination.acquire().epoch), ScriptPlane(outside)
        driver = CoordinatorDriver.leading(
            topology="script",
            store=store,
            record=recover(store, []),
            streams=plane,
            spouts=(SPOUT,),
            exact=frozenset([SPOUT]),
            clock=LeaderClock(0, 0.0),
            draw_edge=lambda: 1,  # ledgers with one edge need no randomness
            settings=LeadershipSettings(max_spout_pending=outside.max_spout_pending, message_timeout=inf),
        )
        driver.start(now, now)
        return cls(store, plane, driver)


@define
class ScriptDriver:
    """Plays steps. The settings and the store outlive a crash, as they would outside the process."""

    coordination: InMemoryCoordination = field(factory=InMemoryCoordination)
    _outside: ScriptOutside = field(factory=ScriptOutside, init=False)
    _process: _Process | None = field(default=None, init=False)
    _now: float = field(default=0.0, init=False)

    def play(self, steps: Iterable[Step]) -> Iterator[str]:
        """Yield one line for each emission or `Show`, as it happens."""
        for step in steps:
            match step:
                case SetMax(max_spout_pending):
                    self._set_max(max_spout_pending)
                case SetConsumers(stream, listening):
                    self._outside.listening[stream] = listening
                case Show():
                    yield self._shown()
                case Crash(after_write):
                    self._crash(after_write=after_write)
                case _:
                    yield from self._take(step)

    def _take(self, step: Step) -> Iterator[str]:
        self._prepare(step)
        if self._process is None:
            return
        process, plane = self._process, self._process.plane
        try:
            yield from self._answer_idle(process, self._messages(plane, step))
            yield from self._turn(process, plane.refuse())
            yield from self._turn(process, [])  # so that every transaction that fits into the window is asked for
            yield from self._answer_idle(process, plane.define(process.driver.machine.window))
        except _Lost:
            self._process = None

    def _prepare(self, step: Step) -> None:
        """Carry out the part of a step outside the process, which works also without a process."""
        match step:
            case Start():
                self._process = _Process.start(self.coordination, self._outside, self._now)
            case SetReady(None, ready):
                self._outside.ready = ready
                self._outside.ready_of.clear()
            case SetReady(int(txid), ready):
                self._outside.ready_of[txid] = ready

    def _messages(self, plane: ScriptPlane, step: Step) -> list[Message]:
        match step:
            case Ack(attempt):
                return plane.ack(attempt)
            case Fail(attempt):
                return [Failed(attempt, TridentError("the script says so"), FailureKind.INTERRUPTED)]
            case Pause():
                return [PauseRequested()]
            case Resume():
                return [ResumeRequested()]
        return []

    def _answer_idle(self, process: _Process, messages: list[Message]) -> Iterator[str]:
        """Take turns until no more messages follow."""
        yield from self._turn(process, messages)
        while process.plane.inbox or process.driver.next_turn_at(self._now) <= self._now:
            yield from self._turn(process, [])

    def _turn(self, process: _Process, messages: list[Message]) -> Iterator[str]:
        self._now += TURN_SECONDS
        process.driver.turn([*process.plane.taken(), *messages], self._now, self._now)
        said, process.plane.said = process.plane.said, []
        yield from said

    def _crash(self, *, after_write: bool) -> None:
        if not after_write:
            self._process = None
        elif self._process is not None:
            self._process.store.crashes = True

    def _set_max(self, max_spout_pending: int) -> None:
        self._outside.max_spout_pending = max_spout_pending
        if self._process is not None:
            self._process.driver.machine.max_spout_pending = max_spout_pending

    def _shown(self) -> str:
        stored = InMemoryRecordStore(self.coordination, self.coordination.epoch).read()
        record = stored or CoordinatorRecord(epoch=self.coordination.epoch)
        window = range(record.current_txid, record.current_txid + self._outside.max_spout_pending)
        attempts = ",".join(f"{txid}:{last}" for txid, last in sorted(record.attempt_ids.items()) if txid in window)
        return f"currtx={record.current_txid} attempts={{{attempts}}}"


def run_script(text: str) -> Iterator[str]:
    """Yield the trace of a script, line by line. The whole script is parsed before it is run.

    Raises:
        ScriptError: a line is not a step.
    """
    return ScriptDriver().play(parse(text))
