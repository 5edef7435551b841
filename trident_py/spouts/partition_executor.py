"""Runs partitioned spouts as `ITridentSpout`: Storm's two ``PartitionedTridentSpoutExecutor`` as one.

Each batch is emitted by its own Spark job. Its tasks return the new position of each partition. The positions are
durable before any output of the batch is committed. The next batch continues from there, committed or not: emission is
in txid order. If an exact spout has emitted and stored a batch, a replay emits it from the stored metadata, by the same
kind of job.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from attrs import define, evolve, field

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from coordinators.values.canonical import Json, json_copy
from trident_py.errors import SpoutError, StoreBusyException
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.partitioned import (
    IOpaquePartitionedTridentSpout,
    IPartitionedTridentSpout,
)
from trident_py.interfaces.spouts import EndOffsets, ITridentSpout, OffsetReportingEmitter, Replay
from trident_py.rows.schema import schema_of
from trident_py.spouts.partition_task import PartitionedSource, PartitionTask

Definition: TypeAlias = dict[str, Any]
"""``partitions``: the coordinator's partitions; after the batch was emitted also ``extents``: each partition's result.
"""

AnyPartitionedSpout: TypeAlias = IPartitionedTridentSpout[Any, Any, Any] | IOpaquePartitionedTridentSpout[Any, Any, Any]


class PartitionedSpoutAdapter(ITridentSpout[Definition]):
    """Runs a partitioned spout as an `ITridentSpout`."""

    in_order: ClassVar[bool] = False

    def __init__(self, spout: AnyPartitionedSpout) -> None:
        self.spout = spout
        self.output_schema = spout.output_schema
        self.replay = Replay.EXACT if isinstance(spout, IPartitionedTridentSpout) else Replay.OPAQUE
        self._news = News()

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> PartitionsOfBatches:
        """Return a coordinator that gets partitions from the spout's coordinator."""
        exact = self.replay is Replay.EXACT
        return PartitionsOfBatches(self.spout.get_coordinator(conf, context), exact, self._news)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> PartitionTasksEmitter:
        """Return an emitter that calls the spout's emitters in tasks."""
        source = PartitionedSource(
            topology=context.topology,
            tx_id=tx_state_id,
            spout=self.spout,
            conf=evolve(conf, zookeeper_auth=None, zookeeper_tls=None),  # a worker needs no secret of ours
            schema=schema_of(self.output_schema),
            run=secrets.token_hex(8),
        )
        return PartitionTasksEmitter(source, self.replay is Replay.EXACT, context.parallelism, self._news)


@define
class News:
    """The latest positions of the partitions, from the emitter's thread to the coordinator's."""

    positions: Mapping[str, Json] | None = None


class PartitionsOfBatches(BatchCoordinator[Definition]):
    """Defines a batch by its partitions; their contents are known after the batch was emitted."""

    def __init__(self, coordinator: Any, exact: bool, news: News) -> None:
        self._coordinator = coordinator
        self._exact = exact
        self._news = news
        self._told: Mapping[str, Json] | None = None

    def is_ready(self, txid: int) -> bool:
        """Return whether the spout's coordinator is ready; first call its ``emitted`` with new positions."""
        tell, positions = getattr(self._coordinator, "emitted", None), self._news.positions
        if tell is not None and positions is not None and positions is not self._told:
            tell(json_copy(dict(positions)))
            self._told = positions
        return bool(self._coordinator.is_ready(txid))

    def has_pending_input(self) -> bool:
        has_pending_input = getattr(self._coordinator, "has_pending_input", None)
        return has_pending_input is not None and bool(has_pending_input())

    def initialize_transaction(
        self, txid: int, prev_metadata: Definition | None, curr_metadata: Definition | None
    ) -> Definition:
        """Return the current partitions; for an exact batch, the partitions of its first definition."""
        if self._exact and curr_metadata is not None:
            return curr_metadata
        return {"partitions": self._coordinator.get_partitions_for_batch()}

    def success(self, txid: int) -> None:
        success = getattr(self._coordinator, "success", None)
        if success is not None:
            success(txid)

    def close(self) -> None:
        close = getattr(self._coordinator, "close", None)
        if close is not None:
            close()


