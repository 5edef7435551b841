"""Spouts that a program feeds by hand, batch by batch: for tests, notebooks and small jobs."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from attrs import define
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from coordinators.values.canonical import Json, canonical_json
from trident_py.errors import MetadataError, SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import CommitterEmitter, Emitter, ICommitterTridentSpout, ITridentSpout
from trident_py.rows.row import json_rows, rows_of_json
from trident_py.rows.schema import arrow_table, schema_of, shown

log = logging.getLogger(__name__)

FEED_BYTES_MAX = 256 * 1024
"""The largest batch, as JSON: the rows are the batch's metadata, and ZooKeeper takes no write above 1 MiB."""


@define(eq=False)
class _Feeding:
    """The rows of one call of ``feed``, and its outcome."""

    rows: list[Json]
    txid: int | None = None
    done: bool = False
    error: str | None = None


class _Feed:
    """The fed batches that did not succeed yet; shared by the feeding threads and the coordinator."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Feeding] = deque()
        self._defined: dict[int, _Feeding] = {}
        self._closed: str | None = None
        self.wait_to_emit = True

    def put(self, rows: list[Json], timeout: float | None) -> None:
        """Add rows for the next transaction; return when it has succeeded."""
        with self._changed:
            if self._closed:
                raise SpoutError(self._closed)
            feeding = _Feeding(rows)
            self._waiting.append(feeding)
            if not self._changed.wait_for(lambda: feeding.done or feeding.error, timeout):
                raise self._given_up(feeding, timeout)
            if feeding.error:
                raise SpoutError(feeding.error)

    def _given_up(self, feeding: _Feeding, timeout: float | None) -> TimeoutError:
        if feeding.txid is None:
            self._waiting.remove(feeding)
            return TimeoutError(f"no transaction took the rows within {timeout} s; they were not fed")
        return TimeoutError(
            f"transaction {feeding.txid} has the rows and did not succeed within {timeout} s; it may yet"
        )

    def open(self) -> None:
        """Begin a run."""
        with self._changed:
            self._closed = None

    def close(self, name: str) -> None:
        """End the run: raise an error in every waiting call of ``feed``."""
        with self._changed:
            self._closed = (
                f"spout {name!r}: the query has stopped, so no more rows are accepted; to fix this: start the topology "
                f"again"
            )
            for feeding in self._waiting:
                feeding.error = (
                    f"spout {name!r}: the query stopped before it took the rows; to fix this: feed them again"
                )
            for txid, feeding in self._defined.items():
                feeding.error = (
                    f"spout {name!r}: the query stopped before transaction {txid} succeeded; the next run emits its "
                    f"rows again if they were stored"
                )
            self._waiting.clear()
            self._defined.clear()
            self._changed.notify_all()

    def take(self, txid: int) -> list[Json]:
        """Return the rows of a new transaction; empty if no rows were fed."""
        with self._changed:
            if not self._waiting:
                return []
            feeding = self._defined[txid] = self._waiting.popleft()
            feeding.txid = txid
            return feeding.rows

    def has_rows(self) -> bool:
        """Return whether fed rows wait for a transaction."""
        with self._changed:
            return bool(self._waiting)

    def succeed(self, txid: int) -> None:
        """Record that a transaction succeeded."""
        with self._changed:
            if feeding := self._defined.pop(txid, None):
                feeding.done = True
                self._changed.notify_all()


class FeederBatchSpout(ITridentSpout[list[Json]]):
    """Emits the rows given to `feed`, one call per batch. Unlike Storm's class, it is not only for tests.

    The rows are stored as the batch's metadata, so a replay emits them again, even after a crash.
    """

    gives_again: ClassVar[bool] = True

    def __init__(self, schema: str | StructType) -> None:
        self.output_schema = self._schema = schema_of(schema)
        self._feed = _Feed()

    def feed(self, rows: Sequence[Sequence[Any]], timeout: float | None = None) -> None:
        """Add the rows of one batch, and wait until it has succeeded; call it from any thread except the query's own.

        It may be called before the topology is started; then it waits for that too.

        Args:
            rows: each a tuple, list or Row with a value per field.
            timeout: how long to wait, in seconds; None: until it succeeded or the query stopped.

        Raises:
            MetadataError: a row doesn't fit the schema, or there are too many rows for one batch.
            SpoutError: the query stopped before the batch succeeded.
            TimeoutError: the batch did not succeed in time; the message says whether it still may.
        """
        self._feed.put(_encoded(rows, self._schema), timeout)

    def set_wait_to_emit(self, wait: bool) -> None:
        """Set whether batches wait for `feed`, as at first; otherwise batches without rows are emitted meanwhile."""
        self._feed.wait_to_emit = wait

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FeederCoordinator:
        self._feed.open()
        return FeederCoordinator(tx_state_id, self._feed)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FeederEmitter:
        """Return an emitter of the rows in the metadata."""
        return FeederEmitter(self._schema)


class FeederCommitterBatchSpout(FeederBatchSpout, ICommitterTridentSpout[list[Json]]):
    """A `FeederBatchSpout` that takes part in the commit phase. Storm's class."""

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FeederCommitterEmitter:
        """Return an emitter of the rows in the metadata, which logs commits."""
        return FeederCommitterEmitter(self._schema)


def _encoded(rows: Sequence[Sequence[Any]], schema: StructType) -> list[Json]:
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != len(schema.fields):
            raise MetadataError(
                f"{shown(row)} is no row of the fields {schema.names}: feed a tuple with a value for each"
            )
    try:
        arrow_table(rows, schema)
    except (TypeError, ValueError) as error:
        raise MetadataError(str(error)) from error
    encoded = json_rows(rows, schema)
    size = len(canonical_json(encoded).encode())
    if size > FEED_BYTES_MAX:
        raise MetadataError(
            f"{len(rows)} rows are {size} bytes of JSON, a batch may have {FEED_BYTES_MAX}; to fix this: feed fewer"
        )
    return encoded


class FeederCoordinator(BatchCoordinator[list[Json]]):
    """Stores the rows of each call of ``feed`` as the metadata of the next transaction."""

    def __init__(self, tx_state_id: str, feed: _Feed) -> None:
        self._tx_state_id = tx_state_id
        self._feed = feed

    def is_ready(self, txid: int) -> bool:
        """Return whether rows were fed, or batches don't wait for them."""
        return not self._feed.wait_to_emit or self._feed.has_rows()

    def initialize_transaction(
        self, txid: int, prev_metadata: list[Json] | None, curr_metadata: list[Json] | None
    ) -> list[Json]:
        """Return the rows that were fed first, or the rows that the transaction had before."""
        return self._feed.take(txid) if curr_metadata is None else curr_metadata

    def success(self, txid: int) -> None:
        """Wake the feeding thread."""
        self._feed.succeed(txid)

    def close(self) -> None:
        """Raise an error in all feeding threads."""
        self._feed.close(self._tx_state_id)


class FeederEmitter(Emitter[list[Json]]):
    """Emits the rows in the metadata."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[Json], collector: TridentCollector) -> None:
        if metadata:
            collector.emit_arrow(arrow_table(rows_of_json(metadata, self._schema), self._schema))


class FeederCommitterEmitter(FeederEmitter, CommitterEmitter[list[Json]]):
    """The emitter of a spout that takes part in the commit phase, but has nothing to commit."""

    def commit(self, attempt: TransactionAttempt) -> None:
        log.debug("attempt %s commits", attempt)
