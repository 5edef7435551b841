"""Rows in bins: added, read and removed, and how much of them is written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from coordinators.values.attempt import TransactionAttempt
from tests.transactions import begin
from tests.unit.trident_py.windows.driven import TOPOLOGY
from trident_py.errors import StateError
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import Key
from trident_py.states.memory import MemoryMapState
from trident_py.windows import bins
from trident_py.windows.bins import Bins

FIELDS = pa.schema([pa.field("n", pa.int64())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)}, schema=FIELDS)


@pytest.fixture
def kept() -> Bins:
    state = MemoryMapState[bytes]()
    state.recover(TOPOLOGY, 1)
    attempt = TransactionAttempt(1, 0)
    assert begin(state, SinkTransaction(TransactionKey(TOPOLOGY.uuid, TOPOLOGY.incarnation, 1), attempt, 1))
    return Bins(state, FIELDS, {})


def numbers(found: Bins, name: int) -> list[int]:
    return [number for batch in found.read(name) for number in batch.column(0).to_pylist()]


def stored(found: Bins, *keys: Key) -> list[bool]:
    return [value is not None for value in found.state.multi_get(keys)]


def test_rows_come_back_in_the_order_in_which_they_were_added(kept: Bins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bins, "SEAL_BYTES", 1000)
    for start in range(0, 300, 30):
        kept.add({1: rows(*range(start, start + 30)), 2: rows(start)})
    assert numbers(kept, 1) == list(range(300))
    assert numbers(kept, 2) == list(range(0, 300, 30))
    assert kept.full[1] > 1
    assert kept.full[2] == 0


def test_a_bin_goes_with_all_of_its_chunks(kept: Bins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bins, "SEAL_BYTES", 0)
    kept.add({-5: rows(1), 7: rows(2)})
    kept.add({-5: rows(3)})
    assert kept.full == {-5: 2, 7: 1}
    kept.remove([-5])
    assert kept.full == {7: 1}
    assert stored(kept, ("-5", 0), ("-5", 1), ("7", 0)) == [False, False, True]


def test_a_chunk_that_is_gone_is_an_error(kept: Bins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bins, "SEAL_BYTES", 0)
    kept.add({7: rows(2)})
    kept.state.multi_remove([("7", 0)])
    with pytest.raises(StateError, match=r"rows of the windows at 7 .* are gone"):
        kept.read(7)
