"""What the tests of `PostgresState` share: states over a DSN, changes staged as tasks do it, and other clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from pyspark.sql.types import StructType

from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.staging import StagingSQLMapState, StagingTask

Report = tuple[int, int]


@contextmanager
def opened(
    dsn: str, keys: str | None = "word string", value: str = "count bigint", *, table: str = "counts"
) -> Iterator[StagingSQLMapState]:
    fields = schema_of(keys) if keys else StructType([])
    factory = PostgresState(dsn, table=table).for_fields(fields, schema_of(value).fields[0])
    state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, StagingSQLMapState)
    try:
        yield state
    finally:
        state.close()


def commit(state: StagingSQLMapState, tx: SinkTransaction, changes: dict[Any, Any]) -> None:
    """A change that comes from the driver."""
    assert begin(state, tx)
    state.multi_merge([key if isinstance(key, tuple) else (key,) for key in changes], list(changes.values()), Adding())
    state.commit_group()


def staged_by(task: StagingTask, number: int, rows: list[tuple[Any, ...]], fields: str) -> Report:
    """What task ``number`` reports for ``rows``."""
    return (number, task.staged(number, iter(arrow_table(rows, schema_of(fields)).to_batches())))


WORDS = "word string, count bigint"


def stage(state: StagingSQLMapState, tx: SinkTransaction, *parts: dict[Any, Any]) -> list[Report]:
    """The reports of as many tasks as there are parts of the change."""
    task = state.staging_task(tx)
    return [staged_by(task, number, list(part.items()), WORDS) for number, part in enumerate(parts, 100)]


def merge(
    state: StagingSQLMapState,
    tx: SinkTransaction,
    reports: list[Report],
    aggregator: CombinerAggregator[Any] | None = None,
) -> None:
    """Commit what was staged, as `StagedParticipant` does."""
    assert begin(state, tx)
    try:
        state.merge_staged(reports, aggregator or Adding())
        state.commit_group()
    except BaseException:
        state.rollback()
        raise


def select(dsn: str, query: str) -> list[Any]:
    """What another client sees, or does."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def tables(dsn: str) -> list[str]:
    return [name for (name,) in select(dsn, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")]


def wait_for_lock(dsn: str) -> None:
    """Until somebody waits for a lock in this database."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 30
    while not select(dsn, waiting):
        assert time.monotonic() < deadline, "nobody waits"


def wait_until_idle(dsn: str, millis: int) -> None:
    """Until all other transactions of this database have been idle for so long by the server's clock, or are gone."""
    busy = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND state = 'idle in transaction' AND clock_timestamp() - state_change < interval '1 ms' * "
    )
    while select(dsn, f"{busy}{millis}"):
        pass
