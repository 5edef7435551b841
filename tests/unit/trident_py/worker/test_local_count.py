from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from trident_py.graph.rowwise import flat_map_rows, map_rows
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.worker.local_count import TALLY_ROWS, LocalCountStage, can_tally
from trident_py.worker.pipeline import RowPipeline

LINES = schema_of("value string")


def count_scope(lines: list[str | None], *, unique: bool = False) -> list[tuple[str | None, int]]:
    split = flat_map_rows(
        "split", lambda line: [(word or None,) for word in (line.value or "").split(" ")], "word string"
    )
    same = map_rows("same", tuple, "word string")
    step = (same if unique else split).step(LINES)
    stage = LocalCountStage(rows=RowPipeline(LINES, (step,)), keys=schema_of("word string"), count="count")
    made = stage(arrow_table([(line,) for line in lines], LINES).to_batches())
    return [(word, count) for batch in made for word, count in rows_of(batch)]


def test_keys_are_counted_nulls_too() -> None:
    assert sorted(count_scope(["b a", "a", "", None]), key=str) == [("a", 2), ("b", 1), (None, 2)]


def test_no_rows_have_no_keys() -> None:
    assert count_scope([]) == []


def test_counts_of_several_parts_add_up() -> None:
    lines: list[str | None] = ["a b"] * (TALLY_ROWS + 1)
    made = count_scope(lines)
    total: Counter[str | None] = Counter()
    for word, count in made:
        total[word] += count
    assert total == {"a": len(lines), "b": len(lines)}
    assert len(made) == 6


def test_keys_that_hardly_repeat_are_given_as_they_come() -> None:
    lines: list[str | None] = [str(number) for number in range(TALLY_ROWS)]
    assert count_scope([*lines, "twice", "twice"], unique=True)[-2:] == [("twice", 1), ("twice", 1)]


@pytest.mark.parametrize(
    ("schema", "can"),
    [
        ("word string", True),
        ("a int, b date, c binary, d boolean", True),
        ("a double", False),
        ("word string, a decimal(3, 1)", False),
        ("a array<int>", False),
    ],
)
def test_only_keys_that_arrow_and_spark_tell_apart_alike(schema: str, can: bool) -> None:
    assert can_tally(schema_of(schema)) is can


def test_the_batches_have_the_declared_types() -> None:
    stage = LocalCountStage(rows=RowPipeline(LINES), keys=LINES, count="n")
    (batch,) = stage(arrow_table([("a",), ("a",)], LINES).to_batches())
    assert batch.schema.types == [pa.string(), pa.int64()]
