"""A SQL state with staging tables for the changes of Spark's tasks; and such a task, for Python workers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark import TaskContext
from pyspark.sql import DataFrame

from trident_py.errors import SinkError, StateError, StoreBusyException, TridentError
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import StagingState, combiner_updater
from trident_py.rows.row import column_values
from trident_py.states.sql.columns import naming_unfit
from trident_py.states.sql.dialect import Connection, Database, Link, ending_at_refusals
from trident_py.states.sql.leftovers import Leftovers
from trident_py.states.sql.state import CHUNK_ROWS, SQLMapState
from trident_py.states.sql.stored import StoredRows
from trident_py.states.sql.table import Staging, Table
from trident_py.worker.failures import by_state, telling

REPORTS = "task bigint, rows bigint"
"""The report of a task to the driver: its number, and the number of rows that it stored."""

_ARROW = pa.schema([("task", pa.int64()), ("rows", pa.int64())])
_links: dict[tuple[int, object], Link] = {}


def reported_rows(reports: pa.Table) -> int:
    """Return the number of rows that the tasks have reported; a task that Spark ran twice counts once."""
    tasks, rows = (column_values(reports.column(name)) for name in ("task", "rows"))
    return sum(dict(zip(tasks, rows, strict=True)).values())


class StagingSQLMapState(SQLMapState, StagingState[Any]):
    """A SQL state with a staging table for each attempt, which tasks fill and one statement merges.

    A table is made and dropped outside of commits, in its own transactions: some databases commit before and after each
    such statement.
    """

    def __init__(self, database: Database, table: Table, ttl: int | None = None) -> None:
        super().__init__(database, table, ttl)
        self._staged: set[str] = set()
        self._leftovers = Leftovers()

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader; drop the staging tables of older ones."""
        token = super().recover(topology, epoch)
        with self._database.starting(f"topology {topology.name!r}: {self._name}"):
            for table in filter(None, (self._table, self.stored_before)):
                self._leftovers.add_older(self._others, table, epoch)
        self.clean()
        return token

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open the group; drop the staging tables of transactions that are committed already."""
        due = super().begin_group(members)
        if not due:
            self._leave(members)
        return due

    def commit_group(self) -> None:
        """Commit, then drop the staging tables."""
        super().commit_group()
        self._leave(self._group)

    def close(self) -> None:
        """Drop the staging tables, and close the connections."""
        if self._topology:
            self._leftovers.names |= self._staged
            self._staged.clear()
            self.clean()
        super().close()

    def stage(self, tx: SinkTransaction, frame: DataFrame) -> DataFrame:
        """Make the attempt's staging table, which the tasks of the returned frame fill."""
        return self.staging_task(tx).over(frame)

    def staging_task(self, tx: SinkTransaction) -> StagingTask:
        """Make a staging table, and return the task that fills it."""
        self._check_recovered()
        staging = self._staging(tx)
        _, _, lock = self._table.dialect.locks
        with self.explained(tx), self._others.transaction(durable=False) as connection:
            # A crash that loses it loses the rows, too.
            self._header(connection, lock, self._where(tx)).fence.check_leader(tx, self._name)
            connection.execute(staging.create)
        self._staged.add(staging.name)
        return StagingTask(self._database, staging, self._where(tx), tuple(range(len(self._table.keys))))

    def merges(self, aggregator: ReducerAggregator[Any] | CombinerAggregator[Any]) -> bool:
        return isinstance(aggregator, CombinerAggregator) and aggregator.merge in self._table.value.merges

    def merge_staged(self, reports: Sequence[Sequence[Any]], aggregator: CombinerAggregator[Any]) -> None:
        """Combine the staged rows of the reported tasks into the table, if all rows are there."""
        connection, tx = self._in_transaction()
        reported = {task: rows for task, rows in reports if rows}
        if not reported:
            return
        staging, tasks = self._staging(tx), self._table.dialect.listed(list(reported))
        self._verify(connection, tx, staging, reported)
        with self.explained(tx):
            if self.merges(aggregator):
                self._removals.before_merge(connection, staging, tasks, sum(reported.values()))
                stamp = self._table.stamp(tx.txid, tx.time)
                connection.execute(self._table.merge(staging, aggregator.merge), [*stamp, tasks])
            else:
                self._merge_here(connection, staging, tasks, aggregator)

    def discard(self, tx: SinkTransaction) -> None:
        """Drop the attempt's staging table; if a cancelled task still writes to it, drop it later."""
        name = self._staging(tx).name
        self._staged.discard(name)
        self._leftovers.names.add(name)
        self.clean()

    def _verify(self, connection: Connection, tx: SinkTransaction, staging: Staging, reported: dict[int, int]) -> None:
        with self._database.explained(self._where(tx), staged=True):
            found = staging.counted(connection, list(reported))
        if found != reported:
            raise StoreBusyException(
                f"{self._where(tx)}: {sum(reported.values())} rows were staged and {sum(found.values())} are there; "
                f"a crash of the server empties what is staged; the attempt is replayed"
            )

    def _merge_here(
        self, connection: Connection, staging: Staging, tasks: Any, aggregator: CombinerAggregator[Any]
    ) -> None:
        loaded = self._table.value.loaded
        for rows in self._database.portions(connection, staging.rows, [tasks], CHUNK_ROWS):
            updaters = [combiner_updater(aggregator, loaded(row[-1])) for row in rows]
            keys = [
                [column.loaded(part) for column, part in zip(self._table.keys, row[1:-1], strict=True)] for row in rows
            ]
            self._update([row[0] for row in rows], keys, updaters)

    def _leave(self, members: Sequence[SinkTransaction]) -> None:
        """Drop the staging tables of these transactions, which are no longer needed."""
        names = {self._staging(tx).name for tx in members} & self._staged
        self._staged -= names
        self._leftovers.names |= names
        self.clean()

    def _staging(self, tx: SinkTransaction) -> Staging:
        return self._table.staging(tx.epoch, tx.txid, tx.attempt.attempt_id)

    def clean(self) -> None:
        """Drop unneeded staging tables, except in a transaction with other tables, which may be reading them."""
        if self.commit_link.around is None:
            self._leftovers.drop(self._database, self._others, self._table)


