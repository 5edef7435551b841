from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.worker.aggregators import Longest, Sorted, Total
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.operations.builtin import Count
from trident_py.rows.row import rows_of
from trident_py.rows.schema import append, arrow_table, schema_of, select
from trident_py.worker import accumulators
from trident_py.worker.accumulators import (
    Accumulator,
    AggregatorAccumulator,
    ChainAccumulator,
    CombiningAccumulator,
    GroupStage,
    MergingAccumulator,
    ReducingAccumulator,
)
from trident_py.worker.pipeline import CHUNK_ROWS, NO_ROW, RowPipeline

SOURCE = schema_of("word string, n bigint")
ROWS = st.lists(st.tuples(st.sampled_from(["a", "bb", "cc", None]), st.none() | st.integers(-9, 9)), max_size=30)


def stage(
    accumulator: Accumulator[Any], out: str, keys: tuple[str, ...] = (), source: Any = SOURCE, **more: Any
) -> GroupStage:
    key_fields = select(source, keys)
    options: dict[str, Any] = {"partial": False, **more}
    seen: tuple[str, ...] = options.pop("in_fields", tuple(source.names))
    return GroupStage(
        rows=RowPipeline(source),
        keys=key_fields,
        in_fields=(seen,),
        accumulator=accumulator,
        target=append(key_fields, schema_of(out)),
        title="aggregate(it)",
        **options,
    )


def run(group_stage: GroupStage, rows: list[Any], size: int = 7, source: Any = SOURCE) -> list[Any]:
    batches = arrow_table(rows, source).to_batches(max_chunksize=size)
    return [row for batch in group_stage(batches) for row in rows_of(batch)]


@given(ROWS)
def test_a_reducer_folds_each_group(rows: list[Any]) -> None:
    expected: dict[str | None, int] = defaultdict(int)
    for word, n in rows:
        expected[word] += n or 0
    assert dict(run(stage(ReducingAccumulator(Total()), "total bigint", ("word",)), rows)) == expected
    assert run(stage(ReducingAccumulator(Total()), "total bigint"), rows) == [(sum(expected.values()),)]


@given(ROWS, ROWS)
def test_a_combiner_gives_the_same_by_parts(left: list[Any], right: list[Any]) -> None:
    combine = stage(CombiningAccumulator(Longest()), "longest string", ("word",), in_fields=("word",), partial=True)
    parts = [tuple(row) for rows in (left, right) for row in run(combine, rows)]
    source = schema_of("word string, longest string")
    merge = stage(MergingAccumulator(Longest()), "longest string", ("word",), source, in_fields=("longest",))
    assert dict(run(merge, parts, source=source)) == {word: word or "" for word, _ in [*left, *right]}


class Balance(CombinerAggregator[Any]):
    """A sum that cancels out."""

    def init(self, row: Any) -> Any:
        return row.n

    def combine(self, left: Any, right: Any) -> Any:
        return left + right or REMOVE

    def zero(self) -> Any:
        return 0


@pytest.mark.parametrize("kind", [CombiningAccumulator, MergingAccumulator])
def test_rows_that_cancel_each_other_out_give_their_group_no_partial_value(kind: type[CombiningAccumulator]) -> None:
    rows = [("a", 1), ("b", 2), ("a", -1), ("c", 1), ("b", -2), ("a", 3)]
    by_word = stage(kind(Balance()), "total bigint", ("word",), in_fields=("n",))
    assert dict(run(by_word, rows)) == {"a": 3, "c": 1}
    assert run(stage(kind(Balance()), "total bigint", in_fields=("n",)), rows[:3:2]) == [(0,)]


def test_without_rows_an_ungrouped_fold_has_a_value_unless_another_follows() -> None:
    assert run(stage(CombiningAccumulator(Longest()), "longest string", partial=True), []) == []
    assert run(stage(MergingAccumulator(Longest()), "longest string"), []) == [("",)]
    assert run(stage(ReducingAccumulator(Total()), "total bigint"), []) == [(0,)]
    assert run(stage(ReducingAccumulator(Total()), "total bigint", ("word",)), []) == []


def test_an_aggregator_emits_when_it_likes_and_may_change_or_return_its_value() -> None:
    out = schema_of("count int, words array<string>")
    accumulator = AggregatorAccumulator(Sorted(), TransactionAttempt(3, 1), out, "aggregate(Sorted)")
    rows = [("b", 1), ("a", 1), ("twice", 1), ("a", 2)]
    assert run(stage(accumulator, "count int, words array<string>", in_fields=("word",)), rows) == [
        (-1, ["twice"]),
        (4, ["a", "a", "b", "twice"]),
    ]
    assert run(stage(accumulator, "count int, words array<string>", in_fields=("word",)), []) == [(0, [])]
    grouped = run(stage(accumulator, "count int, words array<string>", ("n",), in_fields=("word",)), rows)
    assert grouped == [(1, -1, ["twice"]), (1, 3, ["a", "b", "twice"]), (2, 1, ["a"])]


def test_the_row_that_is_none_is_left_out() -> None:
    batch = arrow_table([("a", 1), ("b", 2)], SOURCE).to_batches()[0]
    marked = pa.RecordBatch.from_arrays([*batch.columns, pa.array([False, True])], [*SOURCE.names, NO_ROW])
    (result,) = stage(ReducingAccumulator(Total()), "total bigint")([marked])
    assert rows_of(result) == [(1,)]


