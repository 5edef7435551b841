"""States that an updater changes by time, as participants: on the driver, or in Spark's tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, evolve, field, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken
from trident_py.graph.timed_updater import VALUES, KeyGroups, Newests
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import Emitted, MapState, RemovableMapState, StateChange
from trident_py.participants.participant import Collect, CommitRows, earliest
from trident_py.participants.states import StateParticipant
from trident_py.participants.tasked import TaskedParticipant
from trident_py.rows.row import columns_in
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of
from trident_py.spark.frames import map_batches
from trident_py.spark.jobs import parallelism
from trident_py.states.changes import UpdateCollector, emitted_rows, rows_emitted
from trident_py.worker.failures import by_state
from trident_py.worker.pipeline import Values

log = logging.getLogger(__name__)

RESULTS, LATE = 0, 1
"""The numbers of the streams, which are also the values of `VALUES`' first field."""

MOVED = schema_of("number int, partition string, newest bigint")
"""Where rows move a watermark: its number, its partition, and the time in microseconds since the epoch."""


@define(kw_only=True)
class TimedParticipant(StateParticipant):
    """Feeds the rows of the batch to an updater, at the time of its transaction.

    Attributes:
        groups: the updater, and the groups of keys by which it changes the state.
        outputs: the fields of what the updater emits.
        kind: see `Output.kind`; for messages.
        metrics: receives the watermarks, in seconds since 1970.
        drops_late: whether there can be late rows, and no stream takes them.
    """

    groups: KeyGroups
    outputs: Sequence[str]
    kind: str
    metrics: Metrics = field(factory=Metrics)
    drops_late: bool = False
    _next_at: int | None = field(default=None, init=False)
    _has_told: bool = field(default=False, init=False)

    def next_window_at(self) -> int | None:
        """Return the next time after the last transaction."""
        return earliest([self._next_at, super().next_window_at()])

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Raise the state's fence, and read the stored times."""
        recovered = super().recover(topology, epoch)
        self._look_again()
        return recovered

    def _change(self, tx: SinkTransaction, rows: pa.Table) -> list[tuple[Any, ...]]:
        collector = UpdateCollector(f"state {self.name!r}, attempt {tx.attempt}", self.outputs)
        for _ in self.groups.feeding(self._rows, rows, tx.time, collector):
            pass
        self._look_again()
        if self.drops_late:
            self._tell_late(tx, any(is_late for is_late, _ in collector.rows))
        return collector.rows

    def _tell_late(self, tx: SinkTransaction, has_late: bool) -> None:
        if has_late and not self._has_told:
            self._has_told = True
            log.warning(
                "%s %s, attempt %s: some late rows are left out, and nothing reads late_rows(); this is logged once",
                *(self.kind, self.name, tx.attempt),
            )

    def try_commit(self, tx: SinkTransaction, receipt: Any) -> bool:
        """Do nothing: rows only wait here, and what fails when their time has come isn't the batch's."""
        return True

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        if not tx.attempt.is_trial:
            super().apply(tx, rows)

    def _look_again(self) -> None:
        updater, groups = self.groups.updater, self.groups.of(self._rows)
        self._next_at = earliest(map(updater.next_window_at, groups))
        for metric, watermark in updater.watermarks(groups[0]).items():  # the same in all groups
            self.metrics.set(f"{self.name}.{metric}", watermark)

    @property
    def _rows(self) -> RemovableMapState[bytes]:
        if isinstance(self.state, RemovableMapState):
            return self.state
        raise AssertionError(f"state {self.name!r} was not checked")


