"""Leaves the bad rows of a spout out of branches, on the emitter's thread, before the branches run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Self

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql.types import StructType

from coordinators.protocol.messages import BadRowsFound, Fingerprinted, Message
from coordinators.record.bad_rows import BadRow
from trident_py.engine.plane.emitted import CountsByNode, EmittedBatch
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.sifting import Sifted, bad_rows, collected, collected_letters
from trident_py.engine.ports.batch_engine import Jobs
from trident_py.errors import TopologyError
from trident_py.graph.bad_rows import DEAD_LETTERS
from trident_py.interfaces.config import BAD_ROWS_MAX
from trident_py.planner.plan import Branch
from trident_py.worker.counters import NodeCounts
from trident_py.worker.sieve import Quarantine, Raised

COUNTER = "bad rows"
"""The counter of the rows that branches leave out; a row that two branches leave out counts twice."""


@frozen(kw_only=True)
class SiftedBatch:
    """A spout's batch for the branches that don't read it as it is.

    Attributes:
        inputs: of each such branch.
        rows: how many rows the spout emitted, as far as known.
        told: messages for the driver.
        counts: the counts of the row functions.
    """

    inputs: Mapping[int, EmittedBatch] = field(factory=dict)
    rows: int = 0
    told: Sequence[Message] = ()
    counts: CountsByNode = field(factory=dict)


NOTHING_SIFTED = SiftedBatch()


@frozen(kw_only=True)
class Sifting:
    """The row functions in front of the branches of one spout, which run when it emits.

    Attributes:
        sifting: the branches that leave out bad rows of it.
        collecting: the branches that read the bad rows.
        bad_rows_max: as in `TridentConfig`.
    """

    spout: str
    sifting: Mapping[int, Branch]
    collecting: Mapping[int, Branch]
    bad_rows_max: float

    @classmethod
    def of(cls, spout: str, branches: Sequence[Branch], bad_rows_max: float) -> Self:
        """Return it for ``spout``."""
        read = [(number, branch) for number, branch in enumerate(branches) if spout in branch.spouts]
        sifting = {number: branch for number, branch in read if spout in branch.leading}
        names = {branch.name for branch in sifting.values()}
        collecting = {number: branch for number, branch in read if branch.collects & names}
        return cls(spout=spout, sifting=sifting, collecting=collecting, bad_rows_max=bad_rows_max)

    def run(
        self, jobs: Jobs, emit: Emit, batch: EmittedBatch, *, is_exact: bool, released: pa.Table | None = None
    ) -> SiftedBatch:
        """Return the input of these branches, for a batch that can be read again.

        If it `is_due`, a job runs; otherwise there are no bad rows. ``released`` are dead letters: the rows are theirs.

        Raises:
            TaskFailed: there are too many bad rows, or other ones than those that are fixed.
        """
        is_due = self.is_due(emit, is_exact=is_exact)
        found: dict[str, tuple[tuple[BadRow, ...], Sifted]] = {}
        inputs: dict[int, EmittedBatch] = {}
        for number, branch in self.sifting.items():
            if is_due and _runs(number, emit):
                quarantine = self._quarantine(branch, emit, is_exact=is_exact)
                sift = jobs.sift(emit, batch, number, quarantine)
                found[branch.name] = bad_rows(branch.name, self.spout, sift, quarantine.pipeline.source), sift
                inputs[number] = sift.good
        for number, branch in self.collecting.items():
            if _runs(number, emit):
                collected = [found[name] for name in sorted(branch.collects & found.keys())]
                inputs[number] = self._collected(branch, collected, emit, batch.schema, released)
        return self._told(emit, found, inputs)

    def _told(
        self,
        emit: Emit,
        found: Mapping[str, tuple[tuple[BadRow, ...], Sifted]],
        inputs: Mapping[int, EmittedBatch],
    ) -> SiftedBatch:
        counts: dict[str, NodeCounts] = {}
        for name, (rows, sift) in found.items():
            if rows:
                counts[f"bad rows of {name} from {self.spout}"] = NodeCounts({COUNTER: len(rows)})
            for node, counted in sift.counts.items():
                counts[node] = _most(counts.get(node, counted), counted)
        seen = [sift.fingerprint for _, sift in found.values() if sift.fingerprint]
        told: list[Message] = [Fingerprinted(emit.attempt, self.spout, each) for each in seen]
        bad = tuple(chain.from_iterable(rows for rows, _ in found.values()))
        return SiftedBatch(
            inputs=inputs,
            rows=max((sift.tried for _, sift in found.values()), default=0),
            told=[*told, BadRowsFound(emit.attempt, bad)] if bad else told,
            counts=counts,
        )

    def ensure_known(self, emit: Emit) -> None:
        """Return if this topology leaves out bad rows in each branch for which ``emit`` has fixed ones.

        Raises:
            TopologyError: a branch is gone, or leaves out none any more, so it would count what was left out.
        """
        known = {branch.name for branch in self.sifting.values()}
        for row in emit.bad_rows or ():
            if row.spout == self.spout and row.branch not in known:
                why = " ".join(row.error.split())
                raise TopologyError(
                    f"spout {self.spout!r}: a row of transaction {emit.attempt.txid} was left out of {row.branch!r} "
                    f"when its commit began ({row.operation}: {why}), and this topology leaves none out there. To fix "
                    f"this: start it once with on_error() as before, until the transaction is committed"
                )

    def is_due(self, emit: Emit, *, is_exact: bool) -> bool:
        """Return true if the row functions run in their own pass; otherwise a row that raises fails the attempt."""
        if emit.attempt.is_trial or emit.stores or emit.number is None:
            return False
        if is_exact and emit.bad_rows is not None:
            return any(each.spout == self.spout for each in emit.bad_rows)
        return emit.sifts

    def _quarantine(self, branch: Branch, emit: Emit, *, is_exact: bool) -> Quarantine:
        pipeline = branch.leading[self.spout].pipeline
        if is_exact and emit.bad_rows is not None:
            fixed = [
                (each.hash, Raised(each.operation, each.error))
                for each in emit.bad_rows
                if (each.branch, each.spout) == (branch.name, self.spout)
            ]
            return Quarantine(pipeline=pipeline, fixed=fixed, most=len(fixed))
        if self.bad_rows_max < 1:
            return Quarantine(pipeline=pipeline, fixed=None, most=BAD_ROWS_MAX, share=self.bad_rows_max)
        return Quarantine(pipeline=pipeline, fixed=None, most=int(self.bad_rows_max))

    def _collected(
        self,
        branch: Branch,
        found: Sequence[tuple[Sequence[BadRow], Sifted]],
        emit: Emit,
        source: StructType,
        released: pa.Table | None,
    ) -> EmittedBatch:
        fields = next(source.schema for source in branch.end.sources if source.tx_id == self.spout)
        if fields == DEAD_LETTERS:
            return collected_letters(found, emit.attempt, source, released)
        return collected(found, emit.attempt, fields)


def _runs(branch: int, emit: Emit) -> bool:
    return emit.branches is None or branch in emit.branches


def _most(one: NodeCounts, other: NodeCounts) -> NodeCounts:
    """Return the counts of a function in two branches; one of them may have left out more rows."""
    names = {**one.by_name, **other.by_name}
    most = {name: max(one.by_name.get(name, 0), other.by_name.get(name, 0)) for name in names}
    return NodeCounts(most, max(one.tasks, other.tasks))
