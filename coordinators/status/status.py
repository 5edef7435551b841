"""`TopologyStatus`: where a topology is, as one value: the driver publishes it each turn, everybody else shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import Attribute, Factory, field, fields, frozen

from coordinators.record.record import Failure
from coordinators.record.wishes import NOTHING_STANDS, Hold, Standing
from coordinators.values.attempt import TransactionAttempt


@frozen(kw_only=True)
class TransactionStatus:
    """A transaction in flight.

    Attributes:
        attempt: the live attempt of it.
        number: by which spouts know it; None: it is empty, and they don't.
        phase: ``processing``, ``processed``, ``committing``, or ``committed`` where only those below it aren't;
            ``begun`` where another process leads, and the record doesn't say more.
        since: when that began, in seconds since 1970.
        failures: how often the transaction has failed so far.
    """

    attempt: TransactionAttempt
    number: int | None
    phase: str
    since: float
    failures: int = 0

    @property
    def txid(self) -> int:
        """The transaction."""
        return self.attempt.txid

    @property
    def status(self) -> str:
        """The phase, as it was called before."""
        return self.phase


@frozen(kw_only=True)
class SourceStatus:
    """A spout whose source can't be reached, and is waited for.

    Attributes:
        spout: its ``tx_id``.
        txid: the transaction that waits for it.
        cause: what was raised last.
        tries: how often it was tried in vain.
        since: when it was tried first, in seconds since 1970.
        last: when it was tried last, likewise.
    """

    spout: str
    txid: int
    cause: str
    tries: int
    since: float
    last: float

    def message(self, now: float) -> str:
        """Return what is waited for, and for how long by ``now``."""
        times = "1 try" if self.tries == 1 else f"{self.tries} tries"
        return f"waiting for spout {self.spout!r}: {self.cause} ({times}, {max(0.0, now - self.since):.0f} s)"


@frozen
class Wait:
    """Something that a topology waits for.

    Attributes:
        what: in a few words, as "spout 'lines' emits 7:0".
        since: in seconds since 1970; None: that isn't known.
    """

    what: str
    since: float | None = None

    def message(self, now: float) -> str:
        """Return it with how long it has been so by ``now``."""
        return self.what if self.since is None else f"{self.what}, for {max(0.0, now - self.since):,.0f} s"


# large: one field for each thing that can be asked, published as one value
@frozen(kw_only=True, repr=False)
class TopologyStatus(Mapping[str, Any]):
    """Where a topology is: as its driver has published it last, each turn, at least once a second; or as it is stored.

    What is stored is all that processes other than its leader know (`TopologyDescription.status`); what the record
    doesn't have is left at its default then.

    It is also a mapping, read-only, of what is listed in `NAMES`: what ``query.status`` gave when it was a dict.

    Attributes:
        topology: its name.
        at: when it was published or read, in seconds since 1970 by the clock of this machine.
        is_active: whether it runs in this process, or stands by to; as it is stored: whether anybody leads it.
        is_leading: whether this process leads it.
        is_paused: whether no new batches and no replays start, since somebody has paused it.
        standing: what stands by the wishes of operators, whoever leads.
        is_stopping: whether it ends when what is in flight has committed.
        leader: whom it waits for while it stands by; None where that isn't known, or it doesn't wait. As it is stored:
            who leads it, if anybody does.
        leads_since: since when this leadership is there, in seconds since 1970; None: it stands by, or nobody leads.
        epoch: of this leadership, or the last one; None: it stands by.
        current_txid: the lowest transaction that is not committed; None: it stands by.
        transactions: those in flight, lowest first; as they are stored: those that were begun and are not committed.
        committed: how many transactions this leadership has committed.
        rows: how many rows these had, as far as anybody has counted.
        counts: what user functions have counted in these, by name.
        lag: by spout and part of its source, as a partition, how many records wait there that no batch has yet, as
            `BatchCoordinator.lag` tells.
        sources: those that can't be reached and are waited for.
        failures: by txid, of transactions that have failed and are not committed.
        seconds_ahead: by how much the time of transactions is ahead of the clock.
        seconds_ahead_of_zookeeper: by how much this machine's clock is ahead of ZooKeeper's, where that is too much for
            it to be believed; 0.0: it is believed.
        late: what commits have been waiting for, for too long; empty: nothing.
        moved: when a transaction last got on, in seconds since 1970; one that is only tried again doesn't, until it is
            committed.
        held_until: when the lowest transaction is tried again, likewise; None: it doesn't wait for that.
        unready: the spouts that have nothing for the next transaction, as their coordinators say.
        waits_for: where nothing has happened for some seconds, what is waited for; empty: something has.
        held_by: why leadership is kept although the end was asked for; empty: it isn't.
        left_behind: after the end, the threads that had not returned, and where each of them was.
        error: what ended it; None: it runs, or was asked to stop.
        events_dropped: how many events listeners were too slow for.
        history_error: why the history can't be written just now; empty: it can, or none is kept.
    """

    topology: str
    at: float = 0.0
    is_active: bool = True
    is_leading: bool = False
    is_paused: bool = False
    standing: Standing = NOTHING_STANDS
    is_stopping: bool = False
    leader: str | None = None
    leads_since: float | None = None
    epoch: int | None = None
    current_txid: int | None = None
    transactions: tuple[TransactionStatus, ...] = ()
    committed: int = 0
    rows: int = 0
    counts: Mapping[str, int] = field(factory=dict)
    lag: Mapping[str, Mapping[str, int]] = field(factory=dict)
    sources: tuple[SourceStatus, ...] = ()
    failures: Mapping[int, Failure] = field(factory=dict)
    seconds_ahead: float = 0.0
    seconds_ahead_of_zookeeper: float = 0.0
    late: str = ""
    moved: float = 0.0
    held_until: float | None = None
    unready: tuple[str, ...] = ()
    waits_for: tuple[Wait, ...] = ()
    held_by: str = ""
    left_behind: Sequence[str] = ()
    error: BaseException | None = None
    events_dropped: int = 0
    history_error: str = ""

    @property
    def last_committed(self) -> int | None:
        """The last transaction that is committed; 0: none is; None: it stands by."""
        return None if self.current_txid is None else self.current_txid - 1

    @property
    def is_draining(self) -> bool:
        """Whether it drains, as an operator wishes: nothing new starts, and then it is paused."""
        return self.standing.hold is Hold.DRAINING

    @property
    def message(self) -> str:
        """What it does, for people."""
        if self.held_by:
            return self.held_by
        if self.error is not None:
            return f"failed: {self.error}"
        if not self.is_active:
            return "stopped" + "".join(f"; left behind: thread {each}" for each in self.left_behind)
        if self.epoch is None:
            return f"standing by; {self.leader} leads" if self.leader else "taking over"
        return self.late or self._doing

    @property
    def _doing(self) -> str:
        if self.is_stopping:
            return "stopping: committing what is being processed"
        if self.standing.hold is not Hold.NOTHING:
            return f"{self.standing.hold}, as an operator wishes; `trident resume {self.topology}` lifts that"
        if self.is_paused:
            return "paused"
        if self.sources:
            return "; ".join(self.waiting.values())
        if self.failures:
            txid, failure = min(self.failures.items())
            return f"transaction {txid} has failed and is tried again: {failure.cause} ({failure.lasted(self.at)})"
        return "processing" if self.transactions else "waiting for data"

    @property
    def active(self) -> Mapping[int, str]:
        """The transactions in flight: by txid the attempt, as ``7:0``."""
        return {each.txid: str(each.attempt) for each in self.transactions}

    @property
    def failing(self) -> Mapping[int, str]:
        """The cause by transaction."""
        return {txid: failure.cause for txid, failure in self.failures.items()}

    @property
    def waiting(self) -> Mapping[str, str]:
        """What is known by spout of sources that can't be reached."""
        return {each.spout: each.message(self.at) for each in self.sources}

    # --- as a mapping -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def __repr__(self) -> str:
        """Show the attributes that say something, by their names."""
        said = {name: getattr(self, name) for name in ("topology", "message", "last_committed")}
        said |= {
            each.name: value for each in fields(type(self)) if (value := getattr(self, each.name)) != _default(each)
        }
        return f"TopologyStatus({', '.join(f'{name}={value!r}' for name, value in said.items())})"


def _default(of: Attribute[Any]) -> object:
    default: Any = of.default
    return default.factory() if isinstance(default, Factory) else default  # type: ignore[arg-type]  # attrs types it so


NAMES = (
    "message",
    "is_active",
    "is_leading",
    "is_paused",
    "leader",
    "epoch",
    "current_txid",
    "active",
    "failing",
    "waiting",
    "seconds_ahead",
)
"""What `TopologyStatus` has as a mapping; values are such as JSON can hold."""
