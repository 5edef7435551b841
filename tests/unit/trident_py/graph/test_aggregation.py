"""Aggregations: their fields, and what they make of rows without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.trident_py.worker.aggregators import Longest, Sorted, Total
from trident_py.errors import TopologyError
from trident_py.graph.aggregation import Scope, aggregate_call, aggregation, with_call
from trident_py.graph.graph import Engine, NeedsSpark, RowFlow
from trident_py.operations.builtin import Count, Sum
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of

SOURCE = schema_of("word string, n int")
rows = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=8)


def made(operation: Any, given: list[Any]) -> list[tuple[Any, ...]]:
    flow = RowFlow.of(arrow_table(given, SOURCE).to_batches(), SOURCE)
    done = operation.on_rows([flow], None)
    assert done.schema == operation.output([SOURCE])
    return [tuple(row) for row in rows_of(done.table())]


@given(rows)
def test_each_kind_of_aggregator_gives_one_result_for_each_group(given: list[Any]) -> None:
    numbers: dict[str, list[int]] = defaultdict(list)
    for word, n in given:
        numbers[word].append(n)
    counted = aggregation("count", ("word",), Count(), "count", None)
    assert sorted(made(counted, given)) == sorted(Counter(word for word, _ in given).items())
    total = aggregation("total", ("word",), Total(), "total int", None)
    assert sorted(made(total, given)) == sorted((word, sum(each)) for word, each in numbers.items())
    longest = aggregation("longest", ("n",), Longest(), "longest string", None)
    assert dict(made(longest, given)) == {n: max(w for w, m in given if m == n) for _, n in given}


def test_a_batch_without_rows_gives_the_zero_where_it_is_not_grouped() -> None:
    assert made(aggregation("count", (), Count(), "count", None), []) == [(0,)]
    assert made(aggregation("count", ("word",), Count(), "count", None), []) == []


def test_a_chain_has_the_results_of_all_and_each_name_once() -> None:
    chain = with_call(
        aggregation("chain", ("word",), Count(), "count", None), aggregate_call(Sum("n"), "total", None), "chain"
    )
    assert made(chain, [("a", 1), ("a", 2)]) == [("a", 2, 3)]
    with pytest.raises(TopologyError, match="a name of its own"):
        with_call(chain, aggregate_call(Count(), "TOTAL", None), "chain")


def test_who_does_it_and_what_needs_spark() -> None:
    native = aggregation("count", (), Count(), "count", None)
    python = aggregation("total", (), Total(), "total int", None)
    assert (native.engine([]), python.engine([])) == (Engine.SPARK, Engine.PYTHON)
    with pytest.raises(NeedsSpark):
        made(aggregation("count", (), Count(), "count", None, Scope.PARTITION), [])


def test_several_transactions_go_through_it_only_where_their_results_can_be_told_apart() -> None:
    front = schema_of("txid bigint").fields[0]

    def shared(keys: tuple[str, ...], aggregator: Any, out: str) -> Any:
        return aggregation("a", keys, aggregator, out, None).shared(front, SOURCE, lambda *_: True)

    assert shared(("word",), Count(), "count").keys == ("txid", "word")
    assert shared((), Count(), "count") is None
    assert shared(("word",), Sorted(), "size int, words array<string>") is None


@pytest.mark.parametrize(
    ("aggregator", "out", "in_fields"),
    [
        (Count, "count", None),
        (Count(), "count bigint", None),
        (Sum("n"), "total", ("n",)),
        (Total(), "a int, b int", None),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_is_declared(aggregator: Any, out: str, in_fields: Any) -> None:
    with pytest.raises(TopologyError):
        aggregate_call(aggregator, out, in_fields)