@define(eq=False)
class PartitionTasksEmitter(OffsetReportingEmitter[Definition]):
    """Starts tasks that emit the partitions, and keeps the position of each partition.

    Attributes:
        exact: whether a batch that was emitted once is always emitted the same.
        tasks: the number of tasks that share the partitions.
    """

    source: PartitionedSource
    exact: bool
    tasks: int
    news: News
    _positions: dict[str, Json] = field(factory=dict, init=False)  # after transaction _upto
    _upto: int = field(default=0, init=False)
    _splits: dict[int, dict[str, Json]] = field(factory=dict, init=False)  # by txid, of those after it
    _emitting: Definition = field(factory=dict, init=False)

    def restore(self, positions: Mapping[str, Json], upto: int) -> None:
        self._positions, self._upto = dict(positions), upto
        self.news.positions = self._positions_upto_now()

    def emit_batch(self, attempt: TransactionAttempt, metadata: Definition, collector: TridentCollector) -> None:
        """Emit the batch by tasks: a known exact batch again, or a new one after the last batch."""
        for later in [later for later in self._splits if later >= attempt.txid]:
            del self._splits[later]
        self._emitting = metadata
        again = self.exact and "extents" in metadata
        known = metadata["extents"] if again else self._before(attempt)
        task = PartitionTask(
            source=self.source, attempt=attempt, partitions=metadata["partitions"], known=known, again=again
        )
        collector.emit_splits([(number, self.tasks) for number in range(self.tasks)], task)

    def resolve_offsets(self, attempt: TransactionAttempt, notes: Sequence[str]) -> EndOffsets:
        """Remember the new position of each partition."""
        found: dict[str, Json] = {}
        errors: list[str] = []
        for note in map(json.loads, notes):
            for partition in sorted(set(found) & set(note["extents"])):
                raise SpoutError(
                    f"topology {self.source.topology!r}, spout {self.source.tx_id!r}, attempt {attempt}: two tasks "
                    f"emitted partition {partition!r}; to fix this: get_partitions_for_task must assign each "
                    f"partition to one task",
                    topology=self.source.topology,
                    attempt=attempt,
                    spout=self.source.tx_id,
                )
            found |= note["extents"]
            errors += note["errors"]
        missing = sorted(set(self._emitting.get("extents", ())) - set(found)) if self.exact else []
        if missing:
            raise SpoutError(
                f"topology {self.source.topology!r}, spout {self.source.tx_id!r}, attempt {attempt}: no task emitted "
                f"partition {missing[0]!r} again; to fix this: get_ordered_partitions and get_partitions_for_task "
                f"must return the partitions of a batch each time",
                topology=self.source.topology,
                attempt=attempt,
                spout=self.source.tx_id,
            )
        self._splits[attempt.txid] = found
        self.news.positions = self._positions_upto_now()
        return EndOffsets({**self._emitting, "extents": found}, found, errors)

    def moved(self, metadata: Definition) -> Mapping[str, Json] | None:
        """Return the new position of each partition, if the batch was emitted."""
        return metadata.get("extents")

    def success(self, attempt: TransactionAttempt) -> None:
        """Record that the batch's positions are committed."""
        for txid in sorted(txid for txid in self._splits if txid <= attempt.txid):
            self._positions.update(self._splits.pop(txid))
            self._upto = txid

    def _before(self, attempt: TransactionAttempt) -> dict[str, Json]:
        """Return the positions of the partitions before this transaction."""
        if attempt.txid - 1 not in {self._upto, *self._splits}:
            # It was cancelled or has failed, and this one with it; the driver just hasn't said so yet.
            raise StoreBusyException(f"transaction {attempt.txid - 1} was not emitted, so {attempt} can't be")
        return self._positions_upto_now()

    def _positions_upto_now(self) -> dict[str, Json]:
        positions = dict(self._positions)
        for txid in sorted(self._splits):
            positions.update(self._splits[txid])
        return positions
