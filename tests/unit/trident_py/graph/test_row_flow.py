from __future__ import annotations

import pyarrow as pa
import pytest

from trident_py.graph.graph import RowFlow, travelled
from trident_py.graph.rowwise import map_rows
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.worker.failures import TaskFailed

NUMBERS = schema_of("n int not null")
GIVEN = arrow_table([(1,), (2,)], NUMBERS).to_batches()


def test_row_operations_wait_and_run_when_the_rows_are_taken() -> None:
    flow = RowFlow.of(GIVEN, NUMBERS)
    doubled = map_rows("map(double)", lambda row: (row.n * 2,), "twice int").on_rows([flow], None)
    assert doubled.given is flow.given
    assert doubled.schema.names == ["twice"]
    assert doubled.table().to_pydict() == {"twice": [2, 4]}
    assert doubled.table().to_pydict() == {"twice": [2, 4]}


def test_rows_that_nothing_is_done_to_stay_as_they_are() -> None:
    assert RowFlow.of(GIVEN, NUMBERS).table() == pa.Table.from_batches(GIVEN)
    assert RowFlow.of((), NUMBERS).table().num_rows == 0


def test_what_user_code_raises_is_told_as_by_a_task() -> None:
    flow = map_rows("map(fail)", lambda row: (1 // 0,), "n int").on_rows([RowFlow.of(GIVEN, NUMBERS)], None)
    with pytest.raises(TaskFailed, match=r"ZeroDivisionError: .*in map\(fail\), at Row\(n=1\)"):
        flow.table()


def test_a_stage_is_copied_for_each_batch() -> None:
    seen: list[int] = []

    def stage(value: int) -> None:
        seen.append(value)

    travelled(stage)(1)
    assert seen == []
