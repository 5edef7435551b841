"""`TopologyStatus`: the state of a topology as one value, which the driver publishes each turn for other components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import Attribute, Factory, field, fields, frozen

from coordinators.record.parking import Parked
from coordinators.record.record import Failure
from coordinators.record.wishes import NOTHING_STANDS, Hold, Standing
from coordinators.values.attempt import TransactionAttempt


@frozen(kw_only=True)
class TransactionStatus:
    """A transaction in progress.

    Attributes:
        attempt: its live attempt.
        number: its number for spouts; None: it is empty, and has none.
        phase: ``processing``, ``processed``, ``committing``, or ``committed`` if only transactions below it aren't;
            ``begun`` if another process leads, and the record doesn't say more.
        since: when the phase began, in seconds since 1970.
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
        """The phase, under its earlier name."""
        return self.phase


@frozen(kw_only=True)
class SourceStatus:
    """A spout with an unreachable source, for which the topology waits.

    Attributes:
        spout: its ``tx_id``.
        txid: the transaction that waits for it.
        cause: the last exception.
        tries: the number of failed tries.
        since: when the first try was made, in seconds since 1970.
        last: when the last try was made, likewise.
    """

    spout: str
    txid: int
    cause: str
    tries: int
    since: float
    last: float

    def message(self, now: float) -> str:
        """Return which spout is waited for, and for how long by ``now``."""
        times = "1 try" if self.tries == 1 else f"{self.tries} tries"
        return f"waiting for spout {self.spout!r}: {self.cause} ({times}, {max(0.0, now - self.since):.0f} s)"


@frozen
class Wait:
    """A thing for which a topology waits.

    Attributes:
        what: a few words, such as "spout 'lines' emits 7:0".
        since: in seconds since 1970; None: unknown.
    """

    what: str
    since: float | None = None

    def message(self, now: float) -> str:
        """Return its text, with the duration by ``now``."""
        return self.what if self.since is None else f"{self.what}, for {max(0.0, now - self.since):,.0f} s"


@frozen(kw_only=True)
class BusyTask:
    """A resident task that has had a request for some seconds.

    Attributes:
        task: its number.
        seconds: how long it has had it.
        place: its position in the code, such as "in split, words.py, line 7"; empty: unknown.
    """

    task: int
    seconds: float
    place: str = ""


# large: one field for each fact about a topology, published as one value
@frozen(kw_only=True, repr=False)
class TopologyStatus(Mapping[str, Any]):
    """The state of a topology: as its driver last published it, each turn, at least once a second; or as it is stored.

    Except for the leader, processes only know the stored state (`TopologyDescription.status`). Fields that the record
    doesn't contain have their default then.

    It is also a read-only mapping of the names in `NAMES`, as ``query.status`` was when it was a dict.

    Attributes:
        topology: its name.
        at: when it was published or read, in seconds since 1970 by the clock of this machine.
        is_active: whether it runs in this process or is a standby here; if it is the stored state: whether any process
            leads it.
        is_leading: whether this process leads it.
        is_paused: whether no new batches and no replays start, because it was paused.
        standing: the operators' wishes in effect, whichever process leads.
        is_stopping: whether it ends when the transactions in progress have committed.
        leader: the leader that this standby waits for; None if that is unknown, or it doesn't wait. If it is the stored
            state: the leader, if any.
        leads_since: when this leadership began, in seconds since 1970; None: it is a standby, or no process leads.
        epoch: of this leadership, or the last one; None: it is a standby.
        current_txid: the lowest transaction that is not committed; None: it is a standby.
        transactions: those in progress, lowest first; if it is the stored state: those that were begun and are not
            committed.
        committed: how many transactions this leadership has committed.
        rows: how many rows these had, as far as they were counted.
        counts: the counts by user functions in these transactions, by name.
        lag: by spout and part of its source, such as a partition, how many records no batch contains yet, as returned
            by `BatchCoordinator.lag`.
        sources: the unreachable sources that are waited for.
        failures: by txid, of transactions that have failed and are not committed.
        seconds_ahead: by how much the time of transactions is ahead of the clock.
        seconds_ahead_of_zookeeper: by how much this machine's clock is ahead of ZooKeeper's, if that is too much for it
            to be trusted; 0.0: it is trusted.
        late: the things for which commits wait too long; empty: none.
        moved: when a transaction last made progress, in seconds since 1970. A retry is no progress until it is
            committed.
        held_until: when the lowest transaction is tried again, likewise; None: it doesn't wait for that.
        unready: the spouts that have no input for the next transaction, according to their coordinators.
        waits_for: if no transaction has made progress for some seconds, the things that it waits for; else empty.
        held_by: why leadership is kept although the process was asked to stop; empty: it isn't.
        left_behind: after the end, the threads that had not returned, and the position of each in the code.
        error: the error that ended it; None: it runs, or was asked to stop.
        events_dropped: how many events were dropped because listeners were too slow.
        history_error: why the history can't be written just now; empty: it can, or none is kept.
        parked: the transactions that are left out until they are released, lowest first; also those whose release is
            under way.
        parking: the transaction that is just being parked; None: none is.
        expiring: by parked transaction, why its source may soon not have its rows any more, as returned by
            `BatchCoordinator.expiring`.
        resident_tasks: the number of Spark tasks that stay for small batches is ``there``. The number of requests with
            an answer is ``answered``, of those that ran as jobs instead ``given_back``, and of late answers
            ``dropped``. Empty: no tasks stay.
        busy_tasks: those of them that have had a request for some seconds.
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
    expiring: Mapping[int, str] = field(factory=dict)
    resident_tasks: Mapping[str, int] = field(factory=dict)
    busy_tasks: Sequence[BusyTask] = ()
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
    parked: tuple[Parked, ...] = ()
    parking: int | None = None

    @property
    def last_committed(self) -> int | None:
        """The last transaction that is committed; 0: no transaction is; None: it is a standby."""
        return None if self.current_txid is None else self.current_txid - 1

    @property
    def is_draining(self) -> bool:
        """Whether an operator drains it: no new transactions start, and then it is paused."""
        return self.standing.hold is Hold.DRAINING

    @property
    def message(self) -> str:
        """A short description of its activity, for people."""
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
        """The transactions in progress: by txid the attempt, as ``7:0``."""
        return {each.txid: str(each.attempt) for each in self.transactions}

    @property
    def failing(self) -> Mapping[int, str]:
        """The cause of the last failure, by transaction."""
        return {txid: failure.cause for txid, failure in self.failures.items()}

    @property
    def waiting(self) -> Mapping[str, str]:
        """A message for each unreachable source, by spout."""
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
        """Show the attributes that differ from their defaults, by name."""
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
"""The names of `TopologyStatus` as a mapping; all values fit into JSON."""
