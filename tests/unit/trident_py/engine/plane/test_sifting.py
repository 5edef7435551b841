"""What came of rows: good ones, bad ones, and the batch of the bad ones."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

from coordinators.record.bad_rows import BadRow
from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.worker.test_sieve import quarantine
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.sifting import (
    TEXT_CHARS_MAX,
    Sifted,
    bad_rows,
    collected,
    collected_letters,
    parted,
    rows_of_letters,
    sifted,
)
from trident_py.graph.bad_rows import DEAD_LETTERS
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.worker.counters import CountScope, count_scope
from trident_py.worker.failures import TaskFailed
from trident_py.worker.sieve import ERROR, OPERATION, Quarantine

SOURCE = schema_of("n bigint")
FIELDS = schema_of("n bigint, _error string, _operation string, _txid bigint")
ATTEMPT = TransactionAttempt(7, 0)


def sift(stage: Quarantine, *values: int) -> Sifted:
    given = pa.table({"n": pa.array(values, pa.int64())})
    with count_scope(CountScope()):
        made = pa.Table.from_batches(stage(given.to_batches()), arrow_schema(stage.target))
    return sifted(stage, *parted(made), fingerprint=None, counts={})


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
    letters = collected_letters(found, ATTEMPT, SOURCE, None)
    assert sorted(zip(*letters.table.select(["branch", "row", "txid"]).to_pydict().values(), strict=True)) == [
        ("a", '{"n": -1}', 7),
        ("a", '{"n": -1}', 7),
        ("b", '{"n": -1}', 7),
        ("b", '{"n": -3}', 7),
    ]


def letter(row: str, letters: int, txid: int = 3) -> dict[str, Any]:
    texts = dict.fromkeys(("branch", "spout", "operation", "error"), "")
    return {"txid": txid, **texts, "row": row, "letters": letters}


def letters_of(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(DEAD_LETTERS))


def test_released_letters_are_kept_no_longer_and_one_that_is_bad_again_keeps_its_first_transaction() -> None:
    released = letters_of(letter('{"n": -1}', 2), letter('{"n": 5}', 1, txid=4))
    again = sift(quarantine(), -1, -1, 5, -2)
    batch = collected_letters([(bad_rows("a", "s", again, SOURCE), again)], ATTEMPT, SOURCE, released)
    told = batch.table.select(["txid", "branch", "row", "letters"]).to_pylist()
    assert [tuple(each.values()) for each in told] == [
        (3, "a", '{"n": -1}', 1),
        (3, "a", '{"n": -1}', 1),
        (7, "a", '{"n": -2}', 1),
        (3, "", '{"n": -1}', -2),
        (4, "", '{"n": 5}', -1),
    ]


def test_a_letter_has_the_row_as_json_and_gives_it_back_as_often_as_it_counts() -> None:
    source = schema_of("n bigint, at timestamp, tags array<string>, price decimal(5,2)")
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    text = '{"n": null, "at": "2026-01-02T03:04:05.000006+00:00", "tags": ["ä"], "price": "1.50"}'
    made = rows_of_letters(letters_of(letter(text, 2)), source)
    assert [tuple(row) for row in rows_of(made)] == [(None, at, ["ä"], Decimal("1.50"))] * 2
    found = Sifted(EmittedBatch(source), positions(made.slice(0, 1)), 1)
    bad = [BadRow(branch="a", spout="s", hash=1, operation="map", error="no")]
    (row,) = collected_letters([(bad, found)], ATTEMPT, source, None).table.to_pylist()
    assert row == {"txid": 7, "branch": "a", "spout": "s", "operation": "map", "error": "no", "row": text, "letters": 1}
    with pytest.raises(ValueError, match="a row has the fields m, and the spout n"):
        rows_of_letters(letters_of(letter('{"m": 1}', 1)), SOURCE)


def positions(rows: pa.Table) -> pa.Table:
    """Rows that were found to be bad."""
    for name in (OPERATION, ERROR):
        rows = rows.append_column(name, pa.array([""] * rows.num_rows))
    return rows


def test_errors_are_cut_so_that_all_of_them_fit_into_one_write() -> None:
    found = sift(quarantine("x" * 10_000), *[-1] * 500)
    rows = bad_rows("a", "s", found, SOURCE)
    assert len(rows) == 500
    assert sum(len(row.error) for row in rows) <= TEXT_CHARS_MAX
