"""Data of versions before the first release (``tests/golden``) are refused by name, and the refusal changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coordinators.record.record import decode
from coordinators.record.store import TopologyIdentity
from coordinators.takeover.takeover import recover
from coordinators.values.errors import MetadataError
from tests.golden.loading import coordination, encoded, restore_databases, scenarios
from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import TopologyKey
from trident_py.rows.schema import schema_of
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.windows.window_store import KEYS, LocalWindows, WindowRows
from trident_py.windows.windows import TumblingDuration

WHO_WROTE_IT = "a version of trident_py before the first release|a version before the first release wrote it"


def dumped(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def key(identity: TopologyIdentity) -> TopologyKey:
    return TopologyKey(identity.name, identity.uuid, identity.incarnation)


@pytest.mark.parametrize("name", scenarios())
def test_a_record_of_before_is_refused_by_its_version_and_the_refusal_changes_nothing(name: str) -> None:
    before = coordination(name)
    stored = encoded(name)
    with pytest.raises(MetadataError, match=f"it has format version 1, .* only; {WHO_WROTE_IT}"):
        decode(stored.head, stored.blobs, where=name)
    with pytest.raises(MetadataError, match=WHO_WROTE_IT):
        recover(before.acquire(), [])
    assert before.stored == stored


@pytest.mark.parametrize("name", ["torn-group", "split-group", "opaque-partitions"])
def test_a_table_of_before_is_refused_and_is_as_it_was(name: str, tmp_path: Path) -> None:
    restore_databases(name, tmp_path)
    path = tmp_path / "state.db"
    before = dumped(path)
    factory = SQLiteState(path, table="counts").for_fields(
        schema_of("word string"), schema_of("count bigint").fields[0]
    )
    state: Any = factory.make_state(TridentConfig(state_dir=tmp_path), Metrics(), 0, 1)
    with pytest.raises(StateError, match=f'"_trident".* has no format version: {WHO_WROTE_IT}.* to fix this: '):
        state.recover(key(coordination(name).identity), 9)
    state.close()
    assert dumped(path) == before


def test_windows_of_before_are_refused(tmp_path: Path) -> None:
    restore_databases("windows", tmp_path)
    identity = coordination("windows").identity
    rows = WindowRows(TumblingDuration(3600), schema_of("number bigint"))
    factory = LocalWindows(identity.name, "tumbling-time").for_fields(KEYS, rows.value)
    state: Any = factory.make_state(TridentConfig(state_dir=tmp_path), Metrics(), 0, 1)
    with pytest.raises(StateError, match=WHO_WROTE_IT):
        state.recover(key(identity), 2)
    state.close()
