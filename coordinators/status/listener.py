"""`TridentListener`: receives the events of a topology and of each of its transactions, as they happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar, TypeAlias

from attrs import field, frozen

from coordinators.record.parking import Parked
from coordinators.status.status import Wait
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json


@frozen
class Counts:
    """Numbers of rows and user counts, as far as they were counted.

    Attributes:
        rows: that were read.
        by_name: the counts by user functions, by name.
        written: rows that a commit adds or changes, by state or sink.
    """

    rows: int = 0
    by_name: Mapping[str, int] = field(factory=dict)
    written: Mapping[str, int] = field(factory=dict)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.rows + other.rows, _sum(self.by_name, other.by_name), _sum(self.written, other.written))


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    if not other:
        return one
    return {**one, **{name: one.get(name, 0) + count for name, count in other.items()}}


CountsOf: TypeAlias = Callable[[TransactionAttempt], Counts]
"""Returns the counts of a live attempt so far."""


def no_counts(_: TransactionAttempt) -> Counts:
    """Return empty counts."""
    return Counts()


@frozen(kw_only=True)
class TopologyEvent:
    """An event; its class says what has happened.

    Attributes:
        topology: the name of the topology.
        at: when, in seconds since 1970, by the clock of this machine.
        attempt: the attempt that it is about; None if it is about the topology.
        counts: the counts by user functions, by name; empty if it is about the topology.
    """

    method: ClassVar[str]
    """The method of `TridentListener` that receives it."""

    topology: str
    at: float
    attempt: TransactionAttempt | None = None
    counts: Mapping[str, int] = field(factory=dict)


@frozen(kw_only=True)
class LeadingEvent(TopologyEvent):
    """This process leads the topology from now on.

    Attributes:
        epoch: of this leadership; each has a higher one than those before it.
        current_txid: the transaction with which it continues; all transactions before it are committed.
        uuid: of the topology; drawn at its first start, so another topology with its name has another uuid.
        incarnation: from 1 on; `trident reset` begins the next one, whose txids begin at 1 again.
    """

    method: ClassVar[str] = "on_leading"

    epoch: int
    current_txid: int
    uuid: str = ""
    incarnation: int = 1


@frozen(kw_only=True)
class TransactionEvent(TopologyEvent):
    """An event of an attempt of a transaction.

    Attributes:
        attempt: that it is about.
        counts: the counts by user functions in it so far.
        rows: how many rows it has read so far, as far as they were counted; rows of emitted DataFrames are not.
        written: how many rows its commit adds to or changes in each state and sink that reports it, by name. For an
            aggregation, this is the number of keys.
        processing: seconds from its emission until it was processed; 0.0 before that.
        committing: seconds from then until it was committed, including the wait for earlier transactions; 0.0 before
            that.
        waiting: the part of ``committing`` that it has waited for earlier transactions; 0.0 before its commit began.
        number: of the transaction, for spouts; None: it is empty, or unknown.
        definition: its metadata by spout, as far as known. Metadata that a spout finds out by emitting is there once
            the attempt is processed.
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
        lag: by spout and part of its source, how many records wait there that no batch contains yet, as far as known.
    """

    method: ClassVar[str] = "on_emitted"

    lag: Mapping[str, Mapping[str, int]] = field(factory=dict)


@frozen(kw_only=True)
class ProcessedEvent(TransactionEvent):
    """An attempt was processed completely; it commits after the transactions before it."""

    method: ClassVar[str] = "on_processed"


@frozen(kw_only=True)
class CommittedEvent(TransactionEvent):
    """A transaction is durably committed in every state and sink.

    Attributes:
        is_parked: whether it is parked: every state and sink has left its rows out.
    """

    method: ClassVar[str] = "on_committed"

    is_parked: bool = False


@frozen(kw_only=True)
class SucceededEvent(TransactionEvent):
    """Each spout has received the success of a transaction.

    If an earlier leader has committed the transaction, only the attempt is known.
    """

    method: ClassVar[str] = "on_succeeded"


@frozen(kw_only=True)
class FailedEvent(TransactionEvent):
    """An attempt was aborted; the transaction is tried again, unless the topology ends.

    Attributes:
        error: the exception.
        failed: the attempt that has failed: this one, or an earlier one whose failure aborts this one too.
    """

    method: ClassVar[str] = "on_failed"

    error: BaseException
    failed: TransactionAttempt


@frozen(kw_only=True)
class ParkedEvent(TopologyEvent):
    """The list of parked transactions has changed, or a leadership has begun with such a list.

    Attributes:
        parked: the transactions on the list, lowest first.
    """

    method: ClassVar[str] = "on_parked"

    parked: tuple[Parked, ...]


@frozen(kw_only=True)
class WishedEvent(TopologyEvent):
    """An operator's command was carried out or refused, or the policy has parked a transaction.

    Attributes:
        wish: the id of the command; empty: the process itself wanted it.
        action: the command.
        txids: the transactions that it is about; none: as the command says.
        by, reason: who wanted it, and why; empty: unknown.
        refused: why nothing was changed; empty: it was carried out.
        found: as in `Outcome`.
    """

    method: ClassVar[str] = "on_wished"

    wish: str
    action: str
    txids: tuple[int, ...] = ()
    by: str = ""
    reason: str = ""
    refused: str = ""
    found: Mapping[str, tuple[int, ...]] = field(factory=dict)


class Work(Enum):
    """The kinds of work of threads for transactions.

    Attributes:
        EMIT: a spout emits its part of a batch.
        JOB: a job, of Spark or on rows, prepares the commit of an output.
        COMMIT: outputs that commit in one step do so; or a committer spout does.
    """

    EMIT = "emit"
    JOB = "job"
    COMMIT = "commit"


@frozen(kw_only=True)
class WorkEvent(TopologyEvent):
    """A thread has finished a piece of work for one or more attempts.

    Attributes:
        attempt: None, because there may be several.
        work: its kind.
        parts: the names of the spout, or the states and sinks, that it was done for or by.
        attempts: that it was done for, lowest first: those that shared a job, or were committed in one step.
        seconds: how long it took, without the wait before it began.
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
    """No transaction has made progress for some seconds, or the reasons for that have changed.

    Attributes:
        waits_for: the things that are waited for; empty: the standstill is over.
    """

    method: ClassVar[str] = "on_standstill"

    waits_for: tuple[Wait, ...] = ()


