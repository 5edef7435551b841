"""Outputs: by what their states are compared with those of an earlier start, and how they are shown."""

from __future__ import annotations

from typing import Any

from trident_py.graph.output import described_factory, state_identity
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState


def test_a_state_that_starts_empty_can_not_be_another_one() -> None:
    assert state_identity(MemoryMapState.factory(), {"keys": "word string"}, 1) == {}
    kept = state_identity(SQLiteState("a.db", table="counts"), {"keys": "word string"}, 2)
    assert (kept["keys"], kept["parts"]) == ("word string", 2)
    assert kept["kind"][0] == "SQLiteState"  # type: ignore[index]


def test_a_factory_without_a_repr_is_shown_by_its_class() -> None:
    assert described_factory(SQLiteState("a.db", table="counts")).startswith("SQLiteState(")
    plain: Any = type("Plain", (), {})()
    assert described_factory(plain) == "Plain"
