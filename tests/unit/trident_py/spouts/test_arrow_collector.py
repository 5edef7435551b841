"""What a spout emits becomes Arrow data of the declared fields, or an error that names the row."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from trident_py.errors import SpoutError
from trident_py.rows.schema import schema_of
from trident_py.spouts.arrow_collector import SHOWN_CHARS_MAX, ArrowCollector, shortened


def collector(fields: str = "n int, word string") -> ArrowCollector:
    class Raising(ArrowCollector):
        def report_error(self, error: BaseException) -> None:
            raise error

    return Raising("spout 'lines'", schema_of(fields))


def rows_of(collector: ArrowCollector) -> list[tuple[Any, ...]]:
    collector._flush()
    return [tuple(row.values()) for part in collector._parts for row in part.to_pylist()]


def test_rows_and_arrow_data_keep_the_order_in_which_they_were_emitted() -> None:
    made = collector()
    made.emit((1, "a"))
    made.emit_arrow(pa.record_batch({"word": ["b"], "n": pa.array([2], pa.int64())}))
    made.emit([3, None])
    assert rows_of(made) == [(1, "a"), (2, "b"), (3, None)]


@pytest.mark.parametrize("row", ["ab", {"n": 1, "word": "a"}, 7])
def test_what_is_no_row_is_shown(row: Any) -> None:
    with pytest.raises(SpoutError, match=r"spout 'lines': emitted .*; to fix this: emit a tuple, list or Row"):
        collector().emit(row)


def test_too_few_values_are_counted() -> None:
    with pytest.raises(SpoutError, match=r"emitted 1 values, .* for the 2 fields"):
        collector().emit((1,))


def test_a_value_of_another_type_is_named_by_its_row_counted_over_the_batch() -> None:
    made = collector()
    made.emit_arrow(pa.table({"n": pa.array([1, 2], pa.int32()), "word": ["a", "b"]}))
    made.emit((3, "c"))
    made.emit((date(2026, 1, 1), "d"))
    with pytest.raises(SpoutError, match="row 4 of the batch"):
        made._flush()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (pa.table({"n": [1]}), "the fields"),
        (pa.table({"n": ["x"], "word": ["a"]}), "not of the declared types"),
        (pa.table({"n": pa.array([2**40]), "word": ["a"]}), "not of the declared types"),
        (pa.table({"n": ["12"], "word": ["a"]}), "field 'n' is string, declared is int32: values of this type"),
        (pa.table({"n": [True], "word": ["a"]}), "field 'n' is bool, declared is int32: values of this type"),
    ],
)
def test_arrow_data_of_other_fields_or_of_values_that_would_be_lost_is_refused(data: pa.Table, what: str) -> None:
    with pytest.raises(SpoutError, match=what):
        collector().emit_arrow(data)


def test_a_long_value_is_shown_in_part() -> None:
    assert len(shortened("x" * 10_000)) == SHOWN_CHARS_MAX + 1
    assert shortened("x") == "'x'"


@pytest.mark.parametrize("value", [0.5, math.nan, math.inf, None])
def test_a_double_is_taken_for_a_float(value: float | None) -> None:
    made = collector("x float")
    made.emit_arrow(pa.table({"x": pa.array([value, 1.0], pa.float64())}))
    assert repr(rows_of(made)) == repr([(value,), (1.0,)])


@pytest.mark.parametrize("value", [1e300, -1e39])
def test_a_double_that_no_float_reaches_is_refused_where_arrow_would_make_it_infinite(value: float) -> None:
    with pytest.raises(
        SpoutError, match="'x' is double, declared is float: a value is too large for a float; to fix this: declare"
    ):
        collector("x float").emit_arrow(pa.table({"x": [value, 1.0]}))


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_of_each_kind_of_arrow_are_the_same_texts(kind: pa.DataType) -> None:
    made = collector("x string")
    made.emit_arrow(pa.table({"x": pa.array(["a", None, "\\N\t"], pa.string()).cast(kind)}))
    assert rows_of(made) == [("a",), (None,), ("\\N\t",)]
