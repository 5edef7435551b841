"""The writer of a `SQLSink`: it writes rows and token in one transaction, under the fence of the table."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import evolve, frozen

from trident_py.errors import SinkError, StateError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.rows.row import column_values
from trident_py.sinks.changes import Merge, MergeFields
from trident_py.sinks.sql.merging import merged_rows
from trident_py.sinks.sql.rows_table import RowsTable
from trident_py.spark.frames import rows_of_frame
from trident_py.states.fenced import Fence, StateHeader
from trident_py.states.sql.catalog import FoundTable
from trident_py.states.sql.dialect import Connection, Database
from trident_py.states.sql.fenced_table import FencedTable
from trident_py.states.sql.leftovers import Leftovers
from trident_py.states.sql.staging import StagingTask
from trident_py.states.sql.state import CHUNK_ROWS
from trident_py.states.sql.stored import StoredRows
from trident_py.worker.pipeline import collector_paused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


@frozen
class Prepared:
    """The receipt: the reports of tasks about the rows that they staged, or the rows themselves.

    Attributes:
        staged: whether ``rows`` contains reports.
        storages: the types of the columns in the staging table.
    """

    rows: pa.Table
    staged: bool
    storages: tuple[str, ...] = ()


class RowsWriter(FencedTable):
    """The writer of one table."""

    def __init__(self, database: Database, name: str, *, by_key: bool, merge: MergeFields | None = None) -> None:
        super().__init__(database, name)
        self._by_key, self._merge = by_key, merge
        self._making = threading.Lock()
        self._made: RowsTable | None = None
        self._found: FoundTable | None = None  # the table for which `_made` was fitted
        self._leftovers = Leftovers()

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Refuse older epochs from now on."""
        self._made = None
        return super().recover(topology, epoch)

    def _claim(self, connection: Connection, fence: Fence, found: StateHeader | None, *, exists: bool) -> StateHeader:
        claim = StateHeader(fence, self._owner, found.columns if found else "")
        if found is None and exists and self._by_key:
            raise SinkError(
                f"topology {fence.topology.name!r}: {self._name} exists and was not made by a topology, so it doesn't "
                f"identify rows by their keys; to fix this: use another table for mode='upsert'",
                topology=fence.topology.name,
            )
        is_newer = found is not None and found.fence.topology.incarnation < fence.topology.incarnation
        table = RowsTable(self._headers.dialect, self._table_name, (), (), self._headers.schema)
        if exists and is_newer and connection.execute(table.has_rows).fetchone():
            raise SinkError(
                f"topology {fence.topology.name!r}: {self._name} has rows from before the topology was reset, and "
                f"would get them again; to fix this: rename the table, or empty it",
                topology=fence.topology.name,
            )
        header, _ = claim.claimed(found, exists=exists and found is not None, state=self._name)
        header = evolve(header, columns="") if is_newer else header
        connection.execute(self._headers.write, [self._table_name, *header.row])
        return header

    def table(self, wanted: RowsTable) -> RowsTable:
        """Return the table, which is made if it does not exist.

        Raises:
            SinkError: it was made for other fields.
        """
        self._check_recovered()
        with self._making:
            if self._made is None or self._made.columns != wanted.columns:
                self._made = self._prepared_table(evolve(wanted, schema=self._headers.schema))
            return self._made

    def _prepared_table(self, table: RowsTable) -> RowsTable:
        where = f"topology {self._topology!r}: {self._name}"
        link = self._database.second_link()
        lock, _, _ = self._headers.dialect.locks
        try:
            with self._database.explained(where), link.transaction() as connection:
                header = self._header(connection, lock, where)
                if header.columns not in ("", table.columns):
                    raise SinkError(
                        f"{where} has the fields {header.columns}, declared are {table.columns}; to fix this: use "
                        f"another table",
                        topology=self._topology,
                    )
                connection.execute(self._headers.write, [table.name, *evolve(header, columns=table.columns).row])
                connection.execute(table.create)
            with self._database.explained(where), link.transaction() as connection:
                found = self._find(connection, table)
        finally:
            link.close()
        self._found = found
        return self._fitted(table, found, where)

    def _find(self, connection: Connection, table: RowsTable) -> FoundTable:
        return self._database.find_table(connection, table.schema, table.name, keys=bool(table.keys))

    def _fitted(self, table: RowsTable, found: FoundTable, where: str) -> RowsTable:
        try:
            return table.fitted(found)
        except StateError as error:
            raise SinkError(f"{where}: {error}", topology=self._topology) from error

    def _as_it_is(self, connection: Connection, tx: SinkTransaction, table: RowsTable, prepared: Prepared) -> RowsTable:
        """Return the current table; its columns stay unchanged until the transaction ends.

        Raises:
            SinkError: it was changed, and the fields don't fit any more.
            StoreBusyException: it was changed, and the staged rows have the types of before.
        """
        found = self._find(connection, table)
        if found != self._found and self._found is not None:
            changes = "; ".join(self._found.differences(found))
            where = f"{self._where(tx)} was changed while the topology ran: {changes}"
            table = self._fitted(table, found, where)
            with self._making:
                self._made, self._found = table, found
            log.warning("%s; its rows are written to the columns that are there now", where)
        if prepared.staged and prepared.storages != table.storages:
            raise StoreBusyException(f"{self._where(tx)} was changed after rows were staged; they are staged again")
        return table

    def prepare(self, tx: SinkTransaction, frame: DataFrame, table: RowsTable) -> Prepared:
        """Stage the rows by tasks, or collect them to the driver if the database has no staging."""
        table = self.table(table)
        if not table.dialect.stages or self._merge is not None:
            return Prepared(rows_of_frame(frame), staged=False)
        reports = rows_of_frame(self.staging_task(tx, table).over(frame))
        return Prepared(reports, staged=True, storages=table.storages)

    def staging_task(self, tx: SinkTransaction, table: RowsTable) -> StagingTask:
        """Make a staging table, and return the task that fills it."""
        staging = table.staging(tx.epoch, tx.txid, tx.attempt.attempt_id)
        _, _, lock = table.dialect.locks
        with self.explained(tx), self._others.transaction(durable=False) as connection:
            self._header(connection, lock, self._where(tx)).fence.check_leader(tx, self._name)
            connection.execute(staging.create)
        return StagingTask(self._database, staging, self._where(tx), table.keys, SinkError)

    def commit(self, tx: SinkTransaction, prepared: Prepared) -> None:
        """Add the rows, unless they are committed already."""
        self._check_recovered()
        table = self._made
        if table is None:
            raise SinkError(f"{self._where(tx)} was not prepared", topology=self._topology, attempt=tx.attempt)
        try:
            with self.explained(tx):
                connection = self.commit_link.begin()
                fence = self.locked_header(connection, tx).fence
                fence.check_leader(tx, self._name)
                tx.ensure_parkable(fence.token, undoes=tx.replaces)
                if fence.token is None or tx.txid > fence.token.txid or (tx.replaces and tx.token > fence.token):
                    table = self._as_it_is(connection, tx, table, prepared)
                    self._write(connection, tx, table, prepared)
                    token = evolve(fence, token=tx.token, group_first=None).commit
                    connection.execute(self._headers.write_token, [*token, table.name])
                    self.pending = evolve(self.known, token=tx.token) if self.known else None
                    self._commit(tx)
        finally:
            self.commit_link.rollback()
        if prepared.staged:
            self.discard(tx)

    def last(self, tx: SinkTransaction) -> CommitToken | None:
        """Return the token of the last commit, read under the lock of a commit."""
        self._check_recovered()
        with self.explained(tx), self.commit_link.transaction() as connection:
            return self.locked_header(connection, tx).fence.token

    def _write(self, connection: Connection, tx: SinkTransaction, table: RowsTable, prepared: Prepared) -> None:
        if prepared.staged:
            self._write_staged(connection, tx, table, prepared.rows)
        elif self._merge is not None:
            with collector_paused():
                self._write_merged(connection, table, merged_rows(prepared.rows, table.fields, table.keys, self._merge))
        else:
            self._write_here(connection, tx, table, prepared.rows)

    def _write_here(self, connection: Connection, tx: SinkTransaction, table: RowsTable, rows: pa.Table) -> None:
        if table.keys:
            times = Counter(StoredRows(table.fields, rows, table.keys).texts())
            self._refuse_double(tx, next((text for text, count in times.items() if count > 1), None))
        for batch in rows.to_batches(CHUNK_ROWS):
            part = StoredRows(table.fields, batch, table.keys)
            with collector_paused():
                bound = list(part.rows())
                if table.keys:
                    bound = [(*row, text) for row, text in zip(bound, part.texts(), strict=True)]
                if bound:
                    self._database.write(connection, table.insert, bound)

    def _write_merged(self, connection: Connection, table: RowsTable, merge: Merge) -> None:
        """Write changes. Rows that keep values and get another key move away first, so that each key is free."""
        if merge.empties:
            connection.execute(table.empty)
        moved = {key: f"~moved {key}" for key, row in merge.partial if row.source != key}
        for key, row in merge.partial:
            if key in moved:
                connection.execute(table.update(()), [moved[key], row.source])
        for first in range(0, len(merge.deleted), CHUNK_ROWS):
            connection.execute(table.delete, [table.dialect.listed(merge.deleted[first : first + CHUNK_ROWS])])
        for key, row in merge.partial:
            pairs = zip(merge.columns, row.values, strict=True)
            changed = {name: value for name, value in pairs if name not in row.kept}
            connection.execute(table.update([*changed]), [*changed.values(), key, moved.get(key, row.source)])
        for first in range(0, len(merge.whole), CHUNK_ROWS):
            self._database.write(connection, table.insert, merge.whole[first : first + CHUNK_ROWS])

    def _write_staged(self, connection: Connection, tx: SinkTransaction, table: RowsTable, reports: pa.Table) -> None:
        reported = {task: rows for task, rows in zip(*map(column_values, reports.columns), strict=True) if rows}
        if not reported:
            return
        staging = table.staging(tx.epoch, tx.txid, tx.attempt.attempt_id)
        tasks = table.dialect.listed(list(reported))
        with self._database.explained(self._where(tx), staged=True):
            found = staging.counted(connection, list(reported))
        if found != reported:
            raise StoreBusyException(
                f"{self._where(tx)}: the staged rows differ from the reported ones; they are staged again"
            )
        if table.keys:
            double = connection.execute(table.find_double(staging), [tasks]).fetchone()
            self._refuse_double(tx, double[0] if double else None)
        connection.execute(table.insert_staged(staging), [tasks])

    def _refuse_double(self, tx: SinkTransaction, key: Any) -> None:
        if key is not None:
            raise SinkError(
                f"{self._where(tx)}: several rows of the batch have the key {key}, and the last one of them is "
                f"unknown; to fix this: aggregate them first, as by Last(...)",
                topology=self._topology,
                attempt=tx.attempt,
            )

    def discard(self, tx: SinkTransaction) -> None:
        """Drop the staging table of an attempt."""
        if self._headers.dialect.stages and self._made is not None:
            staging = self._made.staging(tx.epoch, tx.txid, tx.attempt.attempt_id)
            self._leftovers.names.add(staging.name)
            self.clean()

    def clean(self) -> None:
        """Drop unneeded staging tables, except in a transaction with other tables, which may be reading them."""
        if self._made is not None and self.commit_link.around is None:
            self._leftovers.drop(self._database, self._others, self._made)

    def sweep(self, table: RowsTable, epoch: int) -> None:
        """Drop the staging tables of older leaders."""
        if self._headers.dialect.stages:
            placed = evolve(table, schema=self._headers.schema)
            with self._database.starting(f"topology {self._topology!r}: {self._name}"):
                self._leftovers.add_older(self._others, placed, epoch)
            self._leftovers.drop(self._database, self._others, placed)
