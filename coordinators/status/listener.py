"""`TridentListener`: hears what becomes of a topology and of each of its transactions, as it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar, TypeAlias

from attrs import field, frozen

from coordinators.status.status import Wait
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json


@frozen(kw_only=True)
class TopologyEvent:
    """Something that has happened; which of the seven classes it is says what.

    Attributes:
        topology: the name of the topology.
        at: when, in seconds since 1970, by the clock of this machine.
        attempt: the attempt that it happened to; None where it is about the topology.
        counts: what user functions have counted, by name; empty where it is about the topology.
    """

    method: ClassVar[str]
    """The method of `TridentListener` that is given it."""

    topology: str
    at: float
    attempt: TransactionAttempt | None = None
    counts: Mapping[str, int] = field(factory=dict)


@frozen(kw_only=True)
class LeadingEvent(TopologyEvent):
    """This process leads the topology from now on.

    Attributes:
        epoch: of this leadership; each has a higher one than those before it.
        current_txid: the transaction that it goes on with; all before it are committed.
        uuid: of the topology; drawn at its first start, so another one of its name has another.
        incarnation: from 1 on; `trident reset` begins the next one, whose txids begin at 1 again.
    """

    method: ClassVar[str] = "on_leading"

    epoch: int
    current_txid: int
    uuid: str = ""
    incarnation: int = 1


@frozen(kw_only=True)
class TransactionEvent(TopologyEvent):
    """Something has happened to an attempt of a transaction.

    Attributes:
        attempt: which one.
        counts: what user functions have counted in it so far.
        rows: how many rows it has read so far, as far as anybody has counted: not those of emitted DataFrames.
        written: how many rows its commit adds to or changes in each state and sink that can tell, by name; of an
            aggregation, these are keys.
        processing: seconds from its emission until it was processed; 0.0 before that.
        committing: seconds from then until it was committed, its wait for those before it included; 0.0 before that.
        waiting: how many of these it has waited for those before it; 0.0 before its commit began.
        number: by which spouts know the transaction; None: it is empty, or nothing is known of it.
        definition: what it consists of, by spout, as far as it was known: what a spout finds out by emitting is there
            once the attempt is processed.
    """

    attempt: TransactionAttempt
    rows: int = 0
    written: Mapping[str, int] = field(factory=dict)
    processing: float = 0.0
    committing: float = 0.0
    waiting: float = 0.0
    number: int | None = None
    definition: Mapping[str, Json] = field(factory=dict)


@frozen(kw_only=True)
class EmittedEvent(TransactionEvent):
    """An attempt was announced, and its spouts emit it.

    Attributes:
        lag: by spout and part of its source, how many records wait there that no batch has yet, as far as is known.
    """

    method: ClassVar[str] = "on_emitted"

    lag: Mapping[str, Mapping[str, int]] = field(factory=dict)


@frozen(kw_only=True)
class ProcessedEvent(TransactionEvent):
    """All of an attempt was processed; its commit comes when those before it are committed."""

    method: ClassVar[str] = "on_processed"


@frozen(kw_only=True)
class CommittedEvent(TransactionEvent):
    """A transaction is committed in every state and sink, and that is durable."""

    method: ClassVar[str] = "on_committed"


@frozen(kw_only=True)
class SucceededEvent(TransactionEvent):
    """Each spout was told that a transaction is committed.

    Of a transaction that an earlier leader has committed, nothing is known but the attempt.
    """

    method: ClassVar[str] = "on_succeeded"


@frozen(kw_only=True)
class FailedEvent(TransactionEvent):
    """An attempt is given up; the transaction is tried again, unless the topology ends.

    Attributes:
        error: what was raised.
        failed: the attempt that has failed by it: this one, or an earlier one with which this one is given up.
    """

    method: ClassVar[str] = "on_failed"

    error: BaseException
    failed: TransactionAttempt


class Work(Enum):
    """What threads do for transactions.

    Attributes:
        EMIT: a spout emits its part of a batch.
        JOB: a job, of Spark or on rows, prepares what an output commits.
        COMMIT: outputs that commit in one step do so; or a committer spout does.
    """

    EMIT = "emit"
    JOB = "job"
    COMMIT = "commit"


@frozen(kw_only=True)
class WorkEvent(TopologyEvent):
    """A thread has ended a piece of work for one or more attempts.

    Attributes:
        attempt: None, as there may be several.
        work: what kind of.
        parts: the spout, or the states and sinks, that it was done for or by, by name.
        attempts: what it was done for, lowest first: those that shared a job, or were committed in one step.
        seconds: how long it took, behind whatever it had to wait for before it began.
        has_failed: whether it raised, or was cancelled.
    """

    method: ClassVar[str] = "on_work"

    work: Work
    parts: tuple[str, ...]
    attempts: tuple[TransactionAttempt, ...]
    seconds: float
    has_failed: bool = False


@frozen(kw_only=True)
class StandstillEvent(TopologyEvent):
    """No transaction has got on for some seconds, or what is waited for is no longer the same.

    Attributes:
        waits_for: what is waited for; empty: the standstill is over.
    """

    method: ClassVar[str] = "on_standstill"

    waits_for: tuple[Wait, ...] = ()


@frozen(kw_only=True)
class EndedEvent(TopologyEvent):
    """The topology has ended in this process, and leads no more.

    Attributes:
        error: what ended it; None: it was asked to stop.
    """

    method: ClassVar[str] = "on_ended"

    error: BaseException | None = None


class TridentListener:
    """Hears what happens; give instances to ``TridentTopology.start(listeners=[…])``. Override what you need.

    All calls come on one thread, which belongs to this listener and this start; nothing waits for it. What it raises is
    logged and changes nothing.
    """

    def on_event(self, event: TopologyEvent) -> None:
        """Hear anything: calls the method that is for such an event. Override it to hear all in one place."""
        getattr(self, event.method)(event)

    def on_leading(self, event: LeadingEvent) -> None:
        """Hear that this process leads: comes once at most, and later than the start where another one still leads."""

    def on_emitted(self, event: EmittedEvent) -> None:
        """Hear that an attempt is emitted: comes once for each attempt, so again for each replay of a transaction."""

    def on_processed(self, event: ProcessedEvent) -> None:
        """Hear that an attempt is processed: comes once at most for each attempt."""

    def on_committed(self, event: CommittedEvent) -> None:
        """Hear that a transaction is committed.

        Comes once for each that this process commits, in the order of txids.
        """

    def on_succeeded(self, event: SucceededEvent) -> None:
        """Hear that the success of a transaction is delivered.

        Comes once in a process, and may come again after a crash.
        """

    def on_failed(self, event: FailedEvent) -> None:
        """Hear that an attempt is given up: comes once at most for each attempt, and never after its `on_committed`."""

    def on_work(self, event: WorkEvent) -> None:
        """Hear that a thread has ended a piece of work.

        Comes for each emission, job and commit of an output; that of a commit before the `on_committed` of its
        transactions.
        """

    def on_standstill(self, event: StandstillEvent) -> None:
        """Hear that no transaction gets on, and what is waited for.

        Comes when none has for five seconds, also where there is no input; again when something else is waited for; and
        with nothing when it is over.
        """

    def on_ended(self, event: EndedEvent) -> None:
        """Hear that the topology has ended here: comes once, last."""


Tell: TypeAlias = Callable[[TopologyEvent], None]
"""Is told of each event; must be quick, and must not raise."""


def tell_nobody(_: TopologyEvent) -> None:
    """Tell nobody."""
