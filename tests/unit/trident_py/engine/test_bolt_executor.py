"""The books of one attempt."""

from __future__ import annotations

from pyspark.sql.types import StructType

from coordinators.attempt import TransactionAttempt
from trident_py.engine.bolt_executor import BranchInput, TridentBoltExecutor
from trident_py.engine.emitted import EmittedBatch

BATCH = EmittedBatch(StructType())


def books(*branches: set[str]) -> TridentBoltExecutor:
    return TridentBoltExecutor(TransactionAttempt(1, 0), [frozenset(reads) for reads in branches])


def test_rows_count_once_however_many_branches_read_them() -> None:
    work = books({"lines"}, {"lines"}, {"numbers"})
    work.count_rows("lines", "driver", 3)
    work.count_rows("numbers", "driver", 4)
    work.count_rows("lines", "tasks", 100)
    work.count_rows("lines", "tasks", 100)
    work.count_rows("lines", "tasks", 0)  # a sink's own job, whose tasks don't report
    assert work.rows == 107


def test_a_branch_is_ready_when_every_spout_that_it_reads_has_delivered() -> None:
    work = books({"a"}, {"a", "b"})
    first, second = BranchInput(1, BATCH), BranchInput(2, BATCH)
    assert work.deliver("a", {0: first, 1: first}) == [0]
    assert work.deliver("b", {1: second}) == [1]
    assert work.inputs(1) == {"a": first, "b": second}


def test_what_is_prepared_after_a_cancel_is_handed_back() -> None:
    work = books({"a"}, {"a"})
    assert work.prepared(0, "receipt")
    assert work.cancel() == {0: "receipt"}
    assert not work.prepared(1, "late")
