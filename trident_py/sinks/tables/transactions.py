"""The protocol of a sink for a table of an open format: in order, each transaction once, next to other writers.

A commit is refused if a token was written since the last look at its table. This is both the fence and the duplicate
check. Each commit first reads the last commit and the leader, and succeeds only if both are still the same.
"""

from __future__ import annotations

import logging
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import define, evolve, field, frozen
from pyspark.sql import DataFrame
from pyspark.sql import types as t
from pyspark.sql.types import StructType

from trident_py.errors import FailedException, FencedError, SinkError, StoreBusyException, TopologyError, TridentError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.sinks.tables.staging import (
    StagedFile,
    content_of,
    discard,
    missing,
    of_transaction,
    staged_by,
    sweep,
)
from trident_py.sinks.tables.store_errors import raise_store_error
from trident_py.sinks.tables.table import Conflict, SinkTable
from trident_py.sinks.token import Leading, TableToken, signed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trident_py.sinks.tables.staging import StagedFile

log = logging.getLogger(__name__)


A = TypeVar("A")
T = TypeVar("T", bound=SinkTable)

TRIES = 20
"""The number of looks at a table with other writers, until a commit fails for now."""


@frozen
class Replacement:
    """A change of a table that removes the rows of a transaction, and no others.

    Attributes:
        removed: the paths of files to remove.
        added: files that are restored in their place.
    """

    removed: Sequence[str] = ()
    added: Sequence[StagedFile] = ()


NOTHING = Replacement()


