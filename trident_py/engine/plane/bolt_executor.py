"""`TridentBoltExecutor`: the bookkeeping of one attempt between emission and commit. No Spark, no threads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

from coordinators.driver.batch_streams import Batch
from coordinators.status.listener import Counts
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.stimuli import Emitted
from trident_py.engine.plane.work import BranchInput, Job, JobMember


# large: one field for each kind of unfinished work of an attempt; no decisions are made here
@define(eq=False)
class TridentBoltExecutor:
    """The inputs of each branch of an attempt, the receipts of each, and its unfinished work.

    Storm's bolt executor counts tuples to know when its input is complete. Here a branch runs when every spout that it
    reads has emitted, and the acker does the counting.

    Attributes:
        batch: as it was announced.
        branches: for each branch, the spouts that it reads.
        edges: the edge that each spout reports when it has emitted.
        idle: the branches that don't run, because the batch is about dead letters of another one.
        emitting: the spouts that have not emitted yet.
        checkpointing: those of them whose batch is being read once, by its own job.
        waiting: the branches that wait for a job to share.
        jobs: the running jobs.
        is_cancelled: true if it will never commit.
    """

    batch: Batch
    branches: Sequence[frozenset[str]]
    edges: Mapping[str, int]
    idle: frozenset[int] = frozenset()
    emitting: set[str] = field(init=False)
    checkpointing: set[str] = field(factory=set, init=False)
    waiting: set[int] = field(factory=set, init=False)
    jobs: set[Job] = field(factory=set, init=False)
    is_cancelled: bool = field(default=False, init=False)
    _emitted: dict[str, Emitted] = field(factory=dict, init=False)
    _rows: dict[tuple[str, str], int] = field(factory=dict, init=False)
    _receipts: dict[int, Any] = field(factory=dict, init=False)
    _written: dict[str, int] = field(factory=dict, init=False)
    _handed_over: dict[int, Any] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.emitting = set() if self.is_empty and not self.batch.stores else set(self.edges)

    @property
    def attempt(self) -> TransactionAttempt:
        """The attempt."""
        return self.batch.attempt

    @property
    def time(self) -> int:
        """The time of its transaction, in milliseconds since 1970."""
        return self.batch.time

    @property
    def is_empty(self) -> bool:
        """Whether no branch runs, because its transaction is left out."""
        return self.batch.parks is not None

    def take(self, emitted: Emitted) -> Iterator[int]:
        """Store a spout's batch; yield the branches whose inputs are complete now."""
        self._emitted[emitted.spout] = emitted
        if not self.batch.stores:  # rows that are only stored count once they are released
            self.count_rows(emitted.spout, "driver", emitted.rows)
        for branch in emitted.edges:
            if self.branches[branch] <= self._emitted.keys():
                yield branch

    def member(self, branch: int) -> JobMember:
        """Return the input of ``branch``."""
        emitted = {spout: self._emitted[spout] for spout in sorted(self.branches[branch])}
        inputs = {
            spout: BranchInput(each.edges[branch], each.sifted.get(branch, each).batch)
            for spout, each in emitted.items()
        }
        return JobMember(self.attempt, self.time, inputs)

    def count_rows(self, spout: str, where: str, rows: int) -> None:
        """Record the number of rows of ``spout``, on the driver or in tasks; the highest report of a branch counts."""
        self._rows[spout, where] = max(rows, self._rows.get((spout, where), 0))

    def count_written(self, output: str, rows: int | None) -> None:
        """Record how many rows the commit of ``output`` adds or changes, if known."""
        if rows is not None:
            self._written[output] = rows

    @property
    def rows(self) -> int:
        """How many rows were read, as far as counted; rows of emitted DataFrames are not."""
        return sum(self._rows.values())

    @property
    def counted(self) -> Counts:
        """How many rows were read, and how many will be written."""
        return Counts(self.rows, written=dict(self._written))

    @property
    def is_small(self) -> bool:
        """Whether every emitted batch is small, and every branch runs."""
        return not self.idle and all(emitted.is_small for emitted in self._emitted.values() if emitted.edges)

    def reads_little(self, branch: int) -> bool:
        """Return true if every batch that ``branch`` reads is small."""
        emitted = (self._emitted[spout] for spout in self.branches[branch])
        return all(each.sifted.get(branch, each).is_small for each in emitted)

    @property
    def has_rows(self) -> bool:
        """Whether a spout has emitted."""
        return bool(self._emitted)

    @property
    def is_working(self) -> bool:
        """Whether a job of this attempt runs or waits for its turn, so that it doesn't time out."""
        return bool(self.jobs or self.waiting or self.checkpointing)

    @property
    def is_idle(self) -> bool:
        """Whether no emission or job of it is unfinished."""
        return not (self.emitting or self.jobs)

    def prepare(self, branch: int, receipt: Any) -> None:
        """Keep ``receipt``, which ``branch`` has prepared; None: it is unknown what was prepared."""
        self._receipts[branch] = receipt

    @property
    def prepared(self) -> Collection[int]:
        """The branches that have prepared their commit."""
        return self._receipts.keys()

    def receipt(self, branch: int) -> Any:
        """Return the receipt of ``branch``, which is kept: a trial uses it, and it is discarded later."""
        return self._receipts[branch]

    def hand_over(self, branch: int) -> Any:
        """Return the receipt for the commit of ``branch``; it is not discarded while the outcome is unknown."""
        receipt = self._handed_over[branch] = self._receipts.pop(branch)
        return receipt

    def commit(self, branch: int) -> None:
        """Drop the receipt of ``branch``, which has committed."""
        self._handed_over.pop(branch, None)

    def take_back(self, branch: int) -> Any:
        """Return the receipt of ``branch``, whose commit has failed, to be discarded like the others."""
        receipt = self._handed_over.pop(branch)
        if not self.is_cancelled:
            self._receipts[branch] = receipt
        return receipt

    def cancel(self) -> dict[int, Any]:
        """Mark it as cancelled: it will never commit. Return the receipts to discard, by branch."""
        self.is_cancelled = True
        receipts, self._receipts = self._receipts, {}
        self.waiting.clear()
        return receipts
