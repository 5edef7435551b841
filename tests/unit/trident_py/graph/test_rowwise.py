"""Operations that go row by row: their fields, and what they make of rows without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.errors import TopologyError
from trident_py.graph.graph import NeedsSpark, RowFlow
from trident_py.graph.rowwise import (
    ColumnFilter,
    RowOperation,
    each_row,
    filter_rows,
    flat_map_rows,
    map_rows,
    peek_rows,
    project_rows,
    transformed,
)
from trident_py.interfaces.operations import Filter, Function
from trident_py.operations.builtin import Equals, FilterNull, Negate
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_table, schema_of

SOURCE = schema_of("n int, m int")
GIVEN = [(1, 1), (2, None), (3, 4)]


class Twice(Function):
    def execute(self, row: Any, collector: Any) -> None:
        collector.emit((row.n * 2,))


class Odd(Filter):
    def is_keep(self, row: Any) -> bool:
        return bool(row.n % 2)


def made(operation: Any) -> list[tuple[Any, ...]]:
    flow = RowFlow.of(arrow_table(GIVEN, SOURCE).to_batches(), SOURCE)
    done = operation.on_rows([flow], None)
    assert done.schema == operation.output([SOURCE])
    return [tuple(row) for row in rows_of(done.table())]


OPERATIONS: dict[str, tuple[RowOperation, list[tuple[Any, ...]]]] = {
    "map": (map_rows("map", lambda row: (row.n * 2,), "twice int"), [(2,), (4,), (6,)]),
    "flat_map": (flat_map_rows("flat_map", lambda row: [(row.n,)] * row.n, "n int"), [(1,), (2,), (2,), *[(3,)] * 3]),
    "peek": (peek_rows("peek", lambda row: "ignored"), GIVEN),
    "a filter": (filter_rows("filter", Odd(), ()), [(1, 1), (3, 4)]),
    "a filter of Spark's": (filter_rows("filter", FilterNull("m"), ("m",)), [(1, 1), (3, 4)]),
    "its contrary": (filter_rows("filter", Negate(Equals("n", "m")), ("n", "m")), [(2, None), (3, 4)]),
    "each": (each_row("each", Twice(), ("n",), "twice int"), [(1, 1, 2), (2, None, 4), (3, 4, 6)]),
    "project": (project_rows("project", ["m"]), [(1,), (None,), (4,)]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_rows_go_through_one_by_one(name: str) -> None:
    operation, expected = OPERATIONS[name]
    assert made(operation) == expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_transactions_number_in_front_is_carried_along_unseen(name: str) -> None:
    operation, expected = OPERATIONS[name]
    front = schema_of("txid bigint").fields[0]
    shared = operation.shared(front, SOURCE, lambda condition, fields: False)
    fields = schema_of("txid bigint, n int, m int")
    rows = [(txid, *row) for txid in (7, 8) for row in GIVEN]
    done = shared.on_rows([RowFlow.of(arrow_table(rows, fields).to_batches(), fields)], None)
    assert [tuple(row) for row in rows_of(done.table())] == [(txid, *row) for txid in (7, 8) for row in expected]


def test_a_condition_of_sparks_needs_spark_and_is_shared_where_it_looks_at_one_row() -> None:
    condition = ColumnFilter("filter('n > 1')", "n > 1")
    with pytest.raises(NeedsSpark):
        made(condition)
    front = schema_of("txid bigint").fields[0]
    assert condition.shared(front, SOURCE, lambda *_: True) is condition
    assert condition.shared(front, SOURCE, lambda *_: False) is None


def test_a_transform_has_the_fields_that_were_declared_or_found() -> None:
    unknown = transformed("transform(f)", lambda frame: frame, None)
    assert unknown.output([SOURCE]) is None
    assert unknown.with_schema(SOURCE).output([SOURCE]) == SOURCE
    declared = transformed("transform(f)", lambda frame: frame, "n int")
    with pytest.raises(TopologyError, match="the declared fields are"):
        declared.with_schema(SOURCE)


@pytest.mark.parametrize("wrong", [7, Odd])
def test_what_is_no_function_is_refused_where_it_is_declared(wrong: Any) -> None:
    with pytest.raises(TopologyError):
        filter_rows("filter", wrong, ())
