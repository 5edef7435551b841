"""The metrics of a topology: its instruments, and the measurements of each event. Pure.

Names follow OpenTelemetry: dots, a separate unit, no plural totals. No measurement has a transaction's number as an
attribute, because each number would be a separate series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from attrs import define, field, frozen

from coordinators.status.listener import (
    CommittedEvent,
    EmittedEvent,
    EndedEvent,
    FailedEvent,
    LeadingEvent,
    ParkedEvent,
    ResidentTasksEvent,
    StandstillEvent,
    TopologyEvent,
    Work,
    WorkEvent,
)


class Kind(Enum):
    """How measurements of an instrument are aggregated: their sum, the last one, or a histogram."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


@frozen(kw_only=True)
class Instrument:
    """An instrument: one quantity that is measured.

    Attributes:
        name: its OpenTelemetry name.
        kind: how measurements are aggregated.
        unit: in UCUM, as OpenTelemetry requires: ``s``, or the counted things in braces.
        description: one sentence.
        attributes: the names of the attributes that distinguish its series, in addition to the topology.
        bounds: the bounds of a histogram's buckets.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


TOPOLOGY = "trident.topology.name"
SPOUT, PART, STATE = "trident.spout.name", "trident.source.part", "trident.state.name"
PHASE, OUTCOME, COUNTER = "trident.phase", "trident.outcome", "trident.counter.name"

LEADER = Instrument(
    name="trident.leader",
    kind=Kind.GAUGE,
    unit="{leader}",
    description="1 while this process leads the topology, else 0.",
)
STANDSTILL = Instrument(
    name="trident.standstill",
    kind=Kind.GAUGE,
    unit="{standstill}",
    description="1 while no transaction has made progress for some seconds, including for lack of input, else 0.",
)
TRANSACTIONS = Instrument(
    name="trident.transactions",
    kind=Kind.COUNTER,
    unit="{transaction}",
    description="Attempts that have ended: committed, parked, failed, or replayed because an earlier one failed.",
    attributes=(OUTCOME,),
)
ACTIVE = Instrument(
    name="trident.transactions.active",
    kind=Kind.GAUGE,
    unit="{transaction}",
    description="Transactions that are emitted and not yet committed.",
)
PARKED = Instrument(
    name="trident.transactions.parked",
    kind=Kind.GAUGE,
    unit="{transaction}",
    description="Transactions that are left out until they are released.",
)
PARKED_SINCE = Instrument(
    name="trident.transactions.parked.since",
    kind=Kind.GAUGE,
    unit="s",
    description="When the first parked transaction was parked, since 1970; 0: none is parked.",
)
TXID_COMMITTED = Instrument(
    name="trident.txid.committed",
    kind=Kind.GAUGE,
    unit="{transaction}",
    description="The last committed transaction.",
)
DURATION = Instrument(
    name="trident.transaction.duration",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="Duration of committed transactions by phase: process, from emission; wait, for earlier ones; commit.",
    attributes=(PHASE,),
    bounds=SECONDS,
)
ROWS = Instrument(
    name="trident.rows",
    kind=Kind.COUNTER,
    unit="{row}",
    description="Rows that committed transactions have read, if they are counted.",
)
WRITTEN = Instrument(
    name="trident.rows.written",
    kind=Kind.COUNTER,
    unit="{row}",
    description="Rows that commits have added or changed, for states and sinks that report them.",
    attributes=(STATE,),
)
COUNTS = Instrument(
    name="trident.counted",
    kind=Kind.COUNTER,
    unit="{count}",
    description="Counts of user functions in committed transactions; negative counts are left out.",
    attributes=(COUNTER,),
)
LAG = Instrument(
    name="trident.source.lag",
    kind=Kind.GAUGE,
    unit="{record}",
    description="Records that wait in a source and are in no batch yet, as last seen by its spout.",
    attributes=(SPOUT, PART),
)
EMIT_DURATION = Instrument(
    name="trident.emit.duration",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="Duration of emissions by a spout, including failed ones.",
    attributes=(SPOUT,),
    bounds=SECONDS,
)
JOB_DURATION = Instrument(
    name="trident.job.duration",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="Duration of jobs that prepare the commit of a state or sink, including failed ones.",
    attributes=(STATE,),
    bounds=SECONDS,
)
JOB_TRANSACTIONS = Instrument(
    name="trident.job.transactions",
    kind=Kind.HISTOGRAM,
    unit="{transaction}",
    description="Number of transactions that shared a job.",
    attributes=(STATE,),
    bounds=SIZES,
)
COMMIT_DURATION = Instrument(
    name="trident.state.commit.duration",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="Duration of commits by a state or sink, or by several in one step, including failed ones.",
    attributes=(STATE,),
    bounds=SECONDS,
)
COMMIT_TRANSACTIONS = Instrument(
    name="trident.state.commit.transactions",
    kind=Kind.HISTOGRAM,
    unit="{transaction}",
    description="Number of transactions committed in one step.",
    attributes=(STATE,),
    bounds=SIZES,
)
RESIDENT_TASKS = Instrument(
    name="trident.resident.tasks",
    kind=Kind.GAUGE,
    unit="{task}",
    description="Spark tasks that stay for small batches, and are there.",
)
RESIDENT_REQUESTS = Instrument(
    name="trident.resident.requests",
    kind=Kind.COUNTER,
    unit="{request}",
    description="Requests to resident tasks: answered, given back to a job, or dropped because the answer was late.",
    attributes=(OUTCOME,),
)

INSTRUMENTS = (
    LEADER,
    STANDSTILL,
    TRANSACTIONS,
    ACTIVE,
    PARKED,
    PARKED_SINCE,
    TXID_COMMITTED,
    DURATION,
    ROWS,
    WRITTEN,
    COUNTS,
    LAG,
    EMIT_DURATION,
    JOB_DURATION,
    JOB_TRANSACTIONS,
    COMMIT_DURATION,
    COMMIT_TRANSACTIONS,
    RESIDENT_TASKS,
    RESIDENT_REQUESTS,
)


@frozen
class Measurement:
    """One value of an instrument; its attributes are in the order of the instrument's."""

    instrument: Instrument
    value: float
    attributes: tuple[str, ...] = ()


