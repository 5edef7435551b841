"""The entries of a history, one for each leadership and each attempt, made from events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

from coordinators.record.store import TopologyIdentity
from coordinators.status.listener import (
    CommittedEvent,
    EndedEvent,
    FailedEvent,
    LeadingEvent,
    ProcessedEvent,
    StandstillEvent,
    SucceededEvent,
    TopologyEvent,
    TransactionEvent,
    WishedEvent,
)
from coordinators.status.status import Wait
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from trident_py.worker.failures import text_of

LIVE_MAX = 10_000
"""The limit of entries that may still change; above it, the oldest count as finished, as their last event was
dropped."""


@frozen(kw_only=True)
class Program:
    """The program that runs a topology.

    Attributes:
        host, pid: the machine and the process.
        version: the version of trident_py.
        code: identifies the user's code: different code has a different name (`code_version`).
        plan: the nodes of its graph, as from `diagram`; empty if an older release didn't store them.
    """

    host: str
    pid: int
    version: str
    code: str
    plan: tuple[Json, ...] = ()


@frozen(kw_only=True)
class LeadershipEntry:
    """A leadership, as the history stores it.

    Attributes:
        current_txid: the transaction with which it began; all earlier ones were committed.
        since, ended: in seconds since 1970; None: no end was recorded.
        error: the error that ended it; empty if it was asked to stop, or hasn't ended.
        waits_for: the reasons of the present stall, known after some seconds without progress; else empty.
    """

    life: TopologyIdentity
    epoch: int
    program: Program
    current_txid: int
    since: float
    ended: float | None = None
    error: str = ""
    waits_for: tuple[Wait, ...] = ()


# large: one field for each fact about an attempt, stored as a row
@frozen(kw_only=True)
class AttemptEntry:
    """An attempt of a transaction; moments are in seconds since 1970, durations in seconds.

    Attributes:
        epoch: the epoch of its leadership.
        number: the number by which spouts know the transaction; None if it is empty.
        phase: its progress: ``processing``, ``processed``, ``committed``, ``parked`` or ``failed``.
        emitted: when it was announced; if that event was dropped, the time of its first event.
        ended: when it was committed or aborted; None: not yet.
        succeeded: when every spout had received the success; None: not yet.
        processing, waiting, committing: durations, as in `TransactionEvent`.
        rows, written, counts, definition: also as in `TransactionEvent`.
        error: the error; empty without one.
        failed: the attempt whose failure failed this one: itself, or an earlier one; empty without a failure.
    """

    life: TopologyIdentity
    epoch: int
    attempt: TransactionAttempt
    emitted: float
    number: int | None = None
    phase: str = "processing"
    ended: float | None = None
    succeeded: float | None = None
    processing: float = 0.0
    waiting: float = 0.0
    committing: float = 0.0
    rows: int = 0
    written: Mapping[str, int] = field(factory=dict)
    counts: Mapping[str, int] = field(factory=dict)
    definition: Mapping[str, Json] = field(factory=dict)
    error: str = ""
    failed: str = ""

    @property
    def txid(self) -> int:
        """The txid of the transaction."""
        return self.attempt.txid


@frozen(kw_only=True)
class WishEntry:
    """A command of an operator, or of the policy that parks.

    Attributes:
        id: of the command; made up for those of the process itself.
        event: the command, who gave it and why, and its outcome.
    """

    life: TopologyIdentity
    epoch: int
    id: str
    event: WishedEvent


@frozen
class Change:
    """The changes to store.

    Attributes:
        life: the life of the topology; None: it isn't known, and there are no other changes.
        leadership: the entry of this leadership, if it is new or has changed.
        attempts: the entries of attempts that are new or have changed.
        succeeded: attempts that an earlier leadership has committed, with the time of their success.
        wishes: commands that were carried out or refused.
    """

    life: TopologyIdentity | None = None
    leadership: LeadershipEntry | None = None
    attempts: tuple[AttemptEntry, ...] = ()
    succeeded: tuple[SucceededEvent, ...] = ()
    wishes: tuple[WishEntry, ...] = ()


@define
class Entries:
    """Makes entries from the events of one start of a topology.

    Events may be missing if there were too many of them: entries then contain only the received ones.
    """

    program: Program
    _leadership: LeadershipEntry | None = field(default=None, init=False)
    _live: dict[TransactionAttempt, AttemptEntry] = field(factory=dict, init=False)

    def take(self, events: Iterable[TopologyEvent]) -> Change:
        """Add events; return the resulting changes."""
        before, told, succeeded = self._leadership, dict[TransactionAttempt, dict[str, Any]](), []
        wished: list[WishedEvent] = []
        for event in events:
            if isinstance(event, WishedEvent):
                wished.append(event)
            elif not isinstance(event, TransactionEvent):
                self._lead(event)
            elif isinstance(event, SucceededEvent) and not (event.attempt in told or event.attempt in self._live):
                succeeded.append(event)
            elif self._leadership is not None:  # otherwise the event that names the leadership was dropped
                told.setdefault(event.attempt, {"emitted": event.at}).update(_told(event))
        after = self._leadership
        if after is None:
            return Change()
        changed = tuple(self._changed(attempt, what, after) for attempt, what in told.items())
        wishes = tuple(_wish_entry(event, after) for event in wished)
        return Change(after.life, None if after == before else after, changed, tuple(succeeded), wishes)

    def _lead(self, event: TopologyEvent) -> None:
        match event:
            case LeadingEvent():
                self._leadership = LeadershipEntry(
                    life=TopologyIdentity(name=event.topology, uuid=event.uuid, incarnation=event.incarnation),
                    epoch=event.epoch,
                    program=self.program,
                    current_txid=event.current_txid,
                    since=event.at,
                )
            case StandstillEvent() if self._leadership is not None:
                self._leadership = evolve(self._leadership, waits_for=event.waits_for)
            case EndedEvent() if self._leadership is not None:
                error = text_of(event.error)
                self._leadership = evolve(self._leadership, ended=event.at, error=error, waits_for=())

    def _changed(self, attempt: TransactionAttempt, told: dict[str, Any], leadership: LeadershipEntry) -> AttemptEntry:
        known = self._live.pop(attempt, None)
        if known is None:
            entry = AttemptEntry(life=leadership.life, epoch=leadership.epoch, attempt=attempt, **told)
        else:
            entry = evolve(known, **{**told, "emitted": known.emitted})
        if entry.phase == "failed" or entry.succeeded is not None:
            return entry
        if len(self._live) == LIVE_MAX:
            self._live.pop(next(iter(self._live)))
        self._live[attempt] = entry
        return entry


def _wish_entry(event: WishedEvent, leadership: LeadershipEntry) -> WishEntry:
    own = f"{leadership.epoch} {event.at:.6f} {event.action} {event.txids}"
    return WishEntry(life=leadership.life, epoch=leadership.epoch, id=event.wish or own, event=event)


_TOLD = ("number", "processing", "waiting", "committing", "rows", "written", "counts", "definition")


def _told(event: TransactionEvent) -> dict[str, Any]:
    """Return the facts of an event about its attempt, by the names of the entry."""
    told = {name: getattr(event, name) for name in _TOLD}
    match event:
        case ProcessedEvent():
            told["phase"] = "processed"
        case CommittedEvent(is_parked=is_parked):
            told |= {"phase": "parked" if is_parked else "committed", "ended": event.at}
        case SucceededEvent():
            told["succeeded"] = event.at
        case FailedEvent():
            error = text_of(event.error)
            told |= {"phase": "failed", "ended": event.at, "error": error, "failed": str(event.failed)}
    return told
