"""A driver with transactions that are parked, released, skipped and tried again."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from coordinators.protocol.messages import (
    Acked,
    Failed,
    Fingerprinted,
    OutputsAnswered,
)
from coordinators.protocol.protocol import StreamId
from coordinators.record.parking import Parked, StoredRows
from coordinators.record.record import encode
from coordinators.record.wishes import Action, Wish
from coordinators.values.canonical import Fingerprint
from coordinators.values.errors import PoisonBatchError, TopologyError
from tests.unit.coordinators.world import Numbers, World, attempt

PARKS: dict[str, Any] = {"attempts": 1, "parks_poison": True}


def wishing(action: Action, *txids: int, **facts: Any) -> Wish:
    return Wish(f"{action} {txids} {facts}", action, txids=txids, **facts)


def wish(world: World, action: Action, *txids: int, **facts: Any) -> list[str]:
    world.coordination.wish(wishing(action, *txids, **facts))
    return world.run_until_quiet()


def refusal(world: World, action: Action, *txids: int, **facts: Any) -> str:
    """Why a wish is refused."""
    wish(world, action, *txids, **facts)
    outcome = world.driver.record.outcomes[-1]
    assert outcome.wish == wishing(action, *txids, **facts).id
    return outcome.refused


def fails(world: World, text: str, error: Exception | None = None) -> list[str]:
    return world.run_until_quiet(Failed(attempt(text), error or ValueError("bad row")))


def commits(world: World, text: str) -> list[str]:
    world.processed(text)
    return world.committed(text)


def taken_over(world: World, **settings: Any) -> World:
    again = World(world.coordination, spouts=dict(world.spouts), now=world.now, wall=world.wall)
    return again.start(**settings)


def parked(world: World) -> tuple[Parked, ...]:
    return world.driver.record.parked.entries


def with_one_parked(**settings: Any) -> World:
    world = World(spouts={"lines": Numbers(upto=2)}).start(**{**PARKS, **settings})
    world.run_until_quiet()
    assert fails(world, "1:0") == ["CANCEL 1:0", "ASK 1:1"]
    assert world.run_until_quiet(OutputsAnswered(1)) == ["EMPTY 1:1"]
    assert "SUCCESS 1:1" in commits(world, "1:1")
    return world


def test_what_fails_too_often_is_parked_by_policy_and_spouts_hear_of_it_as_of_any_other() -> None:
    world = World(spouts={"lines": Numbers(upto=2)}).start(**PARKS)
    world.run_until_quiet()
    fails(world, "1:0")
    assert world.driver.record.parked.parking is None, "the outputs are asked before anything is decided"
    world.run_until_quiet(OutputsAnswered(1))
    parking = world.driver.record.parked.parking
    assert parking is not None
    assert (parking.txid, parking.first_attempt_id, parked(world)) == (1, 1, ())
    assert commits(world, "1:1") == ["SUCCESS 1:1", "BATCH 2:0"]
    assert world.successes == [(1, 1)]
    (entry,) = parked(world)
    assert (entry.txid, entry.number, entry.definition) == (1, 1, {"lines": [1, "first"]})
    assert (entry.attempts, entry.error, entry.by) == (1, "ValueError: bad row", "on_poison")
    assert world.driver.record.parked.parking is None
    assert any(name.startswith("parked.1") for name in encode(world.driver.record).blobs)


def test_a_release_is_the_next_new_transaction_and_no_batch_of_its_own_for_spouts() -> None:
    world = with_one_parked()
    assert wish(world, Action.RELEASE) == []
    assert commits(world, "2:0") == ["SUCCESS 2:0", "BATCH 3:0"]
    assert (world.numbers[3], world.metadata["3:0"]) == (1, {"lines": [1, "first"]})
    assert parked(world)[0].released_as == 3
    assert commits(world, "3:0") == ["SUCCESS 3:0"]
    assert (parked(world), world.successes[-1]) == ((), (3, None))
    world.spouts["lines"].upto = 3
    assert world.after(1) == ["BATCH 4:0"]
    assert world.numbers[4] == 3, "its numbers go on without a gap"


def test_a_release_that_fails_is_parked_again_under_its_first_id() -> None:
    world = with_one_parked(parks_poison=True)
    wish(world, Action.RELEASE, 1)
    commits(world, "2:0")
    assert fails(world, "3:0") == ["CANCEL 3:0", "ASK 3:1"]
    world.run_until_quiet(OutputsAnswered(3))
    commits(world, "3:1")
    (entry,) = parked(world)
    assert (entry.txid, entry.number, entry.attempts, entry.waits, entry.released_as) == (1, 1, 2, False, 0)


def test_rows_that_are_others_than_those_that_were_parked_are_parked_again() -> None:
    world = World(spouts={"lines": Numbers(upto=1)}).start(**PARKS)
    world.run_until_quiet()
    world.run_until_quiet(Fingerprinted(attempt("1:0"), "lines", Fingerprint(3, 7)))
    fails(world, "1:0")
    world.run_until_quiet(OutputsAnswered(1))
    commits(world, "1:1")
    assert wish(world, Action.RELEASE) == ["BATCH 2:0"]
    assert world.run_until_quiet(Fingerprinted(attempt("2:0"), "lines", Fingerprint(4, 7))) == ["CANCEL 2:0", "ASK 2:1"]


def test_an_output_that_has_it_ends_the_topology_as_the_policy_does_and_says_which() -> None:
    world = World().start(**PARKS)
    world.run_until_quiet()
    fails(world, "1:0")
    with pytest.raises(PoisonBatchError, match="It can't be parked either: sink 'files': it has it") as ended:
        world.run_until_quiet(OutputsAnswered(1, "sink 'files': it has it"))
    assert (ended.value.txid, str(ended.value.__cause__)) == (1, "bad row")
    assert world.driver.record.parked.parking is None


@pytest.mark.parametrize("settings", [{"parks_poison": False}, {"park_max": 1}, {"windows": frozenset({"w"})}])
def test_what_policy_does_not_park_ends_the_topology(settings: dict[str, Any]) -> None:
    world = with_one_parked() if "park_max" in settings else World().start()
    text = "2:0" if "park_max" in settings else "1:0"
    world = taken_over(world, **{**PARKS, **settings})
    text = f"{text[0]}:1" if "park_max" in settings else text
    world.run_until_quiet()
    with pytest.raises(PoisonBatchError):
        world.run_until_quiet(Failed(attempt(text), ValueError("bad"), state="w"))


def test_ten_in_a_row_are_enough() -> None:
    world = World(spouts={"lines": Numbers(upto=20)}).start(**PARKS)
    world.run_until_quiet()
    for txid in range(1, 11):
        fails(world, f"{txid}:0")
        world.run_until_quiet(OutputsAnswered(txid))
        commits(world, f"{txid}:1")
    with pytest.raises(PoisonBatchError):
        fails(world, "11:0")


def test_an_operator_parks_what_is_under_way_in_its_turn() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    assert wish(world, Action.PARK, 2, by="ann", reason="wrong prices") == []
    world.processed("1:0")
    assert world.committed("1:0") == ["SUCCESS 1:0", "CANCEL 2:0", "ASK 2:1"]
    assert world.run_until_quiet(OutputsAnswered(2)) == ["EMPTY 2:1", "BATCH 3:0"]
    commits(world, "2:1")
    assert [(each.txid, each.by, each.reason) for each in parked(world)] == [(2, "ann", "wrong prices")]
    assert world.coordination.wishes == {}


def test_an_output_that_has_it_leaves_what_an_operator_wants_parked_to_its_replay() -> None:
    world = World().start()
    world.run_until_quiet()
    assert wish(world, Action.PARK, 1) == ["CANCEL 1:0", "ASK 1:1"]
    assert world.run_until_quiet(OutputsAnswered(1, "it has it")) == ["BATCH 1:1"]
    assert world.driver.record.outcomes[-1].refused == "it has it"


def test_with_intents_outputs_are_told_whether_a_commit_can_have_begun() -> None:
    world = World().start(store_intents=True)
    world.run_until_quiet()
    assert wish(world, Action.PARK, 1) == ["CANCEL 1:0", "ASK 1:1, never begun"]
    world.run_until_quiet(OutputsAnswered(1, "no"))
    world.processed("1:1")
    assert wish(world, Action.PARK, 1, reason="again") == ["CANCEL 1:1", "ASK 1:2"]


def test_a_wish_of_while_nobody_led_parks_it_in_place_of_one_more_try() -> None:
    world = World().start()
    world.run_until_quiet()
    world.coordination.wish(wishing(Action.PARK, 1))
    again = taken_over(world)
    assert again.turn() == ["ASK 1:1"]
    assert again.run_until_quiet(OutputsAnswered(1)) == ["EMPTY 1:1"]


def test_a_later_leader_goes_on_with_empty_attempts_and_asks_no_spout_for_it() -> None:
    world = World(spouts={"lines": Numbers(upto=2)}).start(**PARKS)
    world.run_until_quiet()
    fails(world, "1:0")
    world.run_until_quiet(OutputsAnswered(1))
    again = taken_over(world)
    again.spouts["new"] = Numbers()
    assert again.run_until_quiet() == ["EMPTY 1:2"]
    assert [txid for txid, *_ in again.spouts["lines"].calls if txid == 1] == [1], "by the first leader"
    assert "SUCCESS 1:2" in commits(again, "1:2")
    assert [each.txid for each in parked(again)] == [1]


def test_skipping_takes_it_off_the_list() -> None:
    world = with_one_parked()
    wish(world, Action.SKIP, 1, reason="a test")
    assert parked(world) == ()
    assert refusal(world, Action.RELEASE) == "no transaction is parked"


def test_a_retry_waits_no_longer_and_counts_from_0() -> None:
    world = World().start(attempts=2, backoff=60.0, backoff_max=60.0)
    world.run_until_quiet()
    assert fails(world, "1:0") == ["CANCEL 1:0"]
    assert wish(world, Action.RETRY) == ["BATCH 1:1"]
    assert fails(world, "1:1") == ["CANCEL 1:1"], "one failure more would have been the last"


def test_a_retry_while_outputs_are_asked_is_one_more_try_if_one_of_them_refuses() -> None:
    world = World().start(**PARKS)
    world.run_until_quiet()
    assert fails(world, "1:0") == ["CANCEL 1:0", "ASK 1:1"]
    assert wish(world, Action.RETRY) == []
    assert world.run_until_quiet(OutputsAnswered(1, "it has it")) == ["BATCH 1:1"]


def test_refusals_say_why() -> None:
    world = with_one_parked()
    assert refusal(world, Action.PARK, 1) == "transaction 1 is parked already"
    assert refusal(world, Action.PARK, 9) == "transaction 9 has not begun; the next one is 3"
    assert refusal(world, Action.PARK, 2, incarnation=7) == "the topology was reset meanwhile"
    assert refusal(world, Action.PARK, 1, 2) == "one transaction is parked at a time"
    assert refusal(world, Action.RELEASE, 2) == "transaction 2 is not parked"
    assert refusal(world, Action.SKIP) == "a transaction is skipped by its id"
    assert refusal(world, Action.SKIP, 2) == "transaction 2 is not parked"
    assert refusal(world, Action.RETRY, 1) == "transaction 1 is parked: release it"
    assert refusal(world, Action.RETRY, 7) == "transaction 7 is not under way"
    wish(world, Action.RELEASE)
    commits(world, "2:0")
    assert refusal(world, Action.PARK, 2) == "transaction 2 is committed"
    assert refusal(world, Action.SKIP, 1) == "transaction 1 is being released"
    assert parked(world)[0].released_as == 3


def test_a_release_whose_late_rows_nobody_reads_is_refused_unless_they_may_be_lost() -> None:
    world = taken_over(with_one_parked(), drops_late=frozenset({"per-minute"}))
    for action in (Action.RELEASE, Action.BISECT):
        assert "nothing reads late_rows() of 'per-minute'" in refusal(world, action, 1)
    assert refusal(world, Action.RELEASE, 2) == "transaction 2 is not parked"
    assert refusal(world, Action.RELEASE, 1, late=True) == ""


def test_a_release_without_its_spout_is_refused_and_so_is_parking_without_a_batch() -> None:
    world = with_one_parked()
    other = World(world.coordination, spouts={"other": Numbers()}, now=world.now).start()
    assert "has rows of spout 'lines', which this topology doesn't have" in refusal(other, Action.RELEASE)


def test_a_release_does_not_lose_the_rows_of_a_spout_that_is_gone() -> None:
    world = with_one_parked()
    commits(world, "2:0")
    assert wish(world, Action.RELEASE, 1) == ["BATCH 3:0"]
    others = World(world.coordination, spouts={"others": Numbers(upto=2)}, now=world.now, wall=world.wall)
    with pytest.raises(
        TopologyError, match="is a release: transaction 1 has rows of spout 'lines', which this topology"
    ):
        others.start().run_until_quiet()
    assert [each.txid for each in parked(world)] == [1]


def test_an_empty_transaction_is_not_parked() -> None:
    world = World(spouts={"lines": Numbers(upto=0)}, window_at=1000, wall=5.0).start()
    assert world.run_until_quiet() == ["BATCH 1:0"]
    assert refusal(world, Action.PARK, 1) == "transaction 1 has no batch: only time passes in it"


def test_spouts_are_told_what_is_parked_and_only_in_their_source() -> None:
    world = with_one_parked()
    list_ = world.driver.machine.parked
    assert list_.only_in("lines") == {1: [1, "first"]}
    stored = StoredRows(file="f", host="h", bytes=1, hash="x", rows=1)
    assert list_.replaced(evolve(list_.entries[0], stored={"lines": stored})).only_in("lines") == {}
    asks = dict(world.driver.admission.asks(world.now))
    assert all(ask.parked == {1: [1, "first"]} for ask in asks.values())


def test_a_leader_says_what_is_parked_before_its_first_turn() -> None:
    world = with_one_parked()
    assert [each.txid for each in taken_over(world).driver.publisher.status.parked] == [1]


def test_what_is_stored_is_read_again() -> None:
    world = with_one_parked()
    (entry,) = parked(world)
    assert Parked.from_json(evolve(entry, fingerprints={"lines": Fingerprint(3, 7)}).to_json()).fingerprints == {
        "lines": Fingerprint(3, 7)
    }
    assert world.driver.store.read() == world.driver.record


def test_a_late_ack_of_an_attempt_with_rows_does_not_close_what_is_parked() -> None:
    world = World().start(**PARKS)
    world.run_until_quiet()
    edges = world.edges["1:0", StreamId.BATCH]
    fails(world, "1:0")
    world.run_until_quiet(OutputsAnswered(1))
    assert world.run_until_quiet(*(Acked(attempt("1:0"), StreamId.BATCH, edge) for edge in edges)) == []
