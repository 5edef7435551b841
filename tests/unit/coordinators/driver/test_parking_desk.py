"""The decisions about parking, turn by turn: rows that are stored before, and wishes that come meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from coordinators.driver.publisher import Publisher
from coordinators.protocol.messages import (
    Failed,
    FailureKind,
    OffsetsResolved,
    OutputsAnswered,
    RowsStored,
    WishesChanged,
)
from coordinators.record.parking import StoredRows
from coordinators.record.wishes import Action
from coordinators.status.listener import CommittedEvent, TopologyEvent, WishedEvent
from coordinators.values.errors import PoisonBatchError
from tests.unit.coordinators.batches.test_parking_rules import PARKS, commits, fails, parked, refusal, taken_over, wish
from tests.unit.coordinators.world import Numbers, World, attempt

STORES: dict[str, Any] = {**PARKS, "stored_spouts": frozenset({"lines"}), "backoff": 0.0}


def rows(text: str, count: int = 2) -> RowsStored:
    return RowsStored(
        attempt(text), "lines", StoredRows(file=f"rows of {text}", host="h", bytes=9, hash="1", rows=count)
    )


def storing(**settings: Any) -> World:
    world = World(spouts={"lines": Numbers(upto=2)}, exact=False).start(**{**STORES, **settings})
    world.run_until_quiet()
    assert fails(world, "1:0") == ["CANCEL 1:0", "ASK 1:1"]
    assert world.run_until_quiet(OutputsAnswered(1)) == ["STORE 1:1"]
    return world


def test_an_attempt_that_stores_the_rows_is_the_first_empty_one() -> None:
    world = storing()
    batch = world.batches["1:1"]
    assert (batch.number, batch.parks, dict(batch.metadata)) == (1, 1, {"lines": [1, "first"]})
    world.run_until_quiet(rows("1:1"))
    assert world.driver.record.parked.parking is None, "it is decided when all rows are stored"
    assert world.processed("1:1") == ["COMMIT 1:1"]
    parking = world.driver.record.parked.parking
    assert parking is not None
    assert (parking.first_attempt_id, parking.entry.stored["lines"].file) == (1, "rows of 1:1")
    assert parking.entry.error == "ValueError: bad row"
    assert world.committed("1:1") == ["SUCCESS 1:1", "BATCH 2:0"]
    assert world.successes == [(1, 1)]
    assert world.driver.record.parked.files == {"rows of 1:1"}


def test_listeners_hear_which_transactions_are_parked() -> None:
    told: list[TopologyEvent] = []
    world = World(spouts={"lines": Numbers(upto=2)}, exact=False).start(Publisher(tell=told.append), **STORES)
    world.run_until_quiet()
    fails(world, "1:0")
    world.run_until_quiet(OutputsAnswered(1))
    world.run_until_quiet(rows("1:1"))
    commits(world, "1:1")
    commits(world, "2:0")
    assert [(each.action, each.txids, each.by) for each in told if isinstance(each, WishedEvent)] == [
        ("park", (1,), "on_poison")
    ]
    closed = [each for each in told if isinstance(each, CommittedEvent)]
    assert [(str(each.attempt), each.is_parked) for each in closed] == [("1:1", True), ("2:0", False)]


def test_a_release_carries_the_stored_rows_and_no_spout_is_asked() -> None:
    world = storing()
    world.run_until_quiet(rows("1:1"))
    commits(world, "1:1")
    commits(world, "2:0")
    taken = taken_over(world, **STORES)
    assert wish(taken, Action.RELEASE) == ["BATCH 3:0"]
    batch = taken.batches["3:0"]
    assert (batch.number, batch.stored["lines"].file, batch.stores) == (1, "rows of 1:1", False)
    fails(taken, "3:0")
    assert taken.run_until_quiet(OutputsAnswered(3)) == ["EMPTY 3:1"], "they are stored already"
    commits(taken, "3:1")
    assert [each.stored["lines"].file for each in parked(taken)] == ["rows of 1:1"]


def test_the_rows_and_the_definition_are_those_of_the_attempt_that_could_store_them() -> None:
    world = storing()
    world.run_until_quiet(OffsetsResolved(attempt("1:1"), "lines", "first", {"a": 1}), rows("1:1"))
    lost = Failed(attempt("1:1"), OSError("lost"), FailureKind.INTERRUPTED)
    assert world.run_until_quiet(lost) == ["CANCEL 1:1", "STORE 1:2"]
    world.run_until_quiet(rows("1:1"), OffsetsResolved(attempt("1:2"), "lines", "second", {"a": 2}), rows("1:2", 3))
    assert "lines" not in world.driver.record.cursors
    world.processed("1:2")
    parking = world.driver.record.parked.parking
    assert parking is not None
    assert (parking.first_attempt_id, parking.entry.stored["lines"].rows) == (2, 3)
    assert parking.entry.definition == {"lines": "second"}
    assert dict(world.driver.record.cursors["lines"].items()) == {"a": 2}


def test_rows_that_can_not_be_stored_end_the_topology_by_name() -> None:
    world = storing()
    with pytest.raises(PoisonBatchError, match=r"can't be parked either: its rows could not be stored: .*no disk"):
        fails(world, "1:1", OSError("no disk"))
    assert world.driver.record.failures[1].tries == 2


def test_rows_that_can_not_be_stored_refuse_the_wish_of_an_operator() -> None:
    world = World(spouts={"lines": Numbers(upto=2)}, exact=False).start(**{**STORES, "parks_poison": False})
    world.run_until_quiet()
    assert wish(world, Action.PARK, 1) == ["CANCEL 1:0", "ASK 1:1"]
    world.run_until_quiet(OutputsAnswered(1))
    with pytest.raises(PoisonBatchError, match="failed 1 times"):
        fails(world, "1:1", OSError("no disk"))
    assert "its rows could not be stored" in world.driver.record.outcomes[-1].refused


def test_a_later_leader_goes_on_behind_stored_rows() -> None:
    world = storing()
    world.run_until_quiet(rows("1:1"))
    world.processed("1:1")
    later = taken_over(world, **STORES)
    assert later.run_until_quiet() == ["EMPTY 1:2"]
    assert "BATCH 2:0" in commits(later, "1:2")
    assert later.numbers[2] == 2


def test_another_wish_that_is_refused_while_outputs_are_asked_decides_nothing() -> None:
    world = World(spouts={"lines": Numbers(upto=3)}).start(attempts=9)
    world.run_until_quiet()
    commits(world, "1:0")
    assert wish(world, Action.PARK, 2) == ["CANCEL 2:0", "ASK 2:1"]
    assert refusal(world, Action.PARK, 1) == "transaction 1 is committed"
    assert world.after(5) == [], "nothing starts before the outputs have answered"
    assert world.run_until_quiet(OutputsAnswered(2)) == ["EMPTY 2:1"]


def test_a_wish_that_the_last_look_did_not_show_is_decided_once() -> None:
    world = World(spouts={"lines": Numbers(upto=3)}).start(attempts=9)
    world.run_until_quiet()
    assert wish(world, Action.PARK, 1) == ["CANCEL 1:0", "ASK 1:1"]
    wishes = world.coordination.wishes
    shown = dict(wishes)
    wishes.clear()  # as a server shows it that does not know the wish yet
    world.run_until_quiet(WishesChanged())
    wishes.update(shown)
    world.run_until_quiet(OutputsAnswered(1, "a store has it"), WishesChanged())
    assert [outcome.refused for outcome in world.driver.record.outcomes] == ["a store has it"]
    assert world.driver.machine.is_live(attempt("1:1")), "it is tried again, and not asked about once more"
