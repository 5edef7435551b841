"""A Spark task that changes a state by user code: it reads values as of the transaction before, and stages new ones."""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import asdict, define, field, frozen
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import Key, RemovableMapState, StateChange, TaskedState, TaskReader, ValueUpdater
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of
from trident_py.states.fenced import Expiry
from trident_py.states.keys import encode_keys
from trident_py.states.sql.columns import naming_unfit
from trident_py.states.sql.dialect import Connection, ending_at_refusals
from trident_py.states.sql.reading import TableTaskReader
from trident_py.states.sql.staging import StagingSQLMapState, StagingTask, link_of
from trident_py.states.sql.state import RemovedRows, updated_values
from trident_py.states.sql.table import READ_MAX, TOKEN, Staging, Table
from trident_py.worker.failures import by_state, telling

UPDATES = schema_of(
    "task bigint, rows bigint, removed bigint, token string, emitted array<struct<place:int,stream:int,rows:binary>>"
)
"""The report of a task: its number, the numbers of keys that it has set and removed, and the token that it read.

The last field is what it has emitted, see `Emitted`.
"""


@frozen
class ValuesBefore:
    """Reads the values of ``table`` as they were before transaction ``txid``.

    An earlier attempt may have changed them. An update starts from the values before, so a replay replaces it.

    Attributes:
        expiry: the keys that have expired by the transaction, and have no value.
    """

    table: Table
    txid: int
    expiry: Expiry

    def read(self, connection: Connection, texts: Sequence[str]) -> dict[str, Any]:
        """Return the values of the keys with these texts; a key without a value is left out."""
        of, loaded, txid = self.table.dialect, self.table.value.loaded, self.txid
        since, upto = self.expiry.since or 0, -1 if self.expiry.upto is None else self.expiry.upto
        found: dict[str, Any] = {}
        for first in range(0, len(texts), READ_MAX):
            some = of.listed(list(texts[first : first + READ_MAX]))
            here, gone = [txid, some, txid], [some, txid]
            if self.table.timed:
                here, gone = [*here, txid, since, upto], [*gone, since, upto]
            rows = connection.execute(self._statement, [*here, *gone]).fetchall()
            found.update((text, loaded(value)) for text, value in rows)
        return found

    @property
    def _statement(self) -> str:
        of, table = self.table.dialect, self.table
        key, txid, born, value = (of.quoted(name) for name in ("_key", "_txid", "_born", table.value.name))
        changed, alive = (
            f"CASE WHEN {txid} = {of.mark} THEN {{}} ELSE {{}} END",
            f" AND coalesce({{}}, {of.mark}) > {of.mark}",
        )
        before = changed.format(of.quoted("_prev"), value)
        written = changed.format(of.quoted("_prev_time"), of.quoted("_time"))
        is_alive, was_alive = (alive.format(each) if table.timed else "" for each in (written, of.quoted("_time")))
        return (
            f"SELECT {key}, {before} FROM {table.there} WHERE {key} {of.among} AND {born} <> {of.mark}{is_alive} "
            f"UNION ALL SELECT {key}, {value} FROM {RemovedRows(table).there} "
            f"WHERE {key} {of.among} AND {txid} = {of.mark} AND {born} <> {txid}{was_alive}"
        )


@define
class TaskState(RemovableMapState[Any]):
    """The state as a task sees it: the values before the transaction, and the task's own changes.

    Attributes:
        changed: the changed keys with their values, or `REMOVE`, by the texts of the keys.
    """

    before: ValuesBefore
    connection: Connection
    changed: dict[str, tuple[Key, Any]] = field(factory=dict, init=False)

    def begin_commit(self, txid: int) -> None:
        """Do nothing: the driver commits."""

    def commit(self, txid: int) -> None:
        """Do nothing: the driver commits."""

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        return self._values(encode_keys(keys))

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        texts = encode_keys(keys)
        values = updated_values(dict(zip(texts, self._values(texts), strict=True)), texts, updaters)
        self._put(texts, keys, values)
        return [None if value is REMOVE else value for value in values]

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        self._put(encode_keys(keys), keys, values)

    def _put(self, texts: Sequence[str], keys: Sequence[Key], values: Sequence[Any]) -> None:
        self.changed.update((text, (key, value)) for text, key, value in zip(texts, keys, values, strict=True))

    def multi_remove(self, keys: Sequence[Key]) -> None:
        self.multi_put(keys, [REMOVE] * len(keys))

    def _values(self, texts: Sequence[str]) -> list[Any]:
        found = self.before.read(self.connection, [text for text in dict.fromkeys(texts) if text not in self.changed])
        found.update((text, self.changed[text][1]) for text in texts if text in self.changed)
        return [None if (value := found.get(text)) is REMOVE else value for text in texts]