def test_keys_are_grouped_as_spark_groups_them() -> None:
    source = schema_of("x double, y array<struct<z: float>>, n bigint")
    rows = [
        (math.nan, [(0.0,)], 1),
        (math.nan, [(-0.0,)], 2),
        (-0.0, None, 3),
        (0.0, None, 4),
        (None, [None], 5),
        (None, [None], 6),
        (None, [(None,)], 7),
    ]
    result = run(stage(ReducingAccumulator(Total()), "total bigint", ("x", "y"), source), rows, source=source)
    assert [(str(x), y, total) for x, y, total in result] == [
        ("nan", [(0.0,)], 3),
        ("0.0", None, 7),
        ("None", [None], 11),
        ("None", [(None,)], 7),
    ]


def test_many_groups_are_given_in_pieces() -> None:
    rows = [(str(number), number) for number in range(CHUNK_ROWS + 1)]
    batches = list(
        stage(ReducingAccumulator(Total()), "total bigint", ("word",))(arrow_table(rows, SOURCE).to_batches())
    )
    assert [batch.num_rows for batch in batches] == [CHUNK_ROWS, 1]
    assert sorted(row.total for batch in batches for row in rows_of(batch)) == list(range(CHUNK_ROWS + 1))


def test_partial_values_are_passed_on_when_they_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulators, "GROUPS_MAX", 2)
    combine = stage(CombiningAccumulator(Longest()), "longest string", ("word",), in_fields=("word",), partial=True)
    rows = [(word, 1) for word in "abcab"]
    assert run(combine, rows, size=1) == [(word, word) for word in "abcab"]
    whole = stage(ReducingAccumulator(Total()), "total bigint", ("word",))
    assert run(whole, rows, size=1) == [("a", 2), ("b", 2), ("c", 1)]


class Broken(Total):
    """Can't begin, or can't go on."""

    def __init__(self, at: int | None) -> None:
        self.at = at

    def init(self) -> int:
        if self.at is None:
            raise RuntimeError("no start")
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        return curr + int(1 // (row.n - (self.at or 0)))


def test_an_exception_says_in_which_operation_and_at_which_row() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(stage(ReducingAccumulator(Broken(2)), "total bigint", ("word",)), [("a", 1), ("b", 2), ("c", 3)])
    assert caught.value.__notes__ == ["in aggregate(it), at Row(word='b', n=2)"]
    with pytest.raises(RuntimeError, match="no start") as empty:
        run(stage(ReducingAccumulator(Broken(None)), "total bigint"), [])
    assert empty.value.__notes__ == ["in aggregate(it)"]


def test_a_result_of_another_type_is_named_with_the_operation() -> None:
    with pytest.raises(TypeError, match=r"aggregate\(it\): field 'total' is declared string, got 0 \(int\)"):
        run(stage(ReducingAccumulator(Total()), "total string"), [])


@given(ROWS)
def test_a_chain_folds_side_by_side_and_combines_each_result_with_each(rows: list[Any]) -> None:
    sorted_words = AggregatorAccumulator(Sorted(), None, schema_of("size int, words array<string>"), "aggregate(it)")
    chained = GroupStage(
        rows=RowPipeline(SOURCE),
        keys=schema_of("n bigint"),
        in_fields=(("word", "n"), (), ("word",)),
        accumulator=ChainAccumulator((ReducingAccumulator(Total()), CombiningAccumulator(Count()), sorted_words)),
        target=schema_of("n bigint, total bigint, count bigint, size int, words array<string>"),
        partial=False,
        title="chained_agg(it)",
    )
    groups: dict[int | None, list[Any]] = defaultdict(list)
    for word, n in [*rows, ("twice", 1)]:
        groups[n].append(word)
    expected = [
        (n, (n or 0) * len(words), len(words), *emitted)
        for n, words in groups.items()
        for emitted in [(-1, ["twice"])] * words.count("twice") + [(len(words), sorted(words, key=str))]
    ]
    assert run(chained, [*rows, ("twice", 1)]) == expected


@pytest.mark.parametrize("kind", [CombiningAccumulator, MergingAccumulator, ReducingAccumulator])
def test_decimals_of_38_digits_add_up_to_the_last_digit(kind: Any) -> None:
    class Adding(ReducerAggregator[Decimal], CombinerAggregator[Decimal]):
        def init(self, row: Any = None) -> Decimal:
            return Decimal(row[0]) if row else Decimal(0)

        def zero(self) -> Decimal:
            return Decimal(0)

        def combine(self, left: Decimal, right: Decimal) -> Decimal:
            return left + right

        def reduce(self, value: Decimal, row: Any) -> Decimal:
            return value + Decimal(row[0])

    source = schema_of("n decimal(38,10)")
    rows = [(Decimal("1234567890123456789012345678.9012345678"),), (Decimal("1E-10"),)]
    fold = stage(kind(Adding()), "total decimal(38,10)", source=source)
    assert run(fold, rows, source=source) == [(Decimal("1234567890123456789012345678.9012345679"),)]
