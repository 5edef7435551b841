"""`TridentBoltExecutor`: the bookkeeping of one attempt between emission and commit. No Spark, no threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from coordinators.attempt import TransactionAttempt
from coordinators.notices import Notice
from trident_py.engine.emitted import EmittedBatch


@frozen
class BranchInput:
    """What one spout gives one branch: the batch, and the acker edge that announces it."""

    edge: int
    batch: EmittedBatch


@frozen
class Processed:
    """What a job has made of a branch: the receipt, and what is to be told to the driver once that is kept."""

    receipt: Any
    reports: Sequence[Notice]


@define(eq=False)
class TridentBoltExecutor:
    """Which inputs each branch of an attempt has, what each has prepared, and whether the attempt still lives.

    Storm's bolt executor counts tuples to know when its input is complete; here a branch runs when every spout it reads
    has delivered, and counting is the acker's. Used by the emitters' threads and the job threads.

    Attributes:
        attempt: whose books these are.
        branches: for each branch, the spouts that it reads.
        time: the transaction's, in milliseconds since 1970.
        sharing: the jobs that it shares at the moment, as the attempts of each, this one included.
    """

    attempt: TransactionAttempt
    branches: Sequence[frozenset[str]]
    time: int = 0
    sharing: list[Sequence[TridentBoltExecutor]] = field(factory=list, init=False)
    cancelled: threading.Event = field(factory=threading.Event, init=False)
    _working: int = field(default=0, init=False)
    _quiet: threading.Event = field(factory=threading.Event, init=False)
    _rows: dict[tuple[str, str], int] = field(factory=dict, init=False)
    _inputs: dict[str, dict[int, BranchInput]] = field(factory=dict, init=False)
    _receipts: dict[int, Any] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def deliver(self, spout: str, inputs: dict[int, BranchInput]) -> list[int]:
        """``spout`` has emitted for these branches; returns those that have everything now."""
        with self._lock:
            self._inputs[spout] = inputs
            return [branch for branch in inputs if all(read in self._inputs for read in self.branches[branch])]

    def count_rows(self, spout: str, where: str, rows: int) -> None:
        """``spout`` gave so many rows on the driver or in tasks; several branches may say so, some see none."""
        with self._lock:
            self._rows[spout, where] = max(rows, self._rows.get((spout, where), 0))

    @property
    def rows(self) -> int:
        """How many rows were read, where anybody counted: not those of emitted DataFrames."""
        with self._lock:
            return sum(self._rows.values())

    @property
    def is_small(self) -> bool:
        """Whether all that was emitted is small."""
        with self._lock:
            return all(given.batch.is_small for inputs in self._inputs.values() for given in inputs.values())

    def inputs(self, branch: int) -> dict[str, BranchInput]:
        """What the spouts gave ``branch``."""
        with self._lock:
            return {spout: self._inputs[spout][branch] for spout in sorted(self.branches[branch])}

    def prepared(self, branch: int, receipt: Any) -> bool:
        """``branch`` is prepared; False if the attempt was cancelled meanwhile, then the caller gives it up."""
        with self._lock:
            if self.cancelled.is_set():
                return False
            self._receipts[branch] = receipt
            return True

    def receipt(self, branch: int) -> Any:
        """What ``branch`` prepared."""
        with self._lock:
            return self._receipts[branch]

    def cancel(self) -> dict[int, Any]:
        """The attempt will never commit; returns the receipts to give up."""
        with self._lock:
            self.cancelled.set()
            receipts, self._receipts = self._receipts, {}
            return receipts

    @property
    def is_working(self) -> bool:
        """Whether a job of this attempt runs."""
        return self._working > 0

    def begin_work(self) -> None:
        """A job of this attempt runs, or waits for its turn: it does not fall silent."""
        with self._lock:
            self._working += 1
            self._quiet.clear()

    def share(self, together: Sequence[TridentBoltExecutor]) -> None:
        """The job is also that of others."""
        with self._lock:
            self.sharing = [*self.sharing, together]

    def end_work(self, together: Sequence[TridentBoltExecutor] = ()) -> None:
        """A job of this attempt has ended."""
        with self._lock:
            self._working -= 1
            self.sharing = [each for each in self.sharing if each is not together]
            if self._working == 0:
                self._quiet.set()

    def wait_quiet(self, seconds: float) -> bool:
        """Wait until no job of this attempt runs, or for so long; whether none does."""
        return not self.is_working or self._quiet.wait(seconds)
