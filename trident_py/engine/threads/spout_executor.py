"""`TridentSpoutExecutor`: the wrapper around one spout's emitter, and the collector it emits into."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, evolve, field
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.protocol.messages import Fingerprinted, OffsetsResolved
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json, json_copy
from coordinators.values.cursors import Cursors
from coordinators.values.error_text import error_text
from coordinators.values.errors import About, located
from trident_py.engine.plane.emitted import EmittedBatch, ReadRows, ReportedOffsets, Splits
from trident_py.engine.plane.reading import SplitRead
from trident_py.errors import FailedException, SpoutError
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.spouts import Committing, Emitter, OffsetReportingEmitter
from trident_py.rows.schema import arrow_schema
from trident_py.spouts.arrow_collector import ArrowCollector, shortened
from trident_py.worker.counters import CountScope, count_scope
from trident_py.worker.failures import LocatedCall, LocatedRead

log = logging.getLogger(__name__)


@define
class SpoutCollector(ArrowCollector):
    """Collects the emissions of an emitter for one attempt; wrong shapes and types raise at the emitting call.

    Attributes:
        about: the subject of errors in the tasks that read the emissions.
    """

    metrics: Metrics
    about: About
    reports_offsets: bool = False
    _hashes_frames: bool = field(default=False, init=False)
    _verifies: list[Callable[[], None]] = field(factory=list, init=False)

    def emit_dataframe(self, frame: DataFrame, *, fingerprinting: bool = False) -> None:
        """Emit the rows of a DataFrame with the declared fields, in any order."""
        declared = {field.name: field.dataType for field in self.schema.fields}
        given = {field.name: field.dataType for field in frame.schema.fields}
        if len(given) != len(frame.columns) or given != declared:
            raise SpoutError(
                f"{self.where}: emitted a DataFrame with {frame.schema.simpleString()}, "
                f"declared is {self.schema.simpleString()}"
            )
        self._flush()
        self._hashes_frames |= fingerprinting
        self._parts.append(frame if frame.columns == self.schema.names else frame.select(*self.schema.names))

    def emit_splits(
        self,
        splits: Sequence[Any],
        read: Callable[[Any], Iterator[pa.RecordBatch]],
        *,
        fingerprinting: bool = False,
        on_driver: bool = False,
        verify: Callable[[], None] | None = None,
    ) -> None:
        """Emit rows that Spark tasks read, one task per split; with ``on_driver``, rows that are read at once."""
        self._flush()
        if on_driver:
            self._read(splits, read, fingerprinting)
            if verify:
                verify()
        elif splits:
            if verify:
                self._verifies.append(LocatedCall(verify, self.about))
            self._parts.append(
                Splits(tuple(splits), LocatedRead(read, self.about), self.reports_offsets, fingerprinting)
            )

    def _read(
        self, splits: Sequence[Any], read: Callable[[Any], Iterator[pa.RecordBatch]], fingerprinting: bool
    ) -> None:
        before, readings = len(self._parts), [SplitRead(read(split)) for split in splits]
        for reading in readings:
            for rows in reading:
                self.emit_arrow(rows)
        if fingerprinting:
            table = pa.concat_tables([arrow_schema(self.schema).empty_table(), *self._parts[before:]])
            self._parts[before:] = [ReadRows.of(table, (reading.hash for reading in readings))]

    def report_error(self, error: BaseException) -> None:
        """Log ``error`` and count it; the attempt continues."""
        log.error("%s: reported %s", self.where, error_text(error))
        self.metrics.add("reported_errors")

    def collected(self) -> EmittedBatch:
        """Return the emitted batch."""
        self._flush()
        return EmittedBatch(
            self.schema, tuple(self._parts), hashes_frames=self._hashes_frames, verifies=tuple(self._verifies)
        )


@define
class TridentSpoutExecutor:
    """Drives one emitter through the three streams, and remembers which attempt of each transaction it emitted.

    The emitter receives the number of a transaction instead of its txid, also in attempts; messages contain the txid.
    """

    topology: str
    tx_id: str
    schema: StructType
    emitter: Emitter[Any]
    metrics: Metrics
    _emitted: dict[int, TransactionAttempt] = field(factory=dict, init=False)

    @property
    def is_committer(self) -> bool:
        """Whether the emitter takes part in the commit phase."""
        return isinstance(self.emitter, Committing)

    def emit_batch(self, attempt: TransactionAttempt, number: int, metadata: Json) -> EmittedBatch:
        """Let the emitter emit, as announced on ``$batch``, and return the batch."""
        reports_offsets = isinstance(self.emitter, OffsetReportingEmitter)
        where = f"{self._where(attempt)}, definition {shortened(metadata)}"
        about = self._about(attempt)
        collector = SpoutCollector(where, self.schema, self.metrics, about, reports_offsets)
        with located(**about), count_scope(CountScope(node=f"emitter of {self.tx_id}")) as scope:
            self.emitter.emit_batch(_numbered(attempt, number), json_copy(metadata), collector)
            batch = evolve(collector.collected(), counts=scope.by_node)
        self._emitted[attempt.txid] = attempt
        return batch

    def resolve_offsets(
        self, attempt: TransactionAttempt, number: int, reported: ReportedOffsets | None
    ) -> Iterator[OffsetsResolved | Fingerprinted]:
        """Yield the messages for the driver about a batch that was read once.

        An emitter that reports offsets receives the notes.
        """
        if reported is None:
            return
        if isinstance(self.emitter, OffsetReportingEmitter):
            with located(**self._about(attempt)):
                resolved = self.emitter.resolve_offsets(_numbered(attempt, number), reported.notes)
            for error in resolved.errors:
                log.error("%s: reported %s", self._where(attempt), error)
                self.metrics.add("reported_errors")
            yield OffsetsResolved(attempt, self.tx_id, resolved.metadata, resolved.moved)
        if reported.fingerprint is not None:
            yield Fingerprinted(attempt, self.tx_id, reported.fingerprint)

    def restore(self, cursors: Cursors, upto: int) -> None:
        """Pass an emitter that reports offsets its positions after number ``upto``; called once, first."""
        if isinstance(self.emitter, OffsetReportingEmitter):
            self.emitter.restore(dict(cursors.items()), upto)

    def moved(self, metadata: Json) -> Mapping[str, Json] | None:
        """Return the cursors that the batch of ``metadata`` moves when it is closed; None: not known yet."""
        return self.emitter.moved(json_copy(metadata)) if isinstance(self.emitter, OffsetReportingEmitter) else {}

    def commit(self, attempt: TransactionAttempt, number: int, *, parks: bool = False) -> None:
        """Commit, as announced on ``$commit``; only the last emitted attempt of this transaction is accepted.

        An attempt that ``parks`` its transaction is not emitted.
        """
        if not parks and self._emitted.get(attempt.txid) != attempt:
            raise FailedException(f"received commit for different transaction attempt: {attempt}")
        if isinstance(self.emitter, Committing):
            with located(**self._about(attempt)):
                self.emitter.commit(_numbered(attempt, number))

    def success(self, attempt: TransactionAttempt, number: int) -> None:
        """Forget the attempts up to this one, as announced on ``$success``."""
        for txid in [txid for txid in self._emitted if txid <= attempt.txid]:
            del self._emitted[txid]
        with located(**self._about(attempt)):
            self.emitter.success(_numbered(attempt, number))

    def _about(self, attempt: TransactionAttempt) -> About:
        return About(topology=self.topology, spout=self.tx_id, attempt=attempt)

    def _where(self, attempt: TransactionAttempt) -> str:
        return f"topology {self.topology!r}, spout {self.tx_id!r}, attempt {attempt}"


def _numbered(attempt: TransactionAttempt, number: int) -> TransactionAttempt:
    return TransactionAttempt(number, attempt.attempt_id)
