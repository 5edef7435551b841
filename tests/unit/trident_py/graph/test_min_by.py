"""``min_by`` and ``max_by``: which row is the one, by Python and as declared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import TopologyError
from trident_py.graph.min_by import BestRow, ExtremeRow, compared_fields
from trident_py.rows.row import row_class
from trident_py.rows.schema import schema_of

ROW = row_class(("n", "m"))


def best(rows: list[Any], fields: tuple[str, ...], *, greatest: bool) -> list[Any]:
    found: list[Any] = []
    reducer = BestRow(fields, lambda value: value, greatest=greatest)
    value = reducer.init(None, None)  # type: ignore[arg-type]
    for row in rows:
        value = reducer.aggregate(value, row, None) or value  # type: ignore[arg-type]

    class Collector:
        def emit(self, row: Any) -> None:
            found.append(row)

    reducer.complete(value, Collector())  # type: ignore[arg-type]
    return found


rows = st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(0, 3)), max_size=8)


@given(rows, st.booleans(), st.sampled_from([("n",), ("n", "m")]))
def test_of_equal_rows_the_last_wins_and_a_null_is_none(
    given: list[Any], greatest: bool, fields: tuple[str, ...]
) -> None:
    made = [ROW._make(each) for each in given]
    keys = [tuple(row[name] for name in fields) for row in made]
    known = [(key, number) for number, key in enumerate(keys) if None not in key]
    expected = []
    if known:
        extreme = max(known)[0] if greatest else min(known)[0]
        expected = [made[max(number for key, number in known if key == extreme)]]
    assert best(made, fields, greatest=greatest) == expected


def test_the_fields_stay_and_what_cannot_be_compared_is_refused() -> None:
    fields = schema_of("n int, tags map<string, int>")
    assert ExtremeRow("min_by('n')", ("n",), greatest=False).output([fields]) == fields
    with pytest.raises(TopologyError):
        ExtremeRow("min_by('tags')", ("tags",), greatest=False).output([fields])
    with pytest.raises(TopologyError, match="at least one field"):
        compared_fields(())
    assert compared_fields("n") == ("n",)
