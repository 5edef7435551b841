"""States are held to what their factories promise."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trident_py import (
    Count,
    IBackingMap,
    MemoryMapState,
    OpaqueMap,
    State,
    StateFactory,
    TopologyError,
    TransactionalMap,
)
from trident_py.conformance.report import Rule
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import MapState, StateKind, ValueUpdater
from trident_py.states.values import (
    JSONOpaqueSerializer,
    JSONTransactionalSerializer,
    OpaqueValue,
    Serializer,
    TransactionalValue,
)
from trident_py.testing import Report, check_state


class OneFile(IBackingMap[Any]):
    """All values in one JSON file, which is replaced as a whole."""

    def __init__(self, path: Path, serializer: Serializer[Any]) -> None:
        self.path, self.serializer = path, serializer

    def stored(self) -> dict[str, str]:
        return dict(json.loads(self.path.read_text())) if self.path.exists() else {}

    def multi_get(self, keys: Sequence[Sequence[Any]]) -> list[Any]:
        stored = self.stored()
        found = [stored.get(json.dumps(list(key))) for key in keys]
        return [None if text is None else self.serializer.deserialize(text.encode()) for text in found]

    def multi_put(self, keys: Sequence[Sequence[Any]], values: Sequence[Any]) -> None:
        stored = self.stored()
        for key, value in zip(keys, values, strict=True):
            stored[json.dumps(list(key))] = self.serializer.serialize(value).decode()
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(stored))
            os.replace(draft, self.path)


def values_in(path: Path, serializer: Serializer[Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for key, text in OneFile(path, serializer).stored().items():
        value: OpaqueValue[int] | TransactionalValue[int] = serializer.deserialize(text.encode())
        found.append((*json.loads(key), value.curr if isinstance(value, OpaqueValue) else value.value))
    return found


def counted(make: Any, read: Any) -> Report:
    return check_state(make, read, schema="word string, count bigint", aggregator=Count())


@pytest.mark.slow
def test_an_opaque_map_over_a_store_of_ones_own_passes(tmp_path: Path) -> None:
    path, serializer = tmp_path / "counts.json", JSONOpaqueSerializer()
    report = counted(lambda: OpaqueMap.factory(lambda: OneFile(path, serializer)), lambda: values_in(path, serializer))
    assert report.ok, str(report)
    assert report.kills >= report.lines > 5
    assert "unless a leader that was paused" in str(report)


@pytest.mark.slow
def test_a_transactional_map_passes(tmp_path: Path) -> None:
    path, serializer = tmp_path / "counts.json", JSONTransactionalSerializer()
    report = counted(
        lambda: TransactionalMap.factory(lambda: OneFile(path, serializer)), lambda: values_in(path, serializer)
    )
    assert report.ok, str(report)


@pytest.mark.slow
def test_a_state_in_memory_passes_as_far_as_it_promises() -> None:
    factory = MemoryMapState.factory()
    report = counted(lambda: factory, lambda: [(*key, value) for key, value in factory.values().items()])
    assert report.ok, str(report)


class Adds(MapState[int]):
    """Adds to what is there, whatever the transaction is called."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin_commit(self, txid: int) -> None:
        pass

    def commit(self, txid: int) -> None:
        pass

    def stored(self) -> dict[str, int]:
        return dict(json.loads(self.path.read_text())) if self.path.exists() else {}

    def multi_get(self, keys: Sequence[Sequence[Any]]) -> list[int | None]:
        stored = self.stored()
        return [stored.get(key[0]) for key in keys]

    def multi_put(self, keys: Sequence[Sequence[Any]], values: Sequence[int]) -> None:
        stored = self.stored() | {key[0]: value for key, value in zip(keys, values, strict=True)}
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(stored))
        os.replace(draft, self.path)

    def multi_update(self, keys: Sequence[Sequence[Any]], updaters: Sequence[ValueUpdater[int]]) -> list[int]:
        old = self.multi_get(keys)
        values = [updater(value) for updater, value in zip(updaters, old, strict=True)]
        self.multi_put(keys, values)
        return values


class AddsFactory(StateFactory):
    def __init__(self, path: Path) -> None:
        self.path = path

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        return Adds(self.path)


@pytest.mark.long
def test_a_state_that_promises_no_more_than_at_least_once_may_ignore_the_transaction(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    report = counted(lambda: AddsFactory(path), lambda: list(Adds(path).stored().items()))
    assert report.ok, str(report)
    assert "at-least-once" in str(report)


def test_a_check_refuses_a_store_that_has_values_already_such_as_those_of_the_check_before(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    path.write_text('{"left": 7}')
    with pytest.raises(TopologyError, match=r"before the check begins: \('left', 7\); empty it"):
        counted(lambda: AddsFactory(path), lambda: list(Adds(path).stored().items()))


@pytest.mark.slow
def test_two_checks_of_a_state_give_the_same_report(tmp_path: Path) -> None:
    def report(path: Path) -> str:
        return str(counted(lambda: AddsFactory(path), lambda: list(Adds(path).stored().items())))

    assert report(tmp_path / "one.json") == report(tmp_path / "other.json")


@pytest.mark.long
def test_a_state_that_ignores_the_transaction_is_condemned(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    factory = AddsFactory(path)
    factory.kind = StateKind.TRANSACTIONAL
    report = counted(lambda: factory, lambda: list(Adds(path).stored().items()))
    assert Rule.COMMITTED_ONCE in [violation.rule for violation in report.violations], str(report)
    shortest = min(len(violation.history.splitlines()) for violation in report.violations)
    assert shortest <= 8, str(report)
