"""What `PostgresState` makes: values by key in one table; Spark's tasks stage changes, one transaction merges them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import localcontext
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
from attrs import evolve
from pyspark.sql import DataFrame

from coordinators.errors import located
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import GroupState, ITupleCollection, Key, StagingState, ValueUpdater, combiner_updater
from trident_py.states.fenced import EXACT_DECIMALS, Fence
from trident_py.states.keys import encode_keys
from trident_py.states.sql.columns import loaded_rows
from trident_py.states.sql.commit_row import StateHeader, TableStep
from trident_py.states.sql.postgres_client import (
    GONE,
    TAKEOVER_SECS,
    Connection,
    Link,
    Session,
    Target,
    explained,
    starting,
)
from trident_py.states.sql.postgres_leftovers import DROP_SECS, Leftovers
from trident_py.states.sql.postgres_staging import StagingTask
from trident_py.states.sql.postgres_table import HAS_COLUMN, HAS_TABLE, Staging, Table, rows_of

log = logging.getLogger(__name__)

_CHUNK_ROWS = 1_000  # what user code combines before the server hears of us again

# A takeover keeps everybody out. A commit keeps out takeovers and other commits; what is staged meanwhile waits for
# a takeover only.
_RAISING, _COMMITTING, _STAGING = "FOR UPDATE", "FOR NO KEY UPDATE", "FOR KEY SHARE"


class PostgresMapState(StagingState[Any], GroupState[Any], ITupleCollection):
    """Values by key in one table, each with its previous value, beside a row that has the fence and the last token."""

    def __init__(self, target: Target, table: Table) -> None:
        self._target = target
        self._table = table
        self._name = f"table {table.name!r} of {target.shown}"
        self._topology = ""
        self._owner = uuid4().hex
        self._commits = Link(target)
        self._others = Link(target)  # what goes on beside a commit: reading, making room for attempts, cleaning up
        self._run: Sequence[SinkTransaction] = ()
        self._commit_row: tuple[int | None, ...] = ()  # what the open transaction stores of itself
        self._open: tuple[Connection, SinkTransaction, int] | None = None
        self._staged: set[str] = set()
        self._leftovers = Leftovers()
        self._known: Fence | None = None  # as this leader last saw it
        self._checked: Session | None = None

    # --- takeover -----------------------------------------------------------------------------------------------------

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """A new leader takes over: make what is missing, refuse older epochs from now on, sweep what they staged."""
        self.close()
        where = f"topology {topology.name!r}: {self._name}"
        self._connect_as(topology, epoch)
        with starting(where, self._target):
            self._target.check()
            self._end_older_leaders(epoch)
            self._prepare(where)
            with self._commits.transaction(TAKEOVER_SECS) as connection:
                fence = self._take_over(connection, topology, epoch)
            self._topology, self._known = topology.name, fence
            self._leftovers.add_older(self._others, self._table, epoch)
        self._clean()
        return fence.token

    def _connect_as(self, topology: TopologyKey, epoch: int) -> None:
        """Have the server know every connection of this leader, and of its tasks, by topology, table and epoch."""
        table = sha256(self._table.name.encode()).hexdigest()[:8]
        self._target = evolve(self._target, application=f"trident {topology.uuid[:8]} {table} {epoch}")
        self._commits, self._others = Link(self._target), Link(self._target)

    def _end_older_leaders(self, epoch: int) -> None:
        """End the connections of older leaders: one that was paused in mid-transaction would hold its locks till then.

        They have lost the epoch already, so nothing is taken from them that could still have been closed.
        """
        prefix = self._target.application.rpartition(" ")[0]
        with self._others.transaction() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND usename = current_user AND application_name ~ %s "
                "AND (regexp_match(application_name, '[0-9]+$'))[1]::bigint < %s",
                [f"^{prefix} [0-9]+$", epoch],
            )

    def _prepare(self, where: str) -> None:
        """Find the schema, and make the table of the headers where there is none."""
        with self._commits.transaction(TAKEOVER_SECS) as connection:
            if self._commits.schema is None:
                raise StateError(f"{where}: no schema of its search_path exists; create one, or name one in the DSN")
            if connection.info.parameter_status("server_encoding") != "UTF8":
                raise StateError(f"{where}: the database is not in UTF8; create one with ENCODING 'UTF8'")
            self._table = evolve(self._table, schema=self._commits.schema)
            # Where two make it at once, IF NOT EXISTS alone ends in an error.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('_trident', 0))")
            connection.execute(self._table.create_books)
            has_runs = connection.execute(HAS_COLUMN, [self._table.schema, "_trident", "run_first"]).fetchone()
            if not has_runs:  # asked first, since widening waits for everybody who uses the headers
                connection.execute(self._table.widen_books)

    def _take_over(self, connection: Connection, topology: TopologyKey, epoch: int) -> Fence:
        table = self._table
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [f"{table.schema}.{table.name}"])
        row = connection.execute(table.read_book(_RAISING), [table.name]).fetchone()
        found = StateHeader.of(row) if row else None
        claim = StateHeader(Fence(topology, epoch), self._owner, table.columns)
        exists = connection.execute(HAS_TABLE, [table.schema, table.name]).fetchone() is not None
        header, step = claim.claimed(found, exists=exists, state=self._name)
        if step is TableStep.REPLACE and found:
            connection.execute(table.set_aside(found.fence.topology.incarnation))
        if step is not TableStep.KEEP:
            connection.execute(table.create)
        connection.execute(table.write_header, [table.name, *header.row])
        return header.fence

    # --- transactions -------------------------------------------------------------------------------------------------

    def begin_group(self, run: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open ``run`` under the lock of the state's header; gives up a transaction that was left open."""
        self.rollback()
        self._check_recovered()
        with self._explained(run[0]):
            connection = self._commits.begin()
            try:
                fence = self._header(connection, run[0], _COMMITTING).fence
                due, redo = fence.due(run, self._name)
                if redo:
                    delete, restore = self._table.undo
                    connection.execute(delete, [due[0].txid, due[0].txid])
                    connection.execute(restore, [due[0].txid])
            except BaseException:
                self._commits.rollback()
                raise
        if due:
            self._run, self._commit_row = run, fence.after(run).commit
            self._open = (connection, due[0], threading.get_ident())
        else:
            self._commits.rollback()
            for tx in (each for each in run if self._staging(each).name in self._staged):
                self.discard(tx)  # it is committed already
        return due

    def begin_member(self, tx: SinkTransaction) -> None:
        """What is written from now on has this txid."""
        connection, _ = self._in_transaction()
        self._open = connection, tx, threading.get_ident()

    def commit_group(self) -> None:
        """Commit changes and token together; durable when this returns."""
        connection, tx = self._in_transaction()
        with self._explained(tx):
            self._finish(connection)
            self._commit(connection, tx)
        self._known = self._known.after(self._run) if self._known else None
        self._open = None
        self._clean()

    def rollback(self) -> None:
        """Give up the open transaction."""
        self._open = None
        self._commits.rollback()

    def _finish(self, connection: Connection) -> None:
        """The last statements of a transaction."""
        connection.execute(self._table.write_token, [*self._commit_row, self._table.name])
        for staging in map(self._staging, self._run):
            if staging.name not in self._staged:
                continue
            self._staged.discard(staging.name)
            try:
                with connection.transaction():  # a savepoint
                    connection.execute(f"SET LOCAL lock_timeout = {int(DROP_SECS * 1000)}")
                    connection.execute(staging.drop)
            except psycopg.errors.LockNotAvailable:
                self._leftovers.names.add(staging.name)

    def _commit(self, connection: Connection, tx: SinkTransaction) -> None:
        try:
            answer = connection.execute("COMMIT").statusmessage
            if answer != "COMMIT":  # what the server says where something had failed before
                raise StoreBusyException(f"{self._where(tx)}: nothing was committed, the server said {answer}")
        except psycopg.Error as error:
            if not connection.closed:
                raise  # that was the server's answer: nothing is committed
            log.warning(
                "%s: the answer to COMMIT was lost (%s); reading back", self._where(tx), self._target.redacted(error)
            )
            if not self._is_committed(tx):
                raise StoreBusyException(f"{self._where(tx)}: the connection was lost, nothing was committed") from None

    def _is_committed(self, tx: SinkTransaction) -> bool:
        """Whether the token is there; waits for the lock, so the connection that was lost has ended its transaction."""
        self._commits.close()
        with self._commits.transaction() as connection:
            return self._header(connection, tx, _COMMITTING).fence.token == tx.token

    def _header(self, connection: Connection, tx: SinkTransaction, lock: str) -> StateHeader:
        return self._kept_header(connection, lock, self._where(tx))

    def _kept_header(self, connection: Connection, lock: str, where: str) -> StateHeader:
        """This state's header, with all that this leader knows to be in it."""
        known = self._known  # before it is read: a commit may end meanwhile
        row = connection.execute(self._table.read_book(lock), [self._table.name]).fetchone()
        if row is None:
            raise StateError(f"{where} has lost its row in _trident; restore the database")
        header = StateHeader.of(row)
        if known is not None:
            header.fence.check_kept(known, where)
        return header

    # --- what tasks stage ---------------------------------------------------------------------------------------------

    def stage(self, tx: SinkTransaction, frame: DataFrame) -> DataFrame:
        """Make the attempt's staging table; the frame's tasks copy into it."""
        return self.staging_task(tx).over(frame)

    def staging_task(self, tx: SinkTransaction) -> StagingTask:
        """What each task does, with a table to do it in."""
        self._check_recovered()
        staging = self._staging(tx)
        with self._explained(tx), self._others.transaction() as connection:
            self._header(connection, tx, _STAGING).fence.check_leader(tx, self._name)
            connection.execute("SET LOCAL synchronous_commit = off")  # a crash that loses it loses the rows, too
            connection.execute(self._table.create_staging(staging))
        self._staged.add(staging.name)
        return StagingTask(self._target, staging, self._where(tx))

    def merge_staged(self, reports: Sequence[Sequence[Any]], aggregator: CombinerAggregator[Any]) -> None:
        """Combine what the reported tasks staged into the table, if it is all there."""
        connection, tx = self._in_transaction()
        reported = {task: (rows, checksum) for task, rows, checksum in reports if rows}
        if not reported:
            return
        staging, tasks = self._staging(tx), list(reported)
        self._verify(connection, tx, staging, reported)
        with self._explained(tx):
            if aggregator.merge in self._table.value.merges:
                connection.execute(self._table.merge(staging, aggregator.merge), [tx.txid, tx.txid, tasks])
            else:
                self._merge_here(connection, staging, tasks, aggregator)

    def discard(self, tx: SinkTransaction) -> None:
        """Drop the attempt's staging table; one that a cancelled task still writes to, later."""
        name = self._staging(tx).name
        self._staged.discard(name)
        self._leftovers.names.add(name)
        self._clean()

    def _verify(
        self, connection: Connection, tx: SinkTransaction, staging: Staging, reported: dict[int, tuple[int, str]]
    ) -> None:
        with explained(self._where(tx), self._target, GONE):
            sums = connection.execute(staging.sums, [list(reported)]).fetchall()
        found = {task: (rows, checksum) for task, rows, checksum in sums}
        if found != reported:
            wanted, there = (sum(rows for rows, _ in each.values()) for each in (reported, found))
            raise StoreBusyException(
                f"{self._where(tx)}: {wanted} rows were staged and {there} are there, or others; a crash of the server "
                f"empties what is staged; the attempt is replayed"
            )

    def _merge_here(
        self, connection: Connection, staging: Staging, tasks: list[int], aggregator: CombinerAggregator[Any]
    ) -> None:
        loaded = self._table.value.loaded
        with connection.cursor(name="_staged") as cursor:
            cursor.execute(staging.rows, [tasks])
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                updaters = [combiner_updater(aggregator, loaded(row[-1])) for row in rows]
                self._update([row[0] for row in rows], [row[1:-1] for row in rows], updaters)

    def _staging(self, tx: SinkTransaction) -> Staging:
        return self._table.staging(tx.epoch, tx.txid, tx.attempt.attempt_id)

    def _clean(self) -> None:
        self._leftovers.drop(self._others, self._table)

    # --- values -------------------------------------------------------------------------------------------------------

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """The value of each key; None where there is none."""
        texts = encode_keys(keys)
        if self._open is not None and self._open[2] == threading.get_ident():
            stored = self._read(self._open[0], texts)
        else:
            with self._reading() as connection:
                stored = self._read(connection, texts)
        return [stored.get(text) for text in texts]

    def get_tuples(self) -> list[tuple[Any, ...]]:
        """The committed values: for each key its values, then the value."""
        with self._reading() as connection:
            rows = connection.execute(self._table.read_all).fetchall()
        return loaded_rows((*self._table.keys, self._table.value), rows)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """What was committed; a connection that is new may lead to a server that has lost some of it."""
        self._check_recovered()
        with explained(self._name, self._target), self._others.transaction() as connection:
            if self._others.session is not self._checked:
                self._kept_header(connection, "", f"topology {self._topology!r}: {self._name}")
                self._checked = self._others.session
            yield connection

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        """Replace the value of each key by what its updater makes of it."""
        return self._update(encode_keys(keys), keys, updaters)

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Set the value of each key."""
        self._write(encode_keys(keys), keys, values, None)

    def multi_merge(self, keys: Sequence[Key], partials: Sequence[Any], aggregator: CombinerAggregator[Any]) -> None:
        """Combine ``partials[i]`` into the value of ``keys[i]``; in SQL where that is the same."""
        if aggregator.merge in self._table.value.merges:
            self._write(encode_keys(keys), keys, partials, aggregator.merge)
        else:
            super().multi_merge(keys, partials, aggregator)

    def _read(self, connection: Connection, texts: list[str]) -> dict[str, Any]:
        loaded = self._table.value.loaded
        rows = connection.execute(self._table.read, [texts])
        return {text: loaded(value) for text, value in rows}

    def _update(self, texts: list[str], keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        connection, tx = self._in_transaction()
        values: list[Any] = []
        for start in range(0, len(texts), _CHUNK_ROWS):
            part = slice(start, start + _CHUNK_ROWS)
            with self._explained(tx):
                current = self._read(connection, texts[part])
            with localcontext(EXACT_DECIMALS):
                for text, updater in zip(texts[part], updaters[part], strict=True):
                    current[text] = updater(current.get(text))
                    values.append(current[text])
            self._write(texts[part], keys[part], values[part], None)
        return values

    def _write(self, texts: list[str], keys: Sequence[Key], values: Sequence[Any], merge: str | None) -> None:
        connection, tx = self._in_transaction()
        if not texts:
            return
        columns = [*rows_of(self._table.keys, keys), self._table.value.stored(values), texts]
        with self._explained(tx):
            rows = [(*row, tx.txid, tx.txid) for row in zip(*columns, strict=True)]
            connection.cursor().executemany(self._table.upsert(merge), rows)

    def close(self) -> None:
        """Drop what is staged and close the connections."""
        self._open = None
        if self._topology:
            self._leftovers.names |= self._staged
            self._staged.clear()
            self._clean()
        self._topology = ""
        for link in (self._commits, self._others):
            link.close()

    # --- everywhere ---------------------------------------------------------------------------------------------------

    def _check_recovered(self) -> None:
        if not self._topology:
            raise StateError(f"{self._name} is not open: it was not recovered, or is closed")

    def _in_transaction(self) -> tuple[Connection, SinkTransaction]:
        if self._open is None:
            raise StateError(f"{self._name} changes only between begin_transaction and end_transaction")
        return self._open[0], self._open[1]

    def _where(self, tx: SinkTransaction) -> str:
        return f"topology {self._topology!r}, attempt {tx.attempt}: {self._name}"

    @contextmanager
    def _explained(self, tx: SinkTransaction) -> Iterator[None]:
        with located(topology=self._topology, attempt=tx.attempt), explained(self._where(tx), self._target):
            yield
