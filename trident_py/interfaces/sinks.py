"""Two-phase sinks: whatever can prepare a batch while it is processed and make it visible in one atomic step later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from attrs import field, frozen

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken as CommitToken
from coordinators.values.attempt import TransactionAttempt
from trident_py.interfaces.identity import Identified

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

R = TypeVar("R")
"""A receipt: any value that tells ``commit`` what ``prepare`` left; lives in the leader's memory, never stored."""

TopologyKey = TopologyIdentity
"""Who the topology is: ``name``, ``uuid`` and ``incarnation``."""


@frozen
class TransactionKey:
    """What names a transaction for ever: the topology's uuid, its incarnation, and the txid."""

    uuid: str
    incarnation: int
    txid: int


@frozen
class SinkTransaction:
    """One attempt, as a sink sees it.

    Attributes:
        key: names the transaction, over all attempts and leaders.
        attempt: which try of it this is.
        epoch: the fence: the leadership that this attempt belongs to.
        time: the transaction's, in milliseconds since 1970, UTC: fixed when it was first admitted, the same for all
            attempts and leaders. Use it instead of a clock: a replay has to do the same again.
        group_first: the first transaction of the group that it commits in: the lowest one that the record did not have
            as committed when that was announced. None: it commits alone.
        replaces: whether the rows are a state's new values by its own keys, and have each key that an older attempt of
            this transaction changed in it: a sink that has rows of such an attempt takes these, too, in their place.
    """

    key: TransactionKey
    attempt: TransactionAttempt
    epoch: int
    time: int = 0
    group_first: int | None = field(default=None, eq=False)
    replaces: bool = field(default=False, eq=False)

    @property
    def txid(self) -> int:
        """The transaction's number."""
        return self.attempt.txid

    @property
    def token(self) -> CommitToken:
        """What the sink stores beside the data, and compares."""
        return CommitToken(self.attempt.txid, self.epoch, self.attempt.attempt_id)


class TransactionalSink(Identified, ABC, Generic[R]):
    """A sink that takes part in the protocol as a state does. All calls run in the driver's process.

    ``commit`` is where rows become visible, exactly once. Three things make it so, and each is the sink's to do:

    - Data and token change in one atomic step, such as one rename or one database transaction, so that ``recover``
      can tell after any crash what was committed.
    - A transaction may come again after its commit: where the answer was lost, or a crash came before all other
      states had it. It comes as another attempt, prepared anew, and ``commit`` must leave what is there alone if
      ``tx.txid`` is not above that of the stored token, unless ``tx.replaces``.
    - What a leader before this one has staged can't be committed any more once ``recover`` has returned.

    `FileSink` is the one to copy: `trident_py/sinks/files`.
    """

    needs_exact_replays: ClassVar[bool] = False
    """Whether a transaction that comes again must have the same rows, as what was committed first stays."""

    replaces_by: tuple[str, ...] = ()
    """The fields by which a row takes the place of another, so that the rows of a transaction can be written again;
    empty: rows are added. Such a sink is offered behind opaque spouts, too, for the new values of a state that has
    these very keys: see `SinkTransaction.replaces`."""

    keeps_token: ClassVar[bool] = True
    """Whether it stores the commit token with the rows. One that doesn't has nothing to tell a transaction that comes
    again by, nor an older leader: its rows count at least once, and ``recover`` returns None."""

    def check_fields(self, fields: StructType) -> None:
        """Look at the fields of the rows when they are declared; where only Spark knows them, when it starts.

        Raises:
            TopologyError: the sink can't take such rows.
        """

    @abstractmethod
    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: refuse older epochs from now on, and sweep what they staged.

        The first call of every leader. Nobody calls ``abort`` for what was staged before a crash.

        Returns:
            The token of the last commit; None if nothing was ever committed here.

        Raises:
            SinkError: the sink belongs to another topology, or is damaged.
            FencedError: a newer epoch has been here.
            StoreBusyException: the store is away or locked just now; a standby tries again, any other start ends.
        """

    @abstractmethod
    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> R:
        """Processing phase: stage ``frame`` so that ``commit`` needs little; nothing may be visible yet.

        Several attempts are prepared side by side, on threads of their own. ``frame`` may be read as often as you
        like, by any action. The order of its rows is not promised.

        Returns:
            A receipt: what ``commit`` or ``abort`` needs to find it.
        """

    @abstractmethod
    def commit(self, tx: SinkTransaction, receipt: R) -> None:
        """Committing phase, in txid order: make it visible, with ``tx.token``, in one atomic step.

        What it raises fails the attempt, which is prepared and committed again under the next attempt id; five failures
        end the topology.

        Raises:
            FencedError: a newer epoch has been here; it ends this leader at once, as every `TridentError` does.
            StoreBusyException: the store is away or locked just now; that doesn't count among the five.
        """

    @abstractmethod
    def abort(self, tx: SinkTransaction, receipt: R | None) -> None:
        """Give up an attempt, which will never commit; ``receipt`` is None where ``prepare`` did not return."""

    def receipt_rows(self, receipt: R) -> int | None:
        """Return how many rows ``commit`` will add, for whoever watches; None: that isn't known.

        Called right after ``prepare``, on its thread; it should take no time.
        """
        return None

    def close(self) -> None:
        """Let go of connections and the like: the topology has stopped. Another ``recover`` may follow."""
        return


class RowsSink(TransactionalSink[R]):
    """A sink that has the rows of a transaction on the driver, so that its small batches share jobs."""

    @abstractmethod
    def keep(self, tx: SinkTransaction, rows: pa.Table) -> R:
        """Keep the rows until ``commit`` or ``abort``; returns the receipt. Called in place of ``prepare``."""