@frozen
class StagingTask:
    """Stores the rows of a partition and reports them; sent to the worker.

    Attributes:
        where: names the topology, the attempt and the table in errors.
        keys: the positions of the key columns.
        refusal: the class of the error if the database or a column refuses a value.
    """

    database: Database
    staging: Staging
    where: str
    keys: tuple[int, ...]
    refusal: type[TridentError] = StateError

    def over(self, frame: DataFrame) -> DataFrame:
        """Return the reports of the tasks that store the rows of ``frame``."""
        return frame.mapInArrow(telling(self, by_state), REPORTS)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as a function for ``DataFrame.mapInArrow``."""
        context = TaskContext.get()
        task = context.taskAttemptId() if context else 0
        yield pa.RecordBatch.from_pylist([{"task": task, "rows": self.staged(task, batches)}], schema=_ARROW)

    def staged(self, task: int, batches: Iterator[pa.RecordBatch]) -> int:
        """Store ``batches`` as the rows of ``task``, all or none; return their number."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return 0
        link = link_of(self.database)
        try:
            with (
                nullcontext() if self.refusal is SinkError else ending_at_refusals(),
                self.database.explained(self.where, staged=True),
                naming_unfit(self.where),
                link.transaction() as connection,
            ):
                return self.load(connection, task, chain([first], filled))
        except StateError as error:
            raise self.refusal(str(error)) from error

    def load(self, connection: Connection, task: int, batches: Iterable[pa.RecordBatch]) -> int:
        """Store ``batches`` as the rows of ``task`` in an open transaction; return their number."""
        parts = (StoredRows(self.staging.columns, batch, self.keys) for batch in batches)
        return self.database.load(connection, self.staging.there, self.staging.loaded, parts, task)


def link_of(database: Database) -> Link:
    """Return this process's connection to the database, for all staging; a parent process's one is not used."""
    key = (os.getpid(), database.server)
    if key not in _links:
        _links[key] = database.beside()
    _links[key].serve(database)
    return _links[key]