@define
class Measured:
    """The measurements of the events of one start of a topology."""

    _active: set[int] = field(factory=set, init=False)
    _residents: Mapping[str, int] = field(factory=dict, init=False)  # the numbers of the last event

    def begin(self) -> Iterator[Measurement]:
        """Return the measurements before the first event: this process doesn't lead, and nothing runs."""
        return (Measurement(each, 0) for each in (LEADER, STANDSTILL, ACTIVE))

    def take(self, event: TopologyEvent) -> Iterator[Measurement]:
        """Yield the measurements of an event."""
        match event:
            case EmittedEvent():
                yield from self._emitted(event)
            case CommittedEvent():
                yield from self._committed(event)
            case FailedEvent():
                self._active.discard(event.attempt.txid)
                outcome = "failed" if event.failed == event.attempt else "replayed"
                yield Measurement(TRANSACTIONS, 1, (outcome,))
                yield self._how_many
            case WorkEvent():
                yield from _worked(event)
            case _:
                yield from self._of_topology(event)

    def _of_topology(self, event: TopologyEvent) -> Iterator[Measurement]:
        match event:
            case LeadingEvent():
                yield Measurement(LEADER, 1)
                yield Measurement(TXID_COMMITTED, event.current_txid - 1)
            case ParkedEvent(parked=parked):
                yield Measurement(PARKED, len(parked))
                yield Measurement(PARKED_SINCE, min((each.since for each in parked), default=0.0))
            case StandstillEvent():
                yield Measurement(STANDSTILL, float(bool(event.waits_for)))
            case ResidentTasksEvent(numbers=numbers):
                yield from self._resident(numbers)
            case EndedEvent():
                self._active.clear()
                yield from self.begin()
                if self._residents:
                    self._residents = {}
                    yield Measurement(RESIDENT_TASKS, 0)

    @property
    def _how_many(self) -> Measurement:
        return Measurement(ACTIVE, len(self._active))

    def _resident(self, numbers: Mapping[str, int]) -> Iterator[Measurement]:
        before, self._residents = self._residents, numbers
        for name, number in numbers.items():
            if name == "there":
                yield Measurement(RESIDENT_TASKS, number)
            elif more := number - before.get(name, 0):
                yield Measurement(RESIDENT_REQUESTS, more, (name,))

    def _emitted(self, event: EmittedEvent) -> Iterator[Measurement]:
        self._active.add(event.attempt.txid)
        yield self._how_many
        for spout, parts in event.lag.items():
            yield from (Measurement(LAG, lag, (spout, part)) for part, lag in parts.items())

    def _committed(self, event: CommittedEvent) -> Iterator[Measurement]:
        self._active.discard(event.attempt.txid)
        yield Measurement(TRANSACTIONS, 1, ("parked" if event.is_parked else "committed",))
        yield self._how_many
        yield Measurement(TXID_COMMITTED, event.attempt.txid)
        yield Measurement(ROWS, event.rows)
        yield from (Measurement(WRITTEN, rows, (name,)) for name, rows in event.written.items())
        yield from (Measurement(COUNTS, count, (name,)) for name, count in event.counts.items() if count > 0)
        committing = max(0.0, event.committing - event.waiting)
        for phase, seconds in (("process", event.processing), ("wait", event.waiting), ("commit", committing)):
            yield Measurement(DURATION, seconds, (phase,))


_OF_WORK: Mapping[Work, tuple[Instrument, ...]] = {
    Work.EMIT: (EMIT_DURATION,),
    Work.JOB: (JOB_DURATION, JOB_TRANSACTIONS),
    Work.COMMIT: (COMMIT_DURATION, COMMIT_TRANSACTIONS),
}


def _worked(event: WorkEvent) -> Iterable[Measurement]:
    """Return the duration of a piece of work, and the number of its transactions."""
    values = (event.seconds, float(len(event.attempts)))
    by = ("+".join(event.parts),)
    return (Measurement(each, value, by) for each, value in zip(_OF_WORK[event.work], values, strict=False))
