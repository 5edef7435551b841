"""Records of keys over a state: what is written comes back, and what is empty goes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.trident_py.windows.driven import begun
from trident_py.rows.row import row_class
from trident_py.rows.schema import schema_of
from trident_py.states.memory import MemoryMapState
from trident_py.windows.keyed_store import KeyedHead, KeyedStore, KeyRecord
from trident_py.windows.time_index import StoredBin
from trident_py.windows.watermark import PartitionProgress, WatermarkProgress

TYPES = (
    "n bigint, d decimal(38, 2), at timestamp, day date, f double, words array<string>, tags map<string, int>, "
    "pair struct<a: int, b: string>, raw binary"
)
VALUES = (
    *(-1, Decimal("12345678901234567890.25"), datetime(2024, 5, 1, 12, 0, 0, 7, tzinfo=UTC), date(2024, 5, 1), -0.0),
    *(["a", None], {"a": 1}, (1, "b"), b"\n\x00"),
)


@pytest.fixture
def state() -> MemoryMapState[Any]:
    return begun(MemoryMapState())


def test_values_of_every_type_that_a_function_keeps_come_back(state: MemoryMapState[Any]) -> None:
    store = KeyedStore(schema=schema_of(TYPES))
    make = row_class(tuple(store.schema.names))._make
    records = {
        '["a"]': KeyRecord(make(VALUES), {5, 3}, {2}),
        '["b"]': KeyRecord(None, {7}, {7}),
        '["c"]': KeyRecord(make([None] * 9)),
    }
    store.write(state, records)
    assert store.read(state, [*records, '["d"]']) == {**records, '["d"]': KeyRecord()}
    value = store.read(state, ['["a"]'])['["a"]'].value
    assert value is not None
    assert repr(value[4]) == "-0.0"


def test_a_record_without_anything_is_removed(state: MemoryMapState[Any]) -> None:
    store = KeyedStore(schema=schema_of("n bigint"))
    store.write(state, {"[1]": KeyRecord(None, set(), {4}), "[2]": KeyRecord(row_class(("n",))._make([1]))})
    assert None not in state.multi_get([("[1]", 0), ("[2]", 0)])
    store.write(state, {"[1]": KeyRecord(), "[2]": KeyRecord()})
    assert state.multi_get([("[1]", 0), ("[2]", 0)]) == [None, None]


def test_a_value_of_another_type_is_refused_by_the_name_of_its_field(state: MemoryMapState[Any]) -> None:
    record = KeyRecord(row_class(("n",))._make(["one"]))
    store = KeyedStore(schema=schema_of("n bigint"))
    with pytest.raises(TypeError, match="field 'n' is declared bigint, got 'one'"):
        store.write(state, {"[1]": record})
    with pytest.raises(TypeError, match="field 'n' is declared bigint, got 'one'"):
        store.check(record)


def test_the_head_comes_back(state: MemoryMapState[Any]) -> None:
    store = KeyedStore(schema=schema_of("n bigint"))
    assert store.head(state) == KeyedHead()
    progress = WatermarkProgress(5, {'["a"]': PartitionProgress(7, 9)})
    head = KeyedHead(progress, 3, {-52: StoredBin(0, -9), 76: StoredBin(2, 8)})
    store.put_head(state, head)
    assert store.head(state) == head
    assert head.first == -9
    assert KeyedHead().first is None


@pytest.mark.parametrize(
    ("timers", "entries", "missing"),
    [(set(), set(), None), (set(), {3}, None), ({4}, set(), 4), ({4}, {3}, None), ({4}, {4}, None), ({4, 6}, {5}, 4)],
)
def test_the_index_has_an_entry_at_or_before_the_first_timer(
    timers: set[int], entries: set[int], missing: int | None
) -> None:
    assert KeyRecord(None, timers, entries).missing_entry == missing


def test_the_name_of_the_value_depends_on_what_is_stored() -> None:
    names = {
        KeyedStore(schema=schema_of(schema), made_of=made_of).value.name
        for schema in ("n bigint", "n int")
        for made_of in ([["word string", []]], [["word int", []]], [["word string", ["at", []]]])
    }
    assert len(names) == 6
    assert all(name.startswith("keyed_") for name in names)
