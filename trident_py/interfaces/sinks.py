"""Two-phase sinks: they prepare a batch while it is processed, and make it visible later in one atomic step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from attrs import field, frozen

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken as CommitToken
from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import SinkError
from trident_py.interfaces.identity import Identified

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

R = TypeVar("R")
"""A receipt: any value that lets ``commit`` find the result of ``prepare``; kept in the leader's memory, never
stored."""

TopologyKey = TopologyIdentity
"""The identity of a topology: ``name``, ``uuid`` and ``incarnation``."""


@frozen
class TransactionKey:
    """Identifies a transaction for ever: the topology's uuid, its incarnation, and the txid."""

    uuid: str
    incarnation: int
    txid: int


@frozen
class SinkTransaction:
    """One attempt, as a sink sees it.

    Attributes:
        key: identifies the transaction, over all attempts and leaders.
        attempt: the attempt of this transaction.
        epoch: the fence: the leadership to which this attempt belongs.
        time: the transaction's time, in milliseconds since 1970, UTC. It is fixed when the transaction is first
            admitted, and the same for all attempts and leaders. Use it instead of a clock, because a replay must do the
            same again.
        group_first: the first transaction of the group in which it commits. This is the lowest one that was not yet
            recorded as committed when the group was announced. None: it commits alone.
        replaces: whether the rows are a state's new values by its own keys. They include each key that an older attempt
            of this transaction changed. If the sink has rows of such an attempt, it replaces them by these rows.
        parks: the transaction is left out, and this is an empty attempt, as all from this attempt id on are. A sink
            that has the transaction by an earlier attempt removes those rows, or raises: see `ensure_parkable`. None:
            it is no such attempt.
    """

    key: TransactionKey
    attempt: TransactionAttempt
    epoch: int
    time: int = 0
    group_first: int | None = field(default=None, eq=False)
    replaces: bool = field(default=False, eq=False)
    parks: int | None = field(default=None, eq=False)

    def leaves_nothing(self, last: CommitToken | None, *, undoes: bool = False) -> bool:
        """Return whether no row of the transaction stays once this attempt is committed; true without `parks`.

        Args:
            last: the token of the last commit.
            undoes: whether the commit removes the rows of an earlier attempt, if ``last`` is of this transaction.
        """
        if self.parks is None or last is None or last.txid < self.txid:
            return True
        return last.txid == self.txid and (undoes or last.attempt_id >= self.parks)

    def ensure_parkable(self, last: CommitToken | None, *, undoes: bool = False) -> None:
        """Check that no row of the transaction stays; call it before ``commit`` skips or replaces anything.

        The arguments are those of `leaves_nothing`.

        Raises:
            SinkError: rows would stay.
        """
        if self.leaves_nothing(last, undoes=undoes):
            return
        raise SinkError(
            f"attempt {self.attempt}: it can't be left out, because its rows were committed as {last}, and can't be "
            f"removed any more. To fix this: let the topology commit transaction {self.txid}, or restore the sink and "
            f"ZooKeeper from one moment before it",
            attempt=self.attempt,
        )

    @property
    def txid(self) -> int:
        """The transaction's number."""
        return self.attempt.txid

    @property
    def token(self) -> CommitToken:
        """The token that the sink stores together with the data, and compares."""
        return CommitToken(self.attempt.txid, self.epoch, self.attempt.attempt_id)


