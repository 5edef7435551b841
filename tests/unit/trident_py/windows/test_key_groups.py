"""Groups of keys over one state: each has its own data, and the state is asked and told little."""

from __future__ import annotations

from tests.unit.trident_py.windows.stored import Stored
from trident_py.windows.event_store import HEAD
from trident_py.windows.key_groups import GroupedState


def test_groups_do_not_see_each_others_values() -> None:
    state = Stored()
    grouped = GroupedState(state)
    one, other = grouped.groups([1, 11])
    one.multi_put([HEAD, ("[1]", 0)], [b"head", b"one"])
    other.multi_put([("[1]", 0)], [b"other"])
    assert one.multi_get([HEAD, ("[1]", 0), ("[2]", 0)]) == [b"head", b"one", None]
    assert other.multi_get([HEAD, ("[1]", 0)]) == [None, b"other"]
    grouped.flush()
    assert state.values == {("1:head", 0): b"head", ("1:[1]", 0): b"one", ("11:[1]", 0): b"other"}


def test_heads_are_read_at_once_and_nothing_is_written_before_the_end() -> None:
    state = Stored()
    state.values = {("0:head", 0): b"old", ("0:a", 0): b"a", ("1:b", 0): b"b"}
    grouped = GroupedState(state)
    groups = grouped.groups(range(3))
    assert [group.multi_get([HEAD]) for group in groups] == [[b"old"], [None], [None]]
    assert state.read == [("0:head", 0), ("1:head", 0), ("2:head", 0)]
    groups[0].multi_remove([("a", 0)])
    groups[1].multi_put([HEAD, ("b", 0)], [b"new", b"c"])
    assert (groups[0].multi_get([("a", 0)]), groups[1].multi_get([("b", 0)])) == ([None], [b"c"])
    assert state.written == []
    grouped.flush()
    assert state.values == {("0:head", 0): b"old", ("1:head", 0): b"new", ("1:b", 0): b"c"}
    assert len(state.read) == 3