@frozen(kw_only=True)
class TimedChange(StateChange):
    """The effect of a batch's rows on the groups of keys of each partition, for Spark's tasks.

    Partition i of n has each n-th group, from group i on.

    Attributes:
        where: names state and attempt in errors.
        outputs: the fields of what the updater emits.
        streams: the fields of the rows of each stream: of results, and of late rows if a stream takes them.
        time: the time of the transaction, in milliseconds since 1970.
        parts: the number of partitions.
        newest: where the rows of all partitions move the watermarks.
    """

    groups: KeyGroups
    where: str
    outputs: Sequence[str]
    streams: Sequence[StructType]
    time: int
    parts: int
    newest: Newests = ()

    def partitions(self, rows: pa.Table, count: int) -> Sequence[int]:
        if self.groups.count == 1:
            return [0] * rows.num_rows
        return [number % count for number in self.groups.numbers(rows)]

    def apply(self, state: MapState[Any], rows: pa.Table, partition: int) -> Sequence[Emitted]:
        if not isinstance(state, RemovableMapState):
            raise AssertionError(f"{self.where}: the state was not checked")
        collector, emitted = UpdateCollector(self.where, self.outputs), list[Emitted]()
        among = range(partition, self.groups.count, self.parts)
        for number in self.groups.feeding(state, rows, self.time, collector, self.newest, among):
            emitted += self._emitted(collector.rows, number)
            collector.rows.clear()
        return emitted

    def _emitted(self, rows: Sequence[Values], group: int) -> Iterator[Emitted]:
        """Yield the rows of each stream; if no stream takes the late rows, one that stands for them, without values."""
        if self.outputs != VALUES:
            yield from emitted_rows(rows, self.streams[RESULTS], group)
            return
        for stream in (RESULTS, LATE):
            its = [row for is_late, row in rows if is_late == stream]
            if stream < len(self.streams):
                yield from emitted_rows(its, self.streams[stream], group, stream)
            elif its:
                yield Emitted(place=group, stream=stream, rows=b"")


@frozen
class NewestRows:
    """Finds where the rows of a partition move the watermarks, in a task."""

    change: TimedChange

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as a function for ``DataFrame.mapInArrow``."""
        for batch in batches:
            newest = self.change.groups.newest(pa.Table.from_batches([batch]), self.change.time)
            found = [(number, *each) for number, moved in enumerate(newest) for each in moved.items()]
            yield from arrow_table(found, MOVED).to_batches()


@define(kw_only=True)
class TaskedTimedParticipant(TaskedParticipant, TimedParticipant):
    """States by time in tasks: as many partitions of groups of keys as Spark runs tasks at once.

    All rows of a batch move the watermark, so they are looked through before tasks change the state.

    Attributes:
        streams: see `TimedChange`.
    """

    streams: Sequence[StructType]

    def change_of(self, tx: SinkTransaction, parts: int) -> TimedChange:
        return TimedChange(
            groups=self.groups,
            where=f"state {self.name!r}, attempt {tx.attempt}",
            outputs=self.outputs,
            streams=self.streams,
            time=tx.time,
            parts=parts,
        )

    def parts_of(self, frame: DataFrame) -> int:
        return min(self.groups.count, parallelism(frame.sparkSession))

    def informed(self, change: StateChange, rows: DataFrame, collect: Collect) -> StateChange:
        if not isinstance(change, TimedChange):
            raise AssertionError(f"state {self.name!r} changes by time")
        nothing = arrow_schema(self.groups.inputs).empty_table()
        newest: list[dict[str, int]] = [{} for _ in self.groups.newest(nothing, change.time)]
        if newest:
            found = collect(map_batches(rows, rows.columns, NewestRows(change), MOVED, classify=by_state))
            for number, partition, at in zip(*columns_in(found), strict=True):
                newest[number][partition] = max(at, newest[number].get(partition, at))
        return evolve(change, newest=newest)

    def before_commit(self, tx: SinkTransaction, receipt: Any) -> Any:
        """Let tasks change the state; a trial changes nothing, see `try_commit`."""
        return receipt if tx.attempt.is_trial else super().before_commit(tx, receipt)

    def emitted(self, tx: SinkTransaction, emitted: Sequence[Emitted]) -> list[tuple[Any, ...]]:
        """Return the rows as the updater emits them; look again at the state, which tasks have changed."""
        self._look_again()
        by_stream = [[each for each in emitted if each.stream == stream] for stream in (RESULTS, LATE)]
        results = rows_emitted(by_stream[RESULTS], self.streams[RESULTS])
        if self.outputs != VALUES:
            return results
        if self.drops_late:
            self._tell_late(tx, bool(by_stream[LATE]))
        late = rows_emitted(by_stream[LATE], self.streams[LATE]) if len(self.streams) > LATE else []
        return [*((True, row) for row in late), *((False, row) for row in results)]