@frozen(kw_only=True)
class UpdateTask:
    """Applies a change to the keys of a partition, and stages the new values; sent to the worker.

    The new values are staged under the task's number, and the removed keys under its complement.
    """

    staging: StagingTask
    before: ValuesBefore
    change: StateChange

    def over(self, frame: DataFrame) -> DataFrame:
        """Return the reports of tasks that change the state by the rows of ``frame``, partition by partition."""
        return frame.mapInArrow(telling(self, by_state), UPDATES)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as a function for ``DataFrame.mapInArrow``."""
        context = TaskContext.get()
        task, partition = (context.taskAttemptId(), context.partitionId()) if context else (0, 0)
        yield self.updated(task, batches, partition)

    def updated(self, task: int, batches: Iterator[pa.RecordBatch], partition: int = 0) -> pa.RecordBatch:
        """Change the state by ``batches``, the rows of a partition, as ``task``; return its report."""
        given = list(batches)
        rows = pa.Table.from_batches(given) if given else pa.table({})
        database, where = self.staging.database, self.staging.where
        with (
            ending_at_refusals(),
            database.explained(where, staged=True),
            naming_unfit(where),
            link_of(database).transaction() as connection,
        ):
            state = TaskState(self.before, connection)
            token = stored_token(connection, self.before.table)
            emitted = self.change.apply(state, rows, partition)
            removed = [(*key, None) for key, value in state.changed.values() if value is REMOVE]
            kept = [(*key, value) for key, value in state.changed.values() if value is not REMOVE]
            for number, rows in ((task, kept), (~task, removed)):
                self.staging.load(connection, number, self._arrow(rows))
        told = {"token": token, "emitted": [asdict(each) for each in emitted]}
        report = {"task": task, "rows": len(kept), "removed": len(removed), **told}
        return pa.RecordBatch.from_pylist([report], schema=arrow_schema(UPDATES))

    def _arrow(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        columns = self.before.table.fields
        schema = StructType([StructField(column.name, column.kind) for column in columns])
        return iter(arrow_table(rows, schema).to_batches()) if rows else iter(())


def stored_token(connection: Connection, table: Table) -> str:
    """Return the text of the state's last commit token; empty: nothing was committed."""
    query = f"SELECT {', '.join(TOKEN)} FROM {table.headers.there} WHERE state = {table.dialect.mark}"
    row = connection.execute(query, [table.name]).fetchone()
    return "" if row is None or row[0] is None else ":".join(str(part) for part in row[:3])


class TaskedSQLMapState(StagingSQLMapState, TaskedState[Any]):
    """A SQL state that tasks change by user code."""

    @property
    def task_reader(self) -> TaskReader | None:
        return TableTaskReader(self._database, self._table, f"topology {self._topology!r}: {self._name}")

    def update(self, tx: SinkTransaction, change: StateChange, frame: DataFrame) -> DataFrame | None:
        task = self.update_task(tx, change)
        return task.over(frame) if task else None

    def update_task(self, tx: SinkTransaction, change: StateChange) -> UpdateTask | None:
        """Make a staging table, and return the task that fills it; None: ``tx`` is committed already."""
        self._check_recovered()
        with self.explained(tx), self._others.transaction(durable=False) as connection:
            header = self._header(connection, "", self._where(tx))
            due, _ = header.fence.due([tx], self._name)
        if not due:
            return None
        before = ValuesBefore(self._table, tx.txid, header.expiry.after(tx.time, self._removals.ttl))
        return UpdateTask(staging=self.staging_task(tx), before=before, change=change)

    def replace_staged(self, reports: Sequence[Sequence[Any]]) -> None:
        connection, tx = self._in_transaction()
        token = stored_token(connection, self._table)
        for *_, read in reports:
            if read != token:
                raise StoreBusyException(
                    f"{self._where(tx)}: a task has read the values of {read or 'no transaction'}, and the table is at "
                    f"{token or 'no transaction'}: a replica that is behind has answered it; the attempt is replayed"
                )
        kept = {task: rows for task, rows, _, _ in reports if rows}
        removed = {~task: removed for task, _, removed, _ in reports if removed}
        staging = self._staging(tx)
        if kept or removed:
            self._verify(connection, tx, staging, kept | removed)
            self._check_unshared(connection, tx, staging, kept | removed)
        with self.explained(tx):
            if removed:
                self._removals.take_staged(connection, staging, self._listed(removed))
            if kept:
                self._removals.before_merge(connection, staging, self._listed(kept), sum(kept.values()))
                stamp = self._table.stamp(tx.txid, tx.time)
                connection.execute(self._table.merge(staging, None), [*stamp, self._listed(kept)])

    def _check_unshared(
        self, connection: Connection, tx: SinkTransaction, staging: Staging, reported: dict[int, int]
    ) -> None:
        with self.explained(tx):
            twice = connection.execute(staging.shared_key, [self._listed(reported)]).fetchone()
        if twice is not None:
            raise StateError(
                f"{self._where(tx)}: two partitions have changed the key {twice[0]}; to fix this: use `partition_by` "
                f"with the fields of the key before the updater, or placement='driver'",
                state=self._table.name,
                attempt=tx.attempt,
            )

    def _listed(self, tasks: Iterable[int]) -> Any:
        return self._table.dialect.listed(list(tasks))
