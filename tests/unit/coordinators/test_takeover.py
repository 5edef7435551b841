"""Taking over: fences first, then the record, then the decision table."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, evolve, field

from coordinators.errors import FencedError, StateError
from coordinators.record import CoordinatorRecord
from coordinators.store import InMemoryCoordination, TopologyIdentity
from coordinators.takeover import recover


@define
class Remembered:
    """A state that knows its last transaction."""

    name: str = "counts"
    committed: int | None = None
    first: int | None = None
    remembers: bool = True
    fences: list[int] = field(factory=list)

    def recover(self, topology: TopologyIdentity, epoch: int) -> range | None:
        self.fences.append(epoch)
        return range(self.first or self.committed, self.committed + 1) if self.committed else None


def stored(**changes: Any) -> InMemoryCoordination:
    """A topology whose record says so."""
    coordination = InMemoryCoordination()
    store = coordination.acquire()
    store.write(evolve(CoordinatorRecord(epoch=store.epoch), **changes))
    return coordination


def test_a_new_topology_begins_with_transaction_1_and_notes_its_states() -> None:
    coordination = InMemoryCoordination()
    state = Remembered()
    record = recover(coordination.acquire(), [state])
    assert (record.current_txid, record.epoch, record.states) == (1, 1, {"counts": 1})
    assert state.fences == [1]
    assert coordination.acquire().read() == record


@pytest.mark.parametrize("committed", [41, 42])
def test_a_state_at_the_record_or_one_ahead_goes_on(committed: int) -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, seq=7)
    record = recover(coordination.acquire(), [Remembered(committed=committed)])
    assert (record.current_txid, record.epoch, record.seq) == (42, 2, 8)


@pytest.mark.parametrize("first", [41, 42])
def test_a_state_that_has_a_run_which_is_not_closed_goes_on(first: int) -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, attempt_ids={42: 0, 43: 2, 44: 0})
    state = Remembered(committed=44, first=first)
    assert recover(coordination.acquire(), [state, Remembered(name="others", committed=41)]).current_txid == 42


@pytest.mark.parametrize(("first", "committed"), [(43, 44), (42, 45)])
def test_a_run_that_the_record_knows_nothing_of_is_of_another_time(first: int, committed: int) -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, attempt_ids={42: 0, 43: 2, 44: 0})
    with pytest.raises(StateError, match=f"has transaction {committed}, the record in ZooKeeper is only at 42"):
        recover(coordination.acquire(), [Remembered(committed=committed, first=first)])


@pytest.mark.parametrize(
    ("committed", "complaint"),
    [
        (None, "state 'counts' is gone.*transaction 42.*trident reset in-memory"),
        (43, "has transaction 43, the record in ZooKeeper is only at 42: ZooKeeper was restored from the past"),
        (40, "ends with transaction 40, the record is at 42: transactions 41 to 41 are missing"),
    ],
)
def test_a_state_that_does_not_belong_to_the_record_stops_the_takeover(committed: int | None, complaint: str) -> None:
    coordination = stored(current_txid=42, states={"counts": 1})
    before = coordination.stored
    with pytest.raises(StateError, match=complaint):
        recover(coordination.acquire(), [Remembered(committed=committed)])
    assert coordination.stored == before


def test_a_record_that_is_gone_while_a_state_has_commits_stops_the_takeover() -> None:
    with pytest.raises(StateError, match="only at 1: ZooKeeper was restored from the past"):
        recover(InMemoryCoordination().acquire(), [Remembered(committed=9)])


def test_a_state_that_joins_later_starts_empty() -> None:
    coordination = stored(current_txid=42, states={"counts": 1})
    record = recover(coordination.acquire(), [Remembered(committed=41), Remembered("late")])
    assert record.states == {"counts": 1, "late": 42}
    record = recover(coordination.acquire(), [Remembered(committed=41), Remembered("late")])
    assert record.states == {"counts": 1, "late": 42}


def test_a_state_that_was_left_out_for_a_while_cannot_come_back() -> None:
    coordination = stored(current_txid=42, states={"counts": 1})
    recover(coordination.acquire(), [])
    later = coordination.acquire()
    record = later.read()
    assert record is not None
    later.write(evolve(record, current_txid=50))
    with pytest.raises(StateError, match="ends with transaction 41, the record is at 50"):
        recover(coordination.acquire(), [Remembered(committed=41)])


def test_what_remembers_nothing_is_not_compared() -> None:
    coordination = stored(current_txid=42, states={"counts": 1})
    assert recover(coordination.acquire(), [Remembered(remembers=False)]).current_txid == 42


def test_a_takeover_that_was_overtaken_writes_nothing() -> None:
    coordination = stored(current_txid=42)
    slow = coordination.acquire()
    recover(coordination.acquire(), [])
    before = coordination.stored
    with pytest.raises(FencedError):
        recover(slow, [])
    assert coordination.stored == before
