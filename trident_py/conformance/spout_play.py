"""The leaders of a topology that reads one spout: their calls, the stored data, and the committed rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from attrs import define, evolve, field, frozen
from pyspark.sql import SparkSession

from coordinators.batches.spout_coordinator import Ask, TridentSpoutCoordinator
from coordinators.protocol.messages import Defined, DefinitionFailed, OffsetsResolved
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.cursors import Cursors
from trident_py.conformance.child_process import On, Subject
from trident_py.conformance.children import Child
from trident_py.conformance.ledger import Row, listed
from trident_py.conformance.play import TRIES, Found, Play, Unusable
from trident_py.conformance.report import Rule
from trident_py.conformance.sample_rows import comparable
from trident_py.engine.plane.emitted import ReportedOffsets, Splits
from trident_py.engine.plane.reading import SplitRead
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics, TopologyContext
from trident_py.interfaces.spouts import Replay
from trident_py.rows.row import rows_of
from trident_py.rows.schema import schema_of
from trident_py.spark.forked import rows_of_frame
from trident_py.spouts.adapting import AnySpout, as_trident_spout

BATCHES_MAX = 8
"""The number of batches that are read from a source; rows after them are ignored."""

PATIENCE_SECONDS = 30.0
"""Seconds to wait for input that a spout announces."""


@frozen
class Batch:
    """The result of an emission.

    Attributes:
        metadata: the metadata that defines it; for a spout that learns it from its tasks, including their notes.
        moved: the positions that move once it is committed.
        ordered: whether its rows have an order; those of a DataFrame, or read by several tasks, have none.
    """

    rows: Sequence[Row]
    metadata: Json
    moved: Mapping[str, Json]
    ordered: bool


class SpoutSubject(Subject):
    """A user's spout in a child process, in the engine's wrappers."""

    threads: Mapping[str, On] = {"commit": On.COMMIT}

    def __init__(self, make_spout: Callable[[], AnySpout], spark: SparkSession | None) -> None:
        self._make, self._spark = make_spout, spark

    def make(self, defined: Mapping[str, Json], resolved: Mapping[str, Json], upto: int, epoch: int) -> None:
        """Make the spout, with the stored positions."""
        config, metrics = TridentConfig(), Metrics()
        given = self._make()
        spout = as_trident_spout(given)
        emitting = TopologyContext("conformance", "spout", self._spark, metrics, epoch=epoch)
        defining = emitting if spout.coordinator_needs_spark else evolve(emitting, spark=None)
        coordinator = spout.get_coordinator("spout", config, defining)
        emitter = spout.get_emitter("spout", config, emitting)
        exact = spout.replay is Replay.EXACT
        self._coordinator = TridentSpoutCoordinator("conformance", "spout", coordinator, exact)
        self._executor = TridentSpoutExecutor("conformance", "spout", schema_of(spout.output_schema), emitter, metrics)
        self._coordinator.restore(Cursors().updated(defined))
        self._executor.restore(Cursors().updated(resolved), upto)
        self.things = [given, coordinator, emitter]

    def define(self, txid: int, before: Json, current: Json, again: bool) -> tuple[Json, Mapping[str, Json]] | None:
        """Return the metadata of a batch and the positions that it moves; None if there is no input."""
        waits = threading.Event()
        for _ in range(int(PATIENCE_SECONDS * 10)):
            answer = next(self._coordinator.answers(Ask(1, txid, before, current, again, txid)))
            if isinstance(answer, Defined):
                return answer.metadata, answer.moved
            if isinstance(answer, DefinitionFailed):
                raise answer.cause
            if not answer.is_pending:
                return None
            waits.wait(0.1)
        return None

    def emit(self, attempt: TransactionAttempt, metadata: Json) -> Batch:
        """Return the rows of a batch; tasks run in this process."""
        emitted = self._executor.emit_batch(attempt, attempt.txid, metadata)
        rows: list[Row] = []
        notes: list[str] = []
        ordered = True
        for chunk in emitted.sources:
            if isinstance(chunk, Splits):
                ordered = ordered and len(chunk.splits) <= 1
                for reading in [SplitRead(chunk.read(split)) for split in chunk.splits]:
                    rows += [comparable(row) for batch in reading for row in rows_of(batch)]
                    notes += [str(reading.returned)] if chunk.reports_offsets else []
            elif hasattr(chunk, "to_batches"):
                rows += [comparable(row) for row in rows_of(chunk)]
            else:
                ordered = False
                rows += [comparable(row) for row in rows_of_frame(chunk)]
        resolved = self._executor.resolve_offsets(attempt, attempt.txid, ReportedOffsets(tuple(notes), len(rows)))
        for found in resolved:
            if isinstance(found, OffsetsResolved):
                return Batch(rows, found.metadata, found.moved, ordered)
        return Batch(rows, metadata, {}, ordered)

    def commit(self, attempt: TransactionAttempt) -> None:
        """Commit, as a committer spout."""
        self._executor.commit(attempt, attempt.txid)

    def success(self, attempt: TransactionAttempt) -> None:
        """Report the success to both halves."""
        self._executor.success(attempt, attempt.txid)
        self._coordinator.coordinator.success(attempt.txid)


@define
class Stored:
    """The data that survives a leader, as the record does."""

    metadata: dict[int, Json] = field(factory=dict)
    defined: dict[str, Json] = field(factory=dict)
    resolved: dict[str, Json] = field(factory=dict)
    attempts: Counter[int] = field(factory=Counter)
    committed: dict[int, Batch] = field(factory=dict)
    succeeded: int = 0
    epoch: int = 0


@define(eq=False)
class SpoutPlay(Play):
    """Experiments with a spout; each is the whole life of a topology, from the first row on."""

    read_source: Callable[[], Sequence[Any]] = field(kw_only=True)
    replay: Replay = field(kw_only=True)
    ordered: bool = field(kw_only=True)
    stored: Stored = field(factory=Stored, init=False)
    leader: Child | None = field(default=None, init=False)
    ended: bool = field(default=False, init=False)
    _emitted: dict[tuple[int, str], Sequence[Row]] = field(factory=dict, init=False)
    noun: ClassVar[str] = "spout"

    # --- experiments ----------------------------------------------------------------------------------------------

    def start(self) -> str:
        """Begin a new topology."""
        self.stored, self.leader, self.ended, self._emitted = Stored(), None, False, {}
        return "nothing is stored"

    def finish(self) -> None:
        """Continue to the end of the source, with a new leader."""
        self.take_over()
        self.to_the_end()

    def tidy(self) -> None:
        """End all processes: the next experiment begins with nothing."""
        self.end_children()

    def recuperate(self) -> None:
        """Do the same, because nothing is kept from one experiment to the next."""
        self.end_children()
        self.findings_left -= 1
        if self.findings_left < 0:
            raise Unusable

    findings_left: int = field(default=40, init=False)

    # --- leaders --------------------------------------------------------------------------------------------------

    def take_over(self) -> Child:
        """Start a new leader at the stored position."""
        for _ in range(TRIES):
            child = self.new_child()
            stored = self.stored
            last = max(stored.committed, default=0)
            stored.epoch += 1
            positions = (stored.defined, stored.resolved, last, stored.epoch)
            answer = self.call(child, "a new leader makes the spout", "make", *positions)
            if not answer.error:
                self.leader = child
                self._succeed(child)
                return child
        raise Found(Rule.COMES_THROUGH, f"{TRIES} leaders, one after the other, could not make the spout")

    def leading(self) -> Child:
        """Return the present leader, or a new one."""
        return self.leader or self.take_over()

    def _succeed(self, child: Child) -> None:
        """Repeat all successes that may have been lost."""
        for txid in range(self.stored.succeeded + 1, max(self.stored.committed, default=0) + 1):
            self.success(child, txid)

    def success(self, child: Child, txid: int) -> None:
        """Report the success of ``txid`` to both halves."""
        attempt = TransactionAttempt(txid, self.stored.attempts[txid] - 1)
        self.call(child, f"success of {attempt}", "success", attempt)
        self.stored.succeeded = max(self.stored.succeeded, txid)

    # --- transactions ---------------------------------------------------------------------------------------------

    def define(self, child: Child, txid: int) -> bool:
        """Define ``txid``; return whether there is input for it."""
        stored = self.stored
        before, current = stored.metadata.get(txid - 1), stored.metadata.get(txid)
        for _ in range(TRIES):
            answer = self.call(
                child, f"initialize_transaction({txid})", "define", txid, before, current, txid in stored.metadata
            )
            if not answer.error:
                break
        else:
            rule = Rule.SAME_METADATA if txid in stored.metadata else Rule.COMES_THROUGH
            raise Found(rule, f"transaction {txid} can't be defined: {answer.error}")
        if answer.value is None:
            self.steps[-1] += ": there is no input"
            return False
        metadata, moved = answer.value
        if txid not in stored.metadata:  # a repeated batch moves nothing: later batches may be defined
            stored.defined.update(moved)
        stored.metadata[txid] = metadata
        stored.attempts[txid] += 1
        self.steps[-1] += f" gives {stored.metadata[txid]}"
        return True

    def emit(self, child: Child, txid: int) -> Batch:
        """Emit the present attempt of ``txid``."""
        metadata = self.stored.metadata[txid]
        for _ in range(TRIES):
            attempt = TransactionAttempt(txid, self.stored.attempts[txid] - 1)
            answer = self.call(child, f"emit_batch({attempt})", "emit", attempt, metadata)
            if not answer.error:
                break
            self.stored.attempts[txid] += 1
        else:
            raise Found(Rule.COMES_THROUGH, f"transaction {txid} can't be emitted: {answer.error}")
        batch: Batch = answer.value
        self.steps[-1] += f" gives {listed(Counter(batch.rows)) or 'no rows'}"
        known = self._emitted.setdefault((txid, str(metadata)), batch.rows)
        self._emitted.setdefault((txid, str(batch.metadata)), batch.rows)
        if self.replay is Replay.EXACT and Counter(known) != Counter(batch.rows):
            raise Found(Rule.SAME_AGAIN, f"it gave {listed(Counter(known)) or 'no rows'} before")
        return batch

    def announce(self, txid: int, batch: Batch) -> None:
        """Store the announced commit with its metadata: if the batch comes again, it comes by these notes."""
        self.stored.metadata[txid] = batch.metadata
        self.steps.append(f"the commit of transaction {txid} is announced")

    def commit(self, child: Child, txid: int, batch: Batch) -> None:
        """Commit the transaction and store that."""
        attempt = TransactionAttempt(txid, self.stored.attempts[txid] - 1)
        answer = self.call(child, f"commit of {attempt}", "commit", attempt)
        if answer.error:
            raise Found(Rule.COMES_THROUGH, "a commit raises")
        self.stored.metadata[txid] = batch.metadata
        self.stored.resolved.update(batch.moved)
        self.stored.committed[txid] = batch

    @property
    def next(self) -> int:
        """The transaction that is committed next."""
        return max(self.stored.committed, default=0) + 1

    def to_the_end(self) -> None:
        """Process one transaction after the other, until there is no more input, or there were enough."""
        child = self.leading()
        while self.next <= BATCHES_MAX and self.define(child, txid := self.next):
            self.commit(child, txid, self.emit(child, txid))
            self.success(child, txid)
        self.ended = self.next <= BATCHES_MAX

    # --- the outcome ----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare the committed rows with the source."""
        batches = [self.stored.committed[txid] for txid in sorted(self.stored.committed)]
        source = [comparable(row if isinstance(row, tuple | list) else (row,)) for row in self.read_source()]
        width = len(source[0]) if source else None
        rows = [row[:width] for batch in batches for row in batch.rows]
        if self.replay is Replay.NON_TRANSACTIONAL:
            return
        if twice := Counter(rows) - Counter(source):
            raise Found(Rule.NO_ROW_TWICE, f"committed, and not in the source so often: {listed(twice)}")
        if not (self.ended or self.ordered):
            return  # it is unknown which rows of a long source should be committed by now
        expected = source if self.ended else source[: len(rows)]
        if lost := Counter(expected) - Counter(rows):
            raise Found(Rule.NO_ROW_LOST, f"in no committed batch: {listed(lost)}")
        if self.ordered:
            self._compare_order(batches, expected, width)

    def _compare_order(self, batches: Sequence[Batch], source: Sequence[Row], width: int | None) -> None:
        begin = 0
        for batch in batches:
            rows = [row[:width] for row in batch.rows]
            expected = source[begin : begin + len(rows)]
            if rows != expected and (batch.ordered or Counter(rows) != Counter(expected)):
                place = next(place for place, pair in enumerate(zip(rows, expected, strict=True)) if pair[0] != pair[1])
                seen = f"row {begin + place + 1} is {rows[place]}, and in the source {expected[place]}"
                raise Found(Rule.IN_ORDER, seen)
            begin += len(rows)
