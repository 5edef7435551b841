"""The bookkeeping of one attempt."""

from __future__ import annotations

from coordinators.driver.batch_streams import Batch
from coordinators.status.listener import Counts
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.stimuli import Emitted
from trident_py.engine.plane.work import BranchInput

ATTEMPT = TransactionAttempt(1, 0)


def executor(*branches: set[str]) -> TridentBoltExecutor:
    edges = dict.fromkeys(sorted(set().union(*branches)), 1)
    batch = Batch(attempt=ATTEMPT, number=1, metadata={}, time=0, edges=[])
    return TridentBoltExecutor(batch, [frozenset(reads) for reads in branches], edges)


def emitted(spout: str, edges: dict[int, int], rows: int = 0) -> Emitted:
    return Emitted(attempt=ATTEMPT, spout=spout, batch=f"batch of {spout}", rows=rows, is_small=True, edges=edges)


def test_rows_count_once_however_many_branches_read_them() -> None:
    made = executor({"lines"}, {"lines"}, {"numbers"})
    list(made.take(emitted("lines", {0: 1, 1: 2}, rows=3)))
    made.count_rows("numbers", "driver", 4)
    made.count_rows("lines", "tasks", 100)
    made.count_rows("lines", "tasks", 100)
    made.count_rows("lines", "tasks", 0)  # a sink's own job, whose tasks don't report
    assert made.rows == 107
    made.count_written("counts", 5)
    made.count_written("custom", None)  # it can't tell
    assert made.counted == Counts(107, written={"counts": 5})


def test_a_branch_is_ready_when_every_spout_that_it_reads_has_emitted() -> None:
    made = executor({"a"}, {"a", "b"})
    assert list(made.take(emitted("a", {0: 5, 1: 6}))) == [0]
    assert list(made.take(emitted("b", {1: 7}))) == [1]
    assert made.member(1).inputs == {"a": BranchInput(6, "batch of a"), "b": BranchInput(7, "batch of b")}
