"""A PostgresState that keeps books about itself, in the transactions that it commits: what the checker goes by.

``ledger`` has a row for each transaction as it stands, ``ledger_log`` one for everything that was ever committed, in
the order in which it was: a commit, or a fence that was raised (which has no txid).
"""
# ruff: noqa: S608 - names of ours

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from coordinators.values.attempt import TransactionAttempt
from tests.faults.points import Points
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import ReducerAggregator
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.states import PostgresState
from trident_py.states.fenced import Fence
from trident_py.states.sql.dialect import Connection, Database
from trident_py.states.sql.staging import StagingSQLMapState
from trident_py.states.sql.table import Table, placed
from trident_py.states.sql.updating import TaskedSQLMapState

TABLES = (
    "CREATE TABLE IF NOT EXISTS {} (txid bigint, epoch bigint, attempt bigint, deltas jsonb, extents jsonb, "
    "time bigint)",
    "CREATE TABLE IF NOT EXISTS {} (seq bigserial, txid bigint, epoch bigint, attempt bigint)",
)
DELTAS = """
    SELECT coalesce(jsonb_object_agg(word, count - coalesce(_prev, 0)), '{{}}') FROM {} WHERE _txid = %s"""


class Tally(ReducerAggregator[int]):
    """Counts rows by user code, which a state in tasks runs there."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        return curr + 1


class LedgerState(StagingSQLMapState):
    """Writes the ledger, and tells the points where it is."""

    def __init__(
        self, database: Database, table: Table, points: Points, announced: dict[TransactionAttempt, object]
    ) -> None:
        super().__init__(database, table)
        self._points = points
        self._announced = announced

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        self._points.reach("before_fence")
        token = super().recover(topology, epoch)
        self._points.journal.tell("fence", epoch=epoch, token=token.txid if token else None)
        self._points.reach("after_fence")
        return token

    def _take_over(self, connection: Connection, topology: TopologyKey, epoch: int) -> Fence:
        fence = super()._take_over(connection, topology, epoch)
        for table, create in zip((self._ledger, self._log), TABLES, strict=True):
            connection.execute(create.format(table))
        connection.execute(f"INSERT INTO {self._log} (epoch) VALUES (%s)", [epoch])
        self._points.reach("in_fence")
        return fence

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        self._points.reach("before_merge")
        self._member: SinkTransaction | None = None
        due = super().begin_group(members)
        if due:
            connection, tx = self._in_transaction()
            token = self.locked_header(connection, tx).fence.token
            if token is not None and token.txid == tx.txid:  # an older attempt's, which is rolled back
                connection.execute(f"DELETE FROM {self._ledger} WHERE txid = %s", [tx.txid])
        return due

    def begin_member(self, tx: SinkTransaction) -> None:
        if self._member is not None:
            self._enter(self._in_transaction()[0], self._member)
        super().begin_member(tx)
        self._member = tx

    def _finish(self, connection: Connection) -> None:
        self._points.reach("after_merge")
        super()._finish(connection)
        self._enter(*self._in_transaction())

    def _enter(self, connection: Connection, tx: SinkTransaction) -> None:
        """What ``tx`` has changed, before the next one of its run changes more."""
        token = [tx.txid, tx.epoch, tx.attempt.attempt_id]
        row = connection.execute(DELTAS.format(self._table.there), [tx.txid]).fetchone()
        connection.execute(
            f"INSERT INTO {self._ledger} VALUES (%s, %s, %s, %s, %s, %s)",
            [*token, json.dumps(row[0] if row else {}), json.dumps(self._announced.get(tx.attempt)), tx.time],
        )
        connection.execute(f"INSERT INTO {self._log} (txid, epoch, attempt) VALUES (%s, %s, %s)", token)

    def _commit(self, tx: SinkTransaction) -> None:
        is_empty = self._announced.get(tx.attempt) == []
        self._points.reach("before_db_commit")
        if is_empty:
            self._points.reach("before_closing_commit")
        super()._commit(tx)
        self._points.reach("after_db_commit")
        if is_empty:
            self._points.reach("after_closing_commit")

    @property
    def _ledger(self) -> str:
        return placed(self._table.dialect, self._table.schema, "ledger")

    @property
    def _log(self) -> str:
        return placed(self._table.dialect, self._table.schema, "ledger_log")


class TaskedLedgerState(LedgerState, TaskedSQLMapState):
    """A `LedgerState` that tasks change."""


@frozen(kw_only=True, eq=False)
class LedgerPostgres(PostgresState):
    """Makes a `LedgerState`.

    Attributes:
        announced: the splits of each attempt that was emitted.
    """

    points: Points
    announced: dict[TransactionAttempt, object]

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> StagingSQLMapState:
        plain: Any = super().make_state(conf, metrics, partition_index, num_partitions)
        kind = TaskedLedgerState if isinstance(plain, TaskedSQLMapState) else LedgerState
        return kind(plain._database, plain._table, self.points, self.announced)
