"""What came of rows: good ones, bad ones, and the batch of the bad ones."""

from __future__ import annotations

import pyarrow as pa
import pytest
from attrs import evolve

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.worker.test_sieve import quarantine
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.sifting import TEXT_CHARS_MAX, Sifted, bad_rows, collected, parted, sifted
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.worker.counters import CountScope, count_scope
from trident_py.worker.failures import TaskFailed
from trident_py.worker.sieve import Quarantine

SOURCE = schema_of("n bigint")
FIELDS = schema_of("n bigint, _error string, _operation string, _txid bigint")
ATTEMPT = TransactionAttempt(7, 0)


def sift(stage: Quarantine, *values: int) -> Sifted:
    given = pa.table({"n": pa.array(values, pa.int64())})
    with count_scope(CountScope()):
        made = pa.Table.from_batches(stage(given.to_batches()), arrow_schema(stage.target))
    good, bad = parted(made)
    return sifted(stage, EmittedBatch(SOURCE, (good,), is_sifted=True), bad, counts={})


def test_good_rows_bad_rows_and_the_number_of_all_are_told() -> None:
    found = sift(quarantine(), 1, -2, 3)
    assert found.good.table.to_pydict() == {"n": [1, 3]}
    assert (found.bad.column("n").to_pylist(), found.tried) == ([-2], 3)
    assert found.good.fingerprint() is None  # they are not what the spout has emitted


def test_a_share_of_bad_rows_is_of_all_rows() -> None:
    quarter = evolve(quarantine(), share=0.25)
    assert sift(quarter, 1, -2, 3, 4).bad.num_rows == 1
    with pytest.raises(TaskFailed, match="2 of 4 rows make a row function raise"):
        sift(quarter, 1, -2, -3, 4)


def test_rows_that_one_operation_refuses_in_two_branches_are_there_once() -> None:
    one, two = sift(quarantine(), -1, -1, 2), sift(quarantine(), -1, 2, -3)
    found = [(bad_rows(name, "s", each, SOURCE), each) for name, each in (("a", one), ("b", two))]
    batch = collected(found, ATTEMPT, FIELDS)
    assert sorted(batch.table.column("n").to_pylist()) == [-3, -1, -1]
    assert set(batch.table.column("_txid").to_pylist()) == {7}
    named = collected(found, ATTEMPT, schema_of(FIELDS).add("_branch", "string"))
    assert sorted(zip(*named.table.select(["_branch", "n"]).to_pydict().values(), strict=True)) == [
        ("a", -1),
        ("a", -1),
        ("b", -3),
        ("b", -1),
    ]


def test_errors_are_cut_so_that_all_of_them_fit_into_one_write() -> None:
    found = sift(quarantine("x" * 10_000), *[-1] * 500)
    rows = bad_rows("a", "s", found, SOURCE)
    assert len(rows) == 500
    assert sum(len(row.error) for row in rows) <= TEXT_CHARS_MAX
