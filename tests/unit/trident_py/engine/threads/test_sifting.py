"""Which rows an attempt leaves out, by whether that is fixed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import define, field

from coordinators.protocol.messages import BadRowsFound
from coordinators.record.bad_rows import BadRow
from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from tests.unit.trident_py.engine.plane.test_sifting import sift
from tests.unit.trident_py.engine.threads.test_emitting import Reading
from tests.unit.trident_py.planner.test_quarantine import end
from tests.unit.trident_py.worker.test_sieve import numbers, positive
from trident_py import TridentTopology
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.sifting import Sifted
from trident_py.engine.threads.sifting import Sifting
from trident_py.errors import TopologyError
from trident_py.planner.plan import plan
from trident_py.rows.schema import schema_of
from trident_py.worker.sieve import Quarantine, Raised

BATCH = EmittedBatch(schema_of("n bigint"))
"""Not read: the jobs of these tests know the rows."""


@define
class OfRows(Reading):
    """Sifts the same rows for each branch."""

    values: tuple[int, ...] = ()
    seen: list[Quarantine] = field(factory=list)

    def sift(self, emit: Emit, batch: EmittedBatch, branch: int, quarantine: Quarantine) -> Sifted:
        self.seen.append(quarantine)
        return sift(quarantine, *self.values)


def sifting(jobs: OfRows, emit: Emit, *, is_exact: bool = True, bad_rows_max: float = 0.5) -> list[BadRow]:
    """The bad rows that are told; the branches 0 and 1 have a function that raises, 2 reads the bad rows."""
    stream = numbers(TridentTopology("t"))
    for name in ("a", "b"):
        end(stream.map(positive, "n bigint"), name)
    end(stream.on_error(), "bad")
    made = Sifting.of("numbers", plan(stream._graph).branches, bad_rows_max)
    found = made.run(jobs, emit, BATCH, is_exact=is_exact)
    assert found.inputs.keys() == ({0, 1, 2} if jobs.seen else {2})
    rows = [row for told in found.told if isinstance(told, BadRowsFound) for row in told.rows]
    assert found.inputs[2].table.num_rows == len({(row.hash, row.operation) for row in rows})
    return rows


def emit_of(attempt_id: int, fixed: Sequence[BadRow] | None, *, sifts: bool = False, txid: int = 1) -> Emit:
    bad = None if fixed is None else tuple(fixed)
    return Emit(TransactionAttempt(txid, attempt_id), 1, "numbers", None, bad_rows=bad, sifts=sifts)


def test_rows_that_are_fixed_are_left_out_also_where_fewer_may_be_by_now() -> None:
    rows = (-1, -2, 3)
    fixed = sifting(OfRows(exact=True, values=rows), emit_of(0, None, sifts=True), bad_rows_max=1000)
    assert len(fixed) == 4
    assert sifting(OfRows(exact=True, values=rows), emit_of(1, fixed), bad_rows_max=1) == fixed


def test_bad_rows_are_left_out_by_each_branch_once_they_are_looked_for() -> None:
    jobs = OfRows(exact=True, values=(1, -2, 3))
    assert sifting(jobs, emit_of(0, None)) == []
    assert jobs.seen == []
    found = sifting(jobs, emit_of(1, None, sifts=True))
    assert [(row.branch, row.spout) for row in found] == [("a", "numbers"), ("b", "numbers")]
    assert [each.fixed for each in jobs.seen] == [None, None]


def test_fixed_rows_are_those_of_the_branch_and_the_same_are_told_again() -> None:
    first = sifting(OfRows(exact=True, values=(1, -2, 3)), emit_of(0, None, sifts=True))
    jobs = OfRows(exact=True, values=(3, -2, 1))
    assert sifting(jobs, emit_of(1, first)) == first
    assert [each.fixed for each in jobs.seen] == [[(row.hash, Raised(row.operation, row.error))] for row in first]


def test_that_no_row_is_left_out_is_fixed_too() -> None:
    jobs = OfRows(exact=True, values=(1, -2, 3))
    assert sifting(jobs, emit_of(1, [], sifts=True)) == []
    assert jobs.seen == []


def test_a_spout_that_may_emit_other_rows_has_none_fixed_and_a_trial_leaves_out_nothing() -> None:
    jobs = OfRows(exact=False, values=(1,))
    sifting(jobs, emit_of(1, [], sifts=True), is_exact=False)
    assert [each.fixed for each in jobs.seen] == [None, None]
    trial = OfRows(exact=False, values=(1,))
    sifting(trial, emit_of(0, None, sifts=True, txid=TRIAL_TXID))
    assert trial.seen == []


def test_a_topology_that_leaves_out_no_rows_any_more_is_refused_where_some_are_fixed() -> None:
    (bad, _) = sifting(OfRows(exact=True, values=(1, -2)), emit_of(0, None, sifts=True))
    with pytest.raises(TopologyError, match="a row of transaction 1 was left out of 'a' when its commit began"):
        Sifting.of("numbers", (), 1000).ensure_known(emit_of(1, [bad]))
