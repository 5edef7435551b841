"""The protocol of `DeltaSink`: transactions in a Delta table, in order, each once, beside what others write there.

Delta refuses a commit where an application transaction that it writes was written by another commit since its table was
looked at. That is the fence and the token, all in one: whoever commits looks what is committed and who leads, and
commits by that very look, or not at all.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection
from typing import TypeVar

import pyarrow.compute as pc
from attrs import define, evolve, field
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident_py.errors import FailedException, FencedError, SinkError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.sinks.delta.staging import (
    StagedFile,
    Storage,
    content_of,
    discard,
    missing,
    of_transaction,
    read,
    stage,
    staged_by,
    sweep,
)
from trident_py.sinks.delta.table import Conflict, SinkTable
from trident_py.sinks.delta.token import TableToken, signed

A = TypeVar("A")

TRIES = 20
"""Looks at a table that others write to, until a commit is given up for now."""


@define
class Leading:
    """A leadership of this sink.

    Attributes:
        uuid: the topology's.
        who: for messages.
        token: what the table has, once its fence is ours.
    """

    uuid: str
    who: str
    token: TableToken


@define(eq=False)
class DeltaTransactions:
    """What a topology commits to a Delta table.

    Attributes:
        storage: where the table is.
        partition_by: the fields that it is partitioned by.
        merge_schema: whether it gets fields that it lacks.
        keys: the fields by which rows replace others; none: they are added.
        fields: of the rows; None: nobody has told them yet.
    """

    storage: Storage
    partition_by: tuple[str, ...]
    merge_schema: bool
    keys: tuple[str, ...] = ()
    fields: StructType | None = field(default=None, init=False)
    _number: int = field(factory=lambda: secrets.randbits(62), init=False)
    _table: SinkTable | None = field(default=None, init=False)
    _leading: Leading = field(init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Raise the fence; remove what older leaders have staged; returns the token of the last commit.

        Raises:
            SinkError: the table can't be written to so.
            FencedError: a newer leader has been here.
        """
        token = TableToken(incarnation=topology.incarnation, fence=epoch, sink=self._number)
        self._leading = Leading(topology.uuid, f"topology {topology.name!r}, epoch {epoch}", token)
        self._table = None
        if not self._retried(self._lead):
            return None
        last = self._leading.token.commit
        sweep(self.storage, topology.uuid, epoch, last)
        return last

    def stage(self, tx: SinkTransaction, frame: DataFrame) -> list[StagedFile]:
        """Have the rows written as files below the table."""
        with self._lock:
            if self._table is None:  # nobody has told the fields before the first rows
                self.fields = frame.schema
                self._retried(self._lead)
            required = self._table.required if self._table else []
        # What is merged is read again here, so it has all fields.
        return stage(self.storage, tx, frame, () if self.keys else self.partition_by, required)

    def commit(self, tx: SinkTransaction, staged: list[StagedFile]) -> None:
        """Add the files to the table, in one commit with the token; or leave a transaction that is there.

        Where it is there with other rows, those are removed in the same commit.

        Raises:
            SinkError: the table isn't what it was.
            FencedError: a newer leader has been here.
        """
        self._retried(lambda: self._commit(tx, staged))

    def abort(self, tx: SinkTransaction, staged: list[StagedFile] | None) -> None:
        """Remove what an attempt has staged, if anything.

        Not where its transaction is committed: that may be by these very files, and only the answer was lost.
        """
        if self._table is None:
            return
        self._table.look()
        found = self._table.token(self._leading.uuid)
        if found and found.commit and found.commit.txid >= tx.txid:
            return
        discard(self.storage, staged_by(self.storage, tx) if staged is None else _paths(staged))

    # --- one look, one commit -----------------------------------------------------------------------------------------

    def _retried(self, commit: Callable[[], A]) -> A:
        for _ in range(TRIES):
            try:
                return commit()
            except Conflict as error:
                found = error
            except OSError as error:  # which is what deltalake raises where a store does not answer
                raise StoreBusyException(
                    f"{self._leading.who}: {self.storage.uri!r} can't be reached, and will be tried again: {error}"
                ) from error
        raise StoreBusyException(
            f"{self._leading.who}: others commit to {self.storage.uri!r} all the time; {TRIES} commits of ours came "
            f"too late, and will be tried again"
        ) from found

    def _lead(self) -> bool:
        """Have the fence in the table, which is made if the fields are known; return whether there is one now."""
        leading = self._leading
        table = SinkTable.open(self.storage)
        if table is None:
            if self.fields is not None:
                SinkTable.create(self.storage, self.fields, self.partition_by, leading.uuid, leading.token)
                self._table = SinkTable.open(self.storage)
            return self._table is not None
        table.check()
        table.check_layout(self.partition_by)
        if self.fields is not None:
            table.fit(self.fields, merge_schema=self.merge_schema)
        token = leading.token
        if found := table.token(leading.uuid):
            self._check_owner(found)
            token = evolve(token, commit=found.commit, content=found.content)
        table.commit(leading.uuid, token, [])
        leading.token = token
        self._table = table if self.fields is not None else None
        return True

    def _commit(self, tx: SinkTransaction, staged: list[StagedFile]) -> None:
        table, leading = self._table, self._leading
        if table is None:
            raise SinkError(f"{leading.who}: {self.storage.uri!r} was never looked at; call recover() first")
        table.look()
        found = self._checked(table.token(leading.uuid))
        last = found.commit.txid if found.commit else 0
        token = evolve(found, commit=tx.token, content=signed(content_of(staged)))
        if tx.txid < last or found.commit == tx.token:
            return
        self._ensure_staged(tx, staged)
        if tx.txid == last and (self.keys or token.content == found.content):
            table.commit(leading.uuid, token, [])
            discard(self.storage, _paths(staged))
        elif self.keys:
            self._merge(table, token, staged)
            discard(self.storage, _paths(staged))
        else:
            removed = self._files_of(table, found, tx.txid) if tx.txid == last else []
            table.commit(leading.uuid, token, staged, removed)
        leading.token = token

    def _merge(self, table: SinkTable, token: TableToken, staged: list[StagedFile]) -> None:
        if not staged or self.fields is None:
            table.commit(self._leading.uuid, token, [])
            return
        rows = read(self.storage, staged, self.fields)
        again = rows.group_by(list(self.keys)).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
        if again.num_rows:
            key = {name: again[name][0].as_py() for name in self.keys}
            raise SinkError(
                f"{self._leading.who}: transaction {token.commit and token.commit.txid} has {again['count_all'][0]} "
                f"rows with the key {key}, and which of them counts is nowhere said; aggregate the stream by "
                f"{list(self.keys)} before it is merged"
            )
        table.merge(self._leading.uuid, token, rows, self.keys)

    def _files_of(self, table: SinkTable, found: TableToken, txid: int) -> list[str]:
        paths = of_transaction(self._leading.uuid, txid, table.paths)
        if (rows := table.rows_of(paths)) != found.content.rows:
            raise SinkError(
                f"{self._leading.who}: transaction {txid} has other rows than when it was committed, and of the "
                f"{found.content.rows} rows then, {rows} are where it has put them in {self.storage.uri!r}: somebody "
                f"has compacted or deleted them meanwhile, so they can't be replaced; delete them, and restore the "
                f"table's version before"
            )
        return paths

    def _ensure_staged(self, tx: SinkTransaction, staged: Collection[StagedFile]) -> None:
        if gone := missing(self.storage, staged):
            raise FailedException(
                f"{self._leading.who}, attempt {tx.attempt}: {gone[0]!r} was staged below {self.storage.uri!r} and is "
                f"gone before its commit; was the table vacuumed with hardly any retention?"
            )

    def _checked(self, found: TableToken | None) -> TableToken:
        leading = self._leading
        last, known = (each.commit.txid if each and each.commit else 0 for each in (found, leading.token))
        if found is None or found.fence < leading.token.fence or last < known:
            raise SinkError(
                f"{leading.who}: {self.storage.uri!r} knew of transaction {known}, and knows of {last} now: it was "
                f"replaced, or an older version of it restored; restore the newer one, or reset the topology"
            )
        self._check_owner(found)
        return found

    def _check_owner(self, found: TableToken) -> None:
        leading = self._leading
        if found.incarnation != leading.token.incarnation:
            raise SinkError(
                f"{leading.who}: {self.storage.uri!r} has rows of this topology before it was reset, incarnation "
                f"{found.incarnation}; give the sink another table"
            )
        if found.fence > leading.token.fence:
            raise FencedError(
                f"{leading.who}: a leader of epoch {found.fence} has been at {self.storage.uri!r}; end this one"
            )
        if found.fence == leading.token.fence and found.sink != self._number:
            raise SinkError(
                f"{leading.who}: another sink of this topology writes to {self.storage.uri!r}; merge the streams, or "
                f"give each a table of its own"
            )


def _paths(staged: Collection[StagedFile]) -> list[str]:
    return [each.path for each in staged]
