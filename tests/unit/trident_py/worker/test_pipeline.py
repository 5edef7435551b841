from __future__ import annotations

import gc
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of, select
from trident_py.worker.pipeline import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    FilterStep,
    FlatMapStep,
    MapStep,
    ProjectStep,
    RowPipeline,
    chunks,
    collector_paused,
)

LINES = schema_of("value string, position bigint")


def mapped(source: str, target: str, fn: Any, kind: type[Any] = MapStep) -> Any:
    names = tuple(schema_of(source).names)
    return kind(title="the step", source=names, in_fields=names, target=schema_of(target), fn=fn)


SPLIT = mapped(
    "value string, position bigint", "word string", lambda row: [(w,) for w in row.value.split()], FlatMapStep
)
SHORT = FilterStep(
    title="filter", source=("word",), in_fields=("word",), target=SPLIT.target, keep=lambda row: len(row.word) < 4
)


def run(pipeline: RowPipeline, batches: list[pa.RecordBatch]) -> list[Any]:
    given = list(pipeline(iter(batches)))
    assert all(batch.schema == arrow_schema(pipeline.target) for batch in given)
    return [row for batch in given for row in rows_of(batch)]


@given(st.lists(st.tuples(st.text(), st.integers(0, 9)), max_size=50), st.integers(1, 20))
def test_over_batches_and_over_rows_it_gives_the_same(rows: list[tuple[str, int]], size: int) -> None:
    pipeline = RowPipeline(LINES, (SPLIT, SHORT))
    expected = [(word,) for value, _ in rows for word in value.split() if len(word) < 4]
    assert run(pipeline, arrow_table(rows, LINES).to_batches(max_chunksize=size)) == expected
    assert pipeline.rows(rows) == expected


def test_without_steps_rows_come_back_with_the_declared_types() -> None:
    noon = datetime(2024, 1, 1, 12)  # noqa: DTZ001 - taken as UTC
    pipeline = RowPipeline(schema_of("a double, b timestamp, c decimal(4, 2)"))
    ((a, b, c),) = pipeline.rows([(1, noon, 3)])
    assert (type(a), b, str(c)) == (float, noon.replace(tzinfo=UTC), "3.00")
    assert pipeline.rows([]) == []


def test_rows_are_found_by_name_behind_it() -> None:
    assert [row.word for row in RowPipeline(LINES, (SPLIT,)).rows([("a b", 1)])] == ["a", "b"]


def test_the_next_step_sees_values_of_the_declared_types() -> None:
    seen: list[Any] = []

    def see(row: Any) -> tuple[int]:
        seen.append(row)
        return (1,)

    first = mapped("value string, position bigint", "a double, b float, c decimal(5, 2), d struct<x: int>, e string",
                   lambda row: (1, 0.1, Decimal("1.5"), {"x": 1}, row.value))  # fmt: skip
    second = mapped("a double, b float, c decimal(5, 2), d struct<x: int>, e string", "n int",
                    see)  # fmt: skip
    assert RowPipeline(LINES, (first, second)).rows([("é", 1)]) == [(1,)]
    ((a, b, c, d, e),) = seen
    assert (type(a), b, str(c), d.x, e) == (float, pytest.approx(0.1, abs=1e-7), "1.50", 1, "é")
    assert b != 0.1


@pytest.mark.parametrize("followed", [False, True], ids=["at the end", "in the middle"])
def test_a_value_of_another_type_is_named_with_step_field_and_type(followed: bool) -> None:
    wrong = mapped("value string, position bigint", "word string, n int", lambda row: (row.value, row.position / 2))
    following = (
        ProjectStep(title="project", source=("word", "n"), in_fields=("word",), target=select(wrong.target, ["word"])),
    )
    with pytest.raises(TypeError, match=r"the step.*: field 'n' is declared int, got 0.5 \(float\)"):
        RowPipeline(LINES, (wrong, *(following if followed else ()))).rows([("a", 1)])


def test_a_null_is_refused_where_the_step_declares_none() -> None:
    with pytest.raises(TypeError, match="'word' is declared string NOT NULL, got None"):
        RowPipeline(LINES, (mapped("value string, position bigint", "word string NOT NULL", lambda _: (None,)),)).rows(
            [("a", 1)]
        )


def test_many_rows_are_worked_on_in_pieces() -> None:
    short = pa.table({"n": range(CHUNK_ROWS * 2 + 1)}).to_batches()
    assert [chunk.num_rows for chunk in chunks(short)] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    long = pa.table({"text": ["a" * (CHUNK_BYTES // 4)] * 10}).to_batches()
    assert max(chunk.num_rows for chunk in chunks(long)) <= 4
    assert sum(chunk.num_rows for chunk in chunks(long)) == 10
    huge = pa.table({"text": ["a" * (CHUNK_BYTES * 2)] * 2}).to_batches()
    assert [chunk.num_rows for chunk in chunks(huge)] == [1, 1]
    assert list(chunks(pa.table({"n": pa.array([], pa.int64())}).to_batches())) == []


def test_the_garbage_collector_is_away_only_while_rows_are_made() -> None:
    enabled: list[bool] = []

    def look(row: Any) -> Any:
        enabled.append(gc.isenabled())
        return row

    step = mapped("value string, position bigint", "value string, position bigint", look)
    for _ in RowPipeline(LINES, (step,))(arrow_table([("a", 1)], LINES).to_batches()):
        enabled.append(gc.isenabled())
    assert enabled == [False, True]


def test_the_garbage_collector_comes_back_after_an_exception_but_not_where_it_was_away() -> None:
    with pytest.raises(ZeroDivisionError), collector_paused():
        _ = 1 / 0
    assert gc.isenabled()
    with collector_paused(), collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
