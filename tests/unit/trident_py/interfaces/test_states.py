"""States: how aggregators become updaters, and that a transaction is a group of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.trident_py.worker.aggregators import Total
from trident_py.interfaces.states import combiner_updater, reducer_updater
from trident_py.operations.builtin import Sum
from trident_py.rows.row import row_class
from trident_py.states.memory import MemoryMapState

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


class Recording(MemoryMapState[int]):
    """Which calls a transaction becomes."""

    def __init__(self, due: bool) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.due = due

    def begin_group(self, members: Sequence[Any]) -> Sequence[Any]:
        self.calls.append(f"begin_group {members}")
        return members if self.due else []

    def begin_member(self, tx: Any) -> None:
        self.calls.append(f"begin_member {tx}")

    def commit_group(self) -> None:
        self.calls.append("commit_group")


def test_a_transaction_is_a_group_of_one_and_one_that_was_applied_has_no_member() -> None:
    tx: Any = "tx"
    due, applied = Recording(True), Recording(False)
    assert due.begin_transaction(tx)
    due.end_transaction(tx)
    assert due.calls == ["begin_group ['tx']", "begin_member tx", "commit_group"]
    assert not applied.begin_transaction(tx)
    assert applied.calls == ["begin_group ['tx']"]
