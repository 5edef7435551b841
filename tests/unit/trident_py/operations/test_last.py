from __future__ import annotations

from functools import reduce

from trident_py.operations.last import Last
from trident_py.rows.row import row_class
from trident_py.rows.schema import schema_of, select

ROWS = list(map(row_class(("price",))._make, [(3,), (1,), (None,), (2,)]))


def test_it_is_the_value_of_the_last_row_null_if_that_is_its_value() -> None:
    last = Last("price")
    assert [reduce(last.reduce, ROWS[:count], 7) for count in range(5)] == [7, 3, 1, None, 2]


def test_it_knows_its_type_and_its_field() -> None:
    source = schema_of("name string, price decimal(9, 2), tags array<string>")
    assert Last("price").result_type(select(source, ["price"])).simpleString() == "decimal(9,2)"
    assert Last("tags").result_type(select(source, ["tags"])).simpleString() == "array<string>"
    assert repr(Last("price")) == "Last('price')"