class TransactionalSink(Identified, ABC, Generic[R]):
    """A sink that takes part in the commit protocol, as a state does. All calls run in the driver's process.

    ``commit`` makes rows visible, exactly once. For this, the sink must guarantee three things:

    - Data and token change in one atomic step, such as one rename or one database transaction. So ``recover`` knows
      after any crash which transaction was committed.
    - A transaction may come again after its commit, because the answer was lost, or because of a crash before all other
      states had committed it. It comes as another attempt, prepared again. If ``tx.txid`` is not above that of the
      stored token, ``commit`` must not change the stored data, unless ``tx.replaces``.
    - Data staged by an earlier leader can't be committed any more once ``recover`` has returned.

    To write your own sink, start from `FileSink` in `trident_py/sinks/files`.
    """

    needs_exact_replays: ClassVar[bool] = False
    """Whether a transaction that comes again must have the same rows, because the rows committed first stay."""

    replaces_by: tuple[str, ...] = ()
    """The fields by which a row replaces another, so that the rows of a transaction can be written again; empty: rows
    are added. Such a sink may also follow an opaque spout, for the new values of a state that has exactly these keys:
    see `SinkTransaction.replaces`."""

    keeps_token: ClassVar[bool] = True
    """Whether it stores the commit token with the rows. Without it, the sink can detect neither a repeated transaction
    nor an older leader: its rows count at least once, and ``recover`` returns None."""

    takes_groups: ClassVar[bool] = False
    """Whether `commit_group` commits several transactions in one atomic step. Then small transactions that are ready at
    the same time commit together."""

    def check_fields(self, fields: StructType) -> None:
        """Check the fields of the rows at declaration, or at the start if only Spark knows them.

        Raises:
            TopologyError: the sink can't store such rows.
        """

    @abstractmethod
    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: refuse older epochs from now on, and delete the data that they staged.

        This is the first call of every leader. ``abort`` is never called for data that was staged before a crash.

        Returns:
            The token of the last commit; None if nothing was ever committed here.

        Raises:
            SinkError: the sink belongs to another topology, or is damaged.
            FencedError: a newer epoch has already recovered this sink.
            StoreBusyException: the store is unavailable or locked just now; a standby tries again, any other start
                ends.
        """

    @abstractmethod
    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> R:
        """Processing phase: stage ``frame``, so that ``commit`` has little to do; nothing may be visible yet.

        Several attempts are prepared concurrently, each on its own thread. ``frame`` may be read as often as you like,
        by any action. The order of its rows is not guaranteed.

        Returns:
            A receipt, with which ``commit`` or ``abort`` finds the staged data.
        """

    @abstractmethod
    def commit(self, tx: SinkTransaction, receipt: R) -> None:
        """Committing phase, in txid order: make the rows visible, with ``tx.token``, in one atomic step.

        An exception fails the attempt, which is prepared and committed again under the next attempt id. Five failures
        end the topology.

        Raises:
            FencedError: a newer epoch has recovered this sink; it ends this leader at once, as every `TridentError`
                does.
            StoreBusyException: the store is unavailable or locked just now; this doesn't count among the five.
        """

    def commit_group(self, group: Sequence[tuple[SinkTransaction, R]]) -> None:
        """Commit these transactions, in this order, in one atomic step with the last one's token.

        Called only for several transactions, and only if the sink `takes_groups`. Each that is committed already is
        skipped.

        Raises:
            FailedException: some rows are refused, and nothing of the group is committed. Then each transaction comes
                alone, so that the refused one is known.
            FencedError, StoreBusyException: as for ``commit``.
        """
        raise NotImplementedError(f"{type(self).__name__} takes groups, and has no commit_group")

    @abstractmethod
    def abort(self, tx: SinkTransaction, receipt: R | None) -> None:
        """Abort an attempt, which will never commit; ``receipt`` is ``None`` if ``prepare`` did not return."""

    def receipt_rows(self, receipt: R) -> int | None:
        """Return the number of rows that ``commit`` will add, for monitoring; None if unknown.

        Called right after ``prepare``, on the same thread; it must be fast.
        """
        return None

    def can_park(self, tx: SinkTransaction) -> bool | None:
        """Return whether ``commit`` of ``tx``, an empty attempt, can leave its transaction out.

        Called before it is decided to park ``tx.txid``, between two commits. False: the sink has rows of it that can't
        be removed. None, the default: it can't tell; then the topology goes by the commits that it has seen.
        """
        return None

    def close(self) -> None:
        """Release connections and other resources: the topology has stopped. Another ``recover`` may follow."""
        return


class RowsSink(TransactionalSink[R]):
    """A sink that receives the rows of a transaction on the driver, so that its small batches share jobs."""

    @abstractmethod
    def keep(self, tx: SinkTransaction, rows: pa.Table) -> R:
        """Keep the rows until ``commit`` or ``abort``, and return the receipt. Called instead of ``prepare``."""
