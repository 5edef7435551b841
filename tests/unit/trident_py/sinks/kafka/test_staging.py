"""Rows between processing and commit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from trident_py.sinks.kafka.staging import StagedRows

ROWS = pa.table({"value": [f"{number}" for number in range(25_000)]})


@pytest.mark.parametrize("bytes_max", [0, 1 << 30], ids=["in a file", "in memory"])
def test_rows_come_back_in_order_as_often_as_they_are_asked_for(bytes_max: int) -> None:
    staged = StagedRows.of(ROWS, bytes_max)
    assert staged.is_in_file == (bytes_max == 0)
    for _ in range(2):
        batches = list(staged.batches())
        assert pa.Table.from_batches(batches).equals(ROWS)
        assert max(batch.num_rows for batch in batches) == 10_000
    staged.discard()
    assert not staged.is_in_file
    assert list(staged.batches()) == []
    staged.discard()


@pytest.mark.parametrize("bytes_max", [-1, 1 << 30], ids=["in a file", "in memory"])
def test_a_transaction_may_have_no_rows(bytes_max: int) -> None:
    staged = StagedRows.of(ROWS.slice(0, 0), bytes_max)
    assert sum(batch.num_rows for batch in staged.batches()) == 0
    staged.discard()
