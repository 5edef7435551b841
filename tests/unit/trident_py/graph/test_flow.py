"""What waits in a flow before Spark is asked for anything."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.graph.flow import Flow, project_step
from trident_py.graph.rowwise import map_rows
from trident_py.rows.schema import schema_of

SOURCE = schema_of("n int, m int, word string")
FRAME: Any = "a frame"


def test_row_operations_wait_and_say_which_fields_are_behind_them() -> None:
    flow = map_rows("map(f)", lambda row: (row.n,), "twice int").build([Flow.of(FRAME, SOURCE)], None)
    assert flow.frame == FRAME, "nothing was asked of Spark"
    assert flow.schema == schema_of("twice int")
    assert len(flow.rows.steps) == 1


def test_all_fields_in_their_order_are_no_operation() -> None:
    flow = Flow.of(FRAME, SOURCE)
    assert flow.select(["n", "m", "word"]) is flow


def test_behind_a_waiting_operation_fields_are_dropped_by_python_too() -> None:
    waiting = Flow.of(FRAME, SOURCE).then(project_step(SOURCE, ["word", "n"]))
    fewer = waiting.select(["n"])
    assert [step.title for step in fewer.rows.steps] == ["project", "project"]
    assert fewer.schema == schema_of("n int")
    assert fewer.rows.rows([(1, 2, "a")]) == [(1,)]


def test_a_projection_names_a_field_that_is_not_there() -> None:
    with pytest.raises(Exception, match="nothing"):
        project_step(SOURCE, ["nothing"])
