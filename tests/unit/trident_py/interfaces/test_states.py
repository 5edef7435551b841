"""How aggregators become updaters."""

from __future__ import annotations

import pytest

from tests.unit.trident_py.worker.aggregators import Total
from trident_py.interfaces.states import combiner_updater, reducer_updater
from trident_py.operations.builtin import Sum
from trident_py.rows.row import row_class

NUMBER = row_class(("n",))


@pytest.mark.parametrize(("stored", "value"), [(None, 5), (2, 7)])
def test_a_partial_value_is_combined_with_what_is_stored_or_is_the_value(stored: int | None, value: int) -> None:
    assert combiner_updater(Sum("n"), 5)(stored) == value


@pytest.mark.parametrize(("stored", "value"), [(None, 3), (10, 13)])
def test_rows_are_reduced_onto_what_is_stored_or_onto_the_beginning(stored: int | None, value: int) -> None:
    rows = [NUMBER._make([each]) for each in (1, 2)]
    updater = reducer_updater(Total(), rows)
    assert updater(stored) == value
    assert updater(stored) == value, "it may be called again"
