from __future__ import annotations

import math
import pickle
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from trident_py.errors import TopologyError
from trident_py.interfaces.operations import CombinerAggregator, Filter
from trident_py.operations.builtin import Count, Debug, Equals, FilterNull, Max, Min, NativeAggregator, Negate, Sum
from trident_py.rows.row import row_class
from trident_py.rows.schema import schema_of, select

SOURCE = schema_of(
    "a tinyint, b bigint, c float, d double, e decimal(9, 2), f decimal(35, 3), g string, h array<int>, i boolean, "
    "j date"
)


def combined(aggregator: CombinerAggregator[Any], values: list[Any]) -> Any:
    make = row_class(("x",))._make
    return reduce(aggregator.combine, [aggregator.init(make((value,))) for value in values], aggregator.zero())


def result_type(aggregator: NativeAggregator[Any]) -> str:
    return aggregator.result_type(select(SOURCE, aggregator.in_fields)).simpleString()


def seen(aggregator: NativeAggregator[Any]) -> StructType:
    return select(SOURCE, aggregator.in_fields)


@given(st.lists(st.none() | st.integers()))
def test_in_python_they_do_what_sql_does(values: list[int | None]) -> None:
    numbers = [value for value in values if value is not None]
    assert combined(Count(), values) == len(values)
    assert combined(Sum("x"), values) == sum(numbers)
    assert combined(Min("x"), values) == min(numbers, default=None)
    assert combined(Max("x"), values) == max(numbers, default=None)


def test_nothing_adds_up_to_zero_and_has_no_extremes() -> None:
    assert [combined(each, []) for each in (Count(), Sum("x"), Min("x"), Max("x"))] == [0, 0, None, None]


def test_fractions_are_not_cut_and_decimals_stay_exact() -> None:
    assert combined(Sum("x"), [0.5, 0.25, None]) == 0.75
    assert combined(Sum("x"), [Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")


def test_nan_is_the_greatest_number_as_in_spark() -> None:
    assert combined(Min("x"), [math.nan, 1.0, None]) == 1.0
    assert combined(Min("x"), [1.0, math.nan]) == 1.0
    assert math.isnan(combined(Max("x"), [math.nan, 1.0, math.inf]))
    assert math.isnan(combined(Max("x"), [1.0, math.nan]))


def test_results_have_the_types_that_spark_gives() -> None:
    assert result_type(Count()) == "bigint"
    assert [result_type(Sum(name)) for name in "abcdef"] == [
        *["bigint"] * 2, *["double"] * 2, "decimal(19,2)", "decimal(38,3)",
    ]  # fmt: skip
    assert [result_type(Min(name)) for name in "abcdegij"] == [
        "tinyint", "bigint", "float", "double", "decimal(9,2)", "string", "boolean", "date",
    ]  # fmt: skip
    assert result_type(Max("f")) == "decimal(35,3)"


@pytest.mark.parametrize("aggregator", [Sum("g"), Sum("i"), Sum("j"), Min("h"), Max("h")], ids=repr)
def test_a_field_that_can_t_be_aggregated_is_named_with_its_type(aggregator: NativeAggregator[Any]) -> None:
    kind = SOURCE[aggregator.in_fields[0]].dataType.simpleString()
    with pytest.raises(TopologyError, match=f"'{aggregator.in_fields[0]}' is {kind}"):
        aggregator.result_type(seen(aggregator))


def test_filter_null_looks_at_every_value_it_sees() -> None:
    make = row_class(("a", "b"))._make
    assert [FilterNull().is_keep(make(values)) for values in [(1, 0), (None, 1), (1, None)]] == [True, False, False]
    assert FilterNull("a", "b").in_fields == ("a", "b")


def test_negate_keeps_what_the_other_drops() -> None:
    negated = Negate(FilterNull("a"))
    assert negated.in_fields == ("a",)
    assert [negated.is_keep((value,)) for value in (1, None)] == [False, True]


def test_negate_takes_an_instance_of_a_filter() -> None:
    with pytest.raises(TopologyError, match="Negate takes a Filter"):
        Negate(FilterNull)  # type: ignore[arg-type]


def test_they_show_what_the_user_wrote_and_survive_pickle() -> None:
    for thing in (Count(), Sum("a"), Min("b"), Max("c"), FilterNull("d"), Negate(FilterNull())):
        again = pickle.loads(pickle.dumps(thing))  # noqa: S301 - its own
        assert isinstance(again, CombinerAggregator | Filter)
        assert again.in_fields == thing.in_fields
    assert [repr(Count()), repr(Sum("a")), repr(Max("c"))] == ["Count()", "Sum('a')", "Max('c')"]


def test_b8_equals_takes_two_nulls_for_equal_and_two_nans() -> None:
    rows = [(1, 1), (1, 2), (None, None), (None, 1), (1, None), (math.nan, math.nan), (math.nan, 1.0), (0.0, -0.0)]
    assert [Equals().is_keep(row) for row in rows] == [True, False, True, False, False, True, False, True]
    assert Equals("a", "b").in_fields == ("a", "b")
    assert not Negate(Equals("a", "b")).is_keep((1, 1))


def test_b10_debug_keeps_every_row_and_shows_it(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    row = row_class(("word", "n"))._make(("ü", 1))
    assert Debug().is_keep(row)
    assert Debug("words").is_keep(row)
    assert capsys.readouterr().out == "DEBUG: Row(word='ü', n=1)\nwords: Row(word='ü', n=1)\n"
    with caplog.at_level("INFO", logger="trident_py.debug"):
        assert Debug("words", use_logger=True).is_keep(row)
    assert caplog.messages == ["words: Row(word='ü', n=1)"]