@frozen(kw_only=True)
class ResidentTasksEvent(TopologyEvent):
    """The numbers of resident tasks have changed.

    Attributes:
        numbers: those of `TopologyStatus.resident_tasks`; the requests are counted from the start in this process.
    """

    method: ClassVar[str] = "on_resident_tasks"

    numbers: Mapping[str, int]


@frozen(kw_only=True)
class EndedEvent(TopologyEvent):
    """The topology has ended in this process, and leads no more.

    Attributes:
        error: the error that ended it; None: it was asked to stop.
    """

    method: ClassVar[str] = "on_ended"

    error: BaseException | None = None


class TridentListener:
    """Receives events; pass instances to ``TridentTopology.start(listeners=[…])``. Override the methods that you need.

    All calls are made on one thread, which belongs to this listener and this start; no other component waits for it. An
    exception that a method raises is logged and has no other effect.
    """

    def on_event(self, event: TopologyEvent) -> None:
        """Handle an event: calls the method for its class. Override it to handle all events in one place."""
        getattr(self, event.method)(event)

    def on_leading(self, event: LeadingEvent) -> None:
        """Handle the begin of this leadership.

        Called at most once; after the start, if another process still leads.
        """

    def on_emitted(self, event: EmittedEvent) -> None:
        """Handle the emission of an attempt: called once per attempt, so again for each replay of a transaction."""

    def on_processed(self, event: ProcessedEvent) -> None:
        """Handle that an attempt was processed: called at most once per attempt."""

    def on_committed(self, event: CommittedEvent) -> None:
        """Handle that a transaction is committed.

        Called once for each transaction that this process commits, in the order of txids.
        """

    def on_succeeded(self, event: SucceededEvent) -> None:
        """Handle that the success of a transaction is delivered.

        Called once in a process; may be called again after a crash.
        """

    def on_failed(self, event: FailedEvent) -> None:
        """Handle that an attempt was aborted: called at most once per attempt, and never after its `on_committed`."""

    def on_work(self, event: WorkEvent) -> None:
        """Handle that a thread has finished a piece of work.

        Called for each emission, job and commit of an output; for a commit, before the `on_committed` of its
        transactions.
        """

    def on_standstill(self, event: StandstillEvent) -> None:
        """Handle that no transaction makes progress, or that this is over.

        Called when none has made progress for five seconds, also if there is no input. Called again when the reasons
        change, and without reasons when it is over.
        """

    def on_resident_tasks(self, event: ResidentTasksEvent) -> None:
        """Handle that the numbers of resident tasks have changed: called at most about once a second."""

    def on_parked(self, event: ParkedEvent) -> None:
        """Handle that the list of parked transactions has changed, or that a leadership begins with such a list."""

    def on_wished(self, event: WishedEvent) -> None:
        """Handle that a command was carried out or refused."""

    def on_ended(self, event: EndedEvent) -> None:
        """Handle the end of the topology in this process: called once, as the last event."""


Tell: TypeAlias = Callable[[TopologyEvent], None]
"""Called with each event; must be quick, and must not raise."""


def tell_nobody(_: TopologyEvent) -> None:
    """Ignore the event."""