# large: the whole protocol of a table, from the fence to the commit
@define(eq=False)
class TableTransactions(ABC, Generic[T]):
    """Commits a topology's transactions to a table.

    Attributes:
        partition_by: the partitions of the table.
        fields: the fields of the table for the rows; None: not known yet.
    """

    partition_by: tuple[str, ...]
    fields: StructType | None = field(default=None, init=False)
    _number: int = field(factory=lambda: secrets.randbits(62), init=False)
    _table: T | None = field(default=None, init=False)
    _leading: Leading[TableToken] = field(init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    @abstractmethod
    def name(self) -> str:
        """The table's name in messages."""

    @property
    def merges(self) -> bool:
        """Whether the driver reads the tasks' files and merges their rows, so no such file is added to the table.

        Then a replay with other rows changes nothing, unless its rows replace those of the first attempt.
        """
        return False

    def columns(self, fields: StructType) -> StructType:
        """Return the fields of the table for rows with these fields."""
        return fields

    @abstractmethod
    def opened(self) -> T | None:
        """Return the table as it is now; None: it does not exist."""

    @abstractmethod
    def create(self, fields: StructType) -> None:
        """Make an empty table.

        Raises:
            Conflict: another program has made it meanwhile.
        """

    @abstractmethod
    def check(self, table: T) -> None:
        """Check that the rows can be written into it; add fields that it lacks, if that is configured.

        Raises:
            SinkError: they can't.
            Conflict: another program has changed it meanwhile.
        """

    @abstractmethod
    def write(self, table: T, tx: SinkTransaction, frame: DataFrame) -> list[StagedFile]:
        """Write the rows by Spark's tasks, and return the files."""

    def add(self, table: T, token: TableToken, staged: Sequence[StagedFile], removed: Sequence[str]) -> None:
        """Commit the rows of a transaction, and remove the files with its earlier rows."""
        table.commit(self._leading.topology.uuid, token, staged, removed)

    # --- what a sink is asked for -------------------------------------------------------------------------------------

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Raise the fence; remove the staged files of older leaders; return the token of the last commit.

        Raises:
            SinkError: the table can't be written to.
            FencedError: a newer leader has taken over.
        """
        token = TableToken(incarnation=topology.incarnation, fence=epoch, sink=self._number)
        self._leading = Leading(topology, token)
        self._table = None
        table = self._retried(self._lead)
        if table is None:
            return None
        last = self._leading.token.commit
        txid = last.txid if last else 0
        # what the last one has staged may be the table's; where it is merged, a dead leader may have left it
        sweep(table.files, topology.uuid, epoch, above=txid - 1 if self.merges else txid)
        return last

    def stage(self, tx: SinkTransaction, frame: DataFrame) -> list[StagedFile]:
        """Write the rows as files next to the table."""
        with self._lock:
            if self._table is None:  # the fields are known only from the first rows
                self.fields = self.columns(frame.schema)
                self._retried(self._lead)
        return self.write(self._led(), tx, frame)

    def commit(self, tx: SinkTransaction, staged: list[StagedFile]) -> None:
        """Add the files to the table, in one commit with the token, unless the transaction is committed already.

        If it is committed with other rows, those are removed in the same commit.

        Raises:
            SinkError: the table was replaced or rolled back, or the rows don't fit it any more.
            FencedError: a newer leader has taken over.
        """
        try:
            self._retried(lambda: self._commit(tx, staged))
        except (TridentError, StoreBusyException):
            raise
        except Exception as error:  # it counts as a failure of the batch only if nothing was committed
            if not self._retried(lambda: self._has(tx)):
                raise
            log.warning("%s: transaction %d was committed, though %r was raised", self._leading.who, tx.txid, error)

    def abort(self, tx: SinkTransaction, staged: list[StagedFile] | None) -> None:
        """Remove the staged files of an attempt, if there are any.

        They are kept if the transaction is committed. It may be committed with these files, if only the answer was
        lost.
        """
        # a separate handle: a look by the handle of a running commit would hide a new leader from that commit
        table = self.opened() if self._table is not None else None
        if table is None:
            return
        found = table.token(self._leading.topology.uuid)
        if found and found.txid >= tx.txid and not self.merges:
            return
        discard(table.files, staged_by(table.files, tx) if staged is None else [each.path for each in staged])

    # --- one look, one commit -----------------------------------------------------------------------------------------

    def _retried(self, commit: Callable[[], A]) -> A:
        for _ in range(TRIES):
            try:
                return commit()
            except Conflict as error:
                found = error
            except OSError as error:  # libraries raise it if a store does not answer
                raise_store_error(error, self._leading.who, self.name)
        raise StoreBusyException(
            f"{self._leading.who}: other programs commit to {self.name!r} all the time; {TRIES} commits of this sink "
            f"came too late, and are retried"
        ) from found

    def _lead(self) -> T | None:
        """Write the fence into the table, which is made if the fields are known; return the table if it exists now."""
        leading = self._leading
        table = self.opened()
        if table is None:
            if self.fields is None:
                return None
            self.create(self.fields)
            raise Conflict("the table was made; look at it")
        self.check(table)
        token = leading.token
        if found := table.token(leading.topology.uuid):
            self._check_owner(found)
            token = evolve(token, commit=found.commit, content=found.content)
        table.commit(leading.topology.uuid, token, [])
        leading.token = token
        self._table = table if self.fields is not None else None
        return table

    def _led(self) -> T:
        if self._table is None:
            raise SinkError(f"{self._leading.who}: {self.name!r} was never opened; to fix this: call recover() first")
        return self._table

    def _commit(self, tx: SinkTransaction, staged: list[StagedFile]) -> None:
        table, leading = self._led(), self._leading
        table.look()
        found = self._checked(table.token(leading.topology.uuid))
        token = evolve(found, commit=tx.token, content=signed(content_of(staged)))
        tx.ensure_parkable(found.commit, undoes=self._undoes(tx))
        if tx.txid < found.txid or found.commit == tx.token:
            return
        self.check(table)  # it was perhaps changed since rows were written for it; its commit is by this very look
        again = tx.txid == found.txid
        keeps = self.merges and not tx.replaces
        if again and (keeps or token.content == found.content):
            table.commit(leading.topology.uuid, token, [])
            discard(table.files, [each.path for each in staged])
        else:
            self._ensure_staged(table, tx, staged)
            before = self.replaced(table, found, tx.txid) if again and not self.merges else NOTHING
            self.add(table, token, [*before.added, *staged], before.removed)
        leading.token = token

    def _undoes(self, tx: SinkTransaction) -> bool:
        return tx.replaces or not self.merges

    def can_park(self, tx: SinkTransaction) -> bool:
        """Return whether no row of ``tx.txid`` stays: files of its last attempt can be removed, merged rows can't."""
        table, leading = self._table, self._leading
        if table is None:
            return True
        table.look()
        found = self._checked(table.token(leading.topology.uuid))
        return tx.leaves_nothing(found.commit, undoes=self._undoes(tx))

    def _has(self, tx: SinkTransaction) -> bool:
        """Return whether the table, opened again, has this attempt as its last commit."""
        leading, table = self._leading, self.opened()
        found = table.token(leading.topology.uuid) if table else None
        if table is None or found is None or found.fence != leading.token.fence or found.commit != tx.token:
            return False
        self._table, leading.token = table, found
        return True

    def replaced(self, table: T, found: TableToken, txid: int) -> Replacement:
        """Return the change that removes the rows of a committed transaction, which is replayed with other rows.

        Raises:
            SinkError: the rows are not in the files of its commit any more.
        """
        paths = of_transaction(self._leading.topology.uuid, txid, table.paths)
        if (rows := table.rows_of(paths)) != found.content.rows:
            raise SinkError(self.moved_rows(txid, found.content.rows, rows))
        return Replacement(paths)

    def moved_rows(self, txid: int, wanted: int, rows: int) -> str:
        """Return the message that rows can't be replaced, because another program has moved them."""
        return (
            f"{self._leading.who}: transaction {txid} has other rows than when it was committed, and of the {wanted} "
            f"rows then, {rows} are still in its files in {self.name!r}: another program has compacted or deleted the "
            f"others, so they can't be replaced"
        )

    def _ensure_staged(self, table: T, tx: SinkTransaction, staged: Collection[StagedFile]) -> None:
        if gone := missing(table.files, staged):
            raise FailedException(
                f"{self._leading.who}, attempt {tx.attempt}: {gone[0]!r} was staged for {self.name!r} and is gone "
                f"before its commit; perhaps a cleanup with too short a retention has removed it (VACUUM, "
                f"remove_orphan_files)"
            )

    def _checked(self, found: TableToken | None) -> TableToken:
        leading = self._leading
        last, known = found.txid if found else 0, leading.token.txid
        if found is None or found.fence < leading.token.fence or last < known:
            raise SinkError(
                f"{leading.who}: {self.name!r} had transaction {known}, and has {last} now: it was replaced, or an "
                f"older version of it was restored; to fix this: restore the newer one, or `trident reset` the "
                f"topology"
            )
        self._check_owner(found)
        return found

    def _check_owner(self, found: TableToken) -> None:
        leading = self._leading
        if found.incarnation != leading.token.incarnation:
            raise SinkError(
                f"{leading.who}: {self.name!r} has rows of this topology before it was reset, incarnation "
                f"{found.incarnation}; to fix this: give the sink another table"
            )
        if found.fence > leading.token.fence:
            raise FencedError(
                f"{leading.who}: a leader of epoch {found.fence} has taken over {self.name!r}; to fix this: end this "
                f"leader"
            )
        if found.fence == leading.token.fence and found.sink != self._number:
            raise SinkError(
                f"{leading.who}: another sink of this topology writes to {self.name!r}; to fix this: merge the "
                f"streams, or give each sink its own table"
            )


class FormatSink(TransactionalSink["list[StagedFile]"]):
    """A sink that commits each transaction to a table of an open format."""

    _transactions: TableTransactions[Any]

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Commit the epoch, so that commits of older leaders fail; then remove their staged files."""
        return self._transactions.recover(topology, epoch)

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> list[StagedFile]:
        """Write the rows by Spark's tasks, as files that are not in the table."""
        return self._transactions.stage(tx, frame)

    def receipt_rows(self, receipt: list[StagedFile]) -> int:
        """Return the number of rows of the files."""
        return sum(file.content.rows for file in receipt)

    def commit(self, tx: SinkTransaction, receipt: list[StagedFile]) -> None:
        """Add the files to the table, with the token, in one commit."""
        self._transactions.commit(tx, receipt)

    def can_park(self, tx: SinkTransaction) -> bool:
        return self._transactions.can_park(tx)

    def abort(self, tx: SinkTransaction, receipt: list[StagedFile] | None) -> None:
        """Remove the files."""
        self._transactions.abort(tx, receipt)


def check_partitions(fields: Sequence[t.StructField], refused: tuple[type[t.DataType], ...]) -> None:
    """Check that a table can be partitioned by these fields.

    Raises:
        TopologyError: the type of a field is refused.
    """
    for each in fields:
        if isinstance(each.dataType, refused):
            kind = each.dataType.simpleString()
            raise TopologyError(f"field {each.name!r} is {kind}, and no table is partitioned by that")
