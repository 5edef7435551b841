"""Taking over: fences first, then the record, then the decision table."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, evolve, field

from coordinators.record.declarations import Declared, StoredDeclaration
from coordinators.record.record import Bindings, CommitIntent, CoordinatorRecord, Failure
from coordinators.record.store import InMemoryCoordination, TopologyIdentity
from coordinators.takeover.takeover import Torn, recover
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.canonical import Fingerprint, canonical_json, content_hash
from coordinators.values.cursors import Cursors
from coordinators.values.errors import FencedError, StateError


@define
class Remembered:
    """A state that knows its last transaction, which an earlier leader has committed."""

    name: str = "counts"
    committed: int | None = None
    attempt_id: int = 0
    epoch: int = 1
    remembers: bool = True
    rolls_back: bool = True
    is_volatile: bool = False
    fences: list[int] = field(factory=list)
    passed: list[range] = field(factory=list)

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        self.fences.append(epoch)
        return CommitToken(self.committed, self.epoch, self.attempt_id) if self.committed else None

    def pass_over(self, topology: TopologyIdentity, epoch: int, txids: range) -> None:
        assert self.committed in (txids[0] - 1, txids[0])
        self.passed.append(txids)
        self.committed, self.attempt_id, self.epoch = txids[-1], 0, epoch


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


@pytest.mark.parametrize(("committed", "current"), [(41, 42), (42, 43), (44, 45)])
def test_what_every_state_has_is_closed_and_its_success_is_owed(committed: int, current: int) -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, seq=7, attempt_ids={42: 0, 43: 2, 44: 0})
    record = recover(coordination.acquire(), [Remembered(committed=committed)])
    assert (record.current_txid, record.epoch, record.seq) == (current, 2, 8)
    assert record.attempt_ids.keys() == {42, 43, 44}
    assert recover(coordination.acquire(), [Remembered(committed=committed)]).current_txid == current


def test_closing_leaves_what_the_transactions_after_it_need() -> None:
    coordination = stored(
        current_txid=42,
        states={"counts": 1},
        attempt_ids={42: 0, 43: 2, 44: 0},
        metadata={txid: {"lines": [txid]} for txid in range(41, 45)},
        fingerprints={txid: {"lines": Fingerprint(txid, 1)} for txid in range(42, 45)},
        failures={txid: Failure(1, 0, "no", 1.0, 1.0) for txid in (43, 44)},
        times={txid: txid for txid in range(41, 45)},
    )
    record = recover(coordination.acquire(), [Remembered(committed=43, attempt_id=1)])
    assert record.attempt_ids == {42: 0, 43: 1, 44: 0}, "43 was committed by an attempt before the last one"
    assert record.metadata == {43: {"lines": [43]}, 44: {"lines": [44]}}
    assert record.fingerprints == {44: {"lines": Fingerprint(44, 1)}}
    assert record.failures.keys() == {44}
    assert record.times.keys() == {43, 44}


def test_an_empty_transaction_that_every_state_has_is_closed_and_leaves_the_last_definition() -> None:
    coordination = stored(
        current_txid=43,
        states={"counts": 1},
        attempt_ids={43: 0, 44: 0},
        metadata={41: {"lines": ["of 42"]}, 42: {"lines": ["of 44"]}},
        fingerprints={42: {"lines": Fingerprint(44, 1)}},
        committing=(CommitIntent(TransactionAttempt(43, 0), content_hash(canonical_json({}))),),
        bindings=Bindings((43,), forgotten=1),
    )
    record = recover(coordination.acquire(), [Remembered(committed=43)])
    assert (record.current_txid, [*record.metadata], record.bindings) == (44, [41, 42], Bindings((43,), 1))
    record = recover(coordination.acquire(), [Remembered(committed=44)])
    assert (record.current_txid, [*record.metadata], [*record.fingerprints]) == (45, [42], [])


def pinned(attempt_id: int, definition: dict[str, Any]) -> CommitIntent:
    return CommitIntent(TransactionAttempt(42, attempt_id), content_hash(canonical_json(definition)))


@pytest.mark.parametrize(
    ("pin", "current"),
    [(pinned(1, {"lines": [5, 9]}), 43), (pinned(0, {"lines": [5, 9]}), 42), (pinned(1, {"lines": [5, 8]}), 42)],
    ids=["it was committed as it is defined", "another attempt was", "it was defined anew since"],
)
def test_a_batch_that_may_be_another_one_is_closed_only_as_it_was_committed(pin: CommitIntent, current: int) -> None:
    coordination = stored(
        current_txid=42,
        states={"counts": 1},
        attempt_ids={42: 1},
        metadata={42: {"lines": [5, 9]}},
        committing=(pin,),
        cursors={"lines": Cursors().updated({"a": 5, "b": 7})},
    )

    def moved(spout: str, definition: Any) -> Any:
        return {"a": definition[1]} if spout == "lines" else None

    record = recover(coordination.acquire(), [Remembered(committed=42, attempt_id=1)], moved=moved)
    assert record.current_txid == current
    assert (record.committing == ()) == (current == 43)
    assert dict(record.cursors["lines"].items()) == {"a": 9 if current == 43 else 5, "b": 7}


@pytest.mark.parametrize("moved", [None, {"a": 9}], ids=["never found out", "found out by an attempt without intent"])
def test_a_batch_whose_extents_nobody_knows_is_replayed(moved: dict[str, Any] | None) -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, attempt_ids={42: 1}, metadata={42: {"lines": {}}})
    record = recover(coordination.acquire(), [Remembered(committed=42)], moved=lambda spout, definition: moved)
    assert record.current_txid == 42


@pytest.mark.parametrize("others", [41, 42, 43, 44])
def test_what_only_some_states_have_is_torn_and_comes_again(others: int) -> None:
    coordination = stored(current_txid=42, states={"counts": 1, "others": 1}, attempt_ids={42: 0, 43: 2, 44: 0})
    seen: list[Torn | None] = []

    def adopt(record: CoordinatorRecord, torn: Torn | None) -> CoordinatorRecord:
        seen.append(torn)
        return evolve(record, accepted=("something",))

    states = [Remembered(committed=44), Remembered("others", committed=others)]
    record = recover(coordination.acquire(), states, adopt=adopt)
    assert record.current_txid == others + 1
    assert seen == [Torn(range(others + 1, 45), ("counts",), ("others",)) if others < 44 else None]
    assert record.accepted == ("something",)


def test_no_other_plan_goes_on_with_what_every_state_has_and_a_spout_may_lack() -> None:
    coordination = stored(current_txid=42, states={"counts": 1, "others": 1}, attempt_ids={42: 0})
    seen: list[Torn | None] = []

    def adopt(record: CoordinatorRecord, torn: Torn | None) -> CoordinatorRecord:
        seen.append(torn)
        return record

    states = [Remembered(committed=42), Remembered("others", committed=42)]
    recover(coordination.acquire(), states, has_committer_spouts=True, adopt=adopt)
    assert seen == [Torn(range(42, 43), ("counts", "others"), ())]


def test_a_state_that_joined_and_has_nothing_yet_lacks_what_the_others_have() -> None:
    coordination = stored(current_txid=42, states={"counts": 1, "late": 42}, attempt_ids={42: 0})
    record = recover(coordination.acquire(), [Remembered(committed=42), Remembered("late")])
    assert (record.current_txid, record.states["late"]) == (42, 42)


def test_a_new_state_joins_behind_what_is_closed() -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, attempt_ids={42: 0, 43: 0})
    record = recover(coordination.acquire(), [Remembered(committed=43), Remembered("late")])
    assert (record.current_txid, record.states["late"]) == (44, 44)


def test_what_a_state_that_keeps_no_token_may_lack_is_replayed() -> None:
    users = Remembered("users", remembers=False)
    coordination = stored(current_txid=42, states={"counts": 1, "users": 1}, attempt_ids={42: 0})
    assert recover(coordination.acquire(), [Remembered(committed=42), users]).current_txid == 42
    coordination = stored(current_txid=42, states={"counts": 1}, attempt_ids={42: 0})
    assert recover(coordination.acquire(), [Remembered(committed=42), users]).current_txid == 43, "it joins"


def test_what_a_spout_may_not_have_committed_is_replayed() -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, attempt_ids={42: 0})
    states = [Remembered(committed=42)]
    assert recover(coordination.acquire(), states, has_committer_spouts=True).current_txid == 42


def test_what_starts_empty_each_time_keeps_nothing_open() -> None:
    coordination = stored(current_txid=42, states={"counts": 1, "memory": 1}, attempt_ids={42: 0})
    memory = Remembered("memory", remembers=False, is_volatile=True)
    assert recover(coordination.acquire(), [Remembered(committed=42), memory]).current_txid == 43


@pytest.mark.parametrize(
    "state",
    [
        Remembered(committed=45),
        Remembered(committed=44, attempt_id=1),
        Remembered(committed=42, epoch=2),
        Remembered(committed=41, epoch=2),
    ],
    ids=["never attempted", "a later attempt", "a later leader", "a later leader, and nothing else"],
)
def test_a_commit_that_the_record_never_heard_of_means_that_the_record_is_from_the_past(state: Remembered) -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, attempt_ids={42: 0, 43: 2, 44: 0})
    before, coordination.epoch = coordination.stored, 5
    said = f"'counts' has transaction {state.committed}, .* at 42 and of epoch 1, .*: ZooKeeper was restored from the p"
    with pytest.raises(StateError, match=said):
        recover(coordination.acquire(), [state])
    assert coordination.stored == before


@pytest.mark.parametrize(
    ("committed", "complaint"),
    [
        (None, "state 'counts' is gone.*transaction 42.*trident reset in-memory"),
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
    with pytest.raises(
        StateError,
        match=r"at 1 .* was written before that: ZooKeeper was restored from the past or emptied",
    ):
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
    with pytest.raises(StateError, match=r"ends with transaction 41, .* ran without it\. .* another table"):
        recover(coordination.acquire(), [Remembered(committed=41)])


@pytest.mark.parametrize(("until", "current"), [(None, 42), (30, 43)])
def test_nothing_is_closed_while_a_state_that_may_lack_it_is_not_asked(until: int | None, current: int) -> None:
    outputs = {name: StoredDeclaration(name=name) for name in ("counts", "others")}
    outputs["others"] = evolve(outputs["others"], until=until)
    coordination = stored(
        current_txid=42,
        states={"counts": 1, "others": 1},
        attempt_ids={42: 0},
        declared=Declared("", {}, outputs).json,
    )
    assert recover(coordination.acquire(), [Remembered(committed=42)]).current_txid == current


@pytest.mark.parametrize(("rolls_back", "gap"), [(False, None), (True, range(40, 42))])
def test_a_sink_and_a_state_that_passed_over_it_need_no_late_attempt(rolls_back: bool, gap: range | None) -> None:
    coordination = stored(
        current_txid=42, states={"counts": 1}, committed_as=2, gaps={"counts": gap} if gap is not None else {}
    )
    assert recover(coordination.acquire(), [Remembered(committed=41, rolls_back=rolls_back)]).committed_as == 2


def test_a_state_of_before_the_last_replay_was_restored_from_the_past() -> None:
    coordination = stored(current_txid=42, states={"counts": 1}, committed_as=2)
    with pytest.raises(StateError, match=r"'counts' has transaction 41 as 41:1 .* committed as attempt 41:2, .* past"):
        recover(coordination.acquire(), [Remembered(committed=41, attempt_id=1)])
    assert recover(coordination.acquire(), [Remembered(committed=41, attempt_id=2)]).current_txid == 42


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


def test_a_gap_that_is_accepted_is_passed_over_once_it_is_in_the_record() -> None:
    coordination = stored(current_txid=50, states={"counts": 1, "others": 1})
    back, others = Remembered(committed=41), Remembered("others", committed=49)
    record = recover(
        coordination.acquire(),
        [back, others],
        adopt=lambda found, torn: evolve(found, gaps={"counts": range(42, 50)}) if torn is None else found,
    )
    assert (record.states, record.gaps) == ({"counts": 1, "others": 1}, {"counts": range(42, 50)})
    assert (back.passed, back.epoch, others.passed) == ([range(42, 50)], 2, [])


@pytest.mark.parametrize(
    ("committed", "passed"),
    [(41, range(42, 50)), (42, range(42, 50)), (45, range(45, 50)), (49, range(49, 50)), (50, None)],
    ids=["it ends before the gap", "it has one of the gap", "it has a group of it", "or all of it", "it has gone on"],
)
def test_a_gap_is_passed_over_from_what_a_dead_attempt_has_left_there(committed: int, passed: range | None) -> None:
    coordination = stored(
        current_txid=50, states={"counts": 1, "others": 1}, attempt_ids={50: 3}, gaps={"counts": range(42, 50)}
    )
    back = Remembered(committed=committed, attempt_id=3)
    recover(coordination.acquire(), [back, Remembered("others", committed=49)])
    assert back.passed == ([passed] if passed else [])


@pytest.mark.parametrize("committed", [41, 42, 49])
def test_a_gap_is_passed_over_again_by_each_leader_until_the_state_goes_on(committed: int) -> None:
    coordination = stored(current_txid=50, states={"counts": 1}, gaps={"counts": range(42, 50)})
    back = Remembered(committed=committed, attempt_id=3)
    for _ in range(2):
        assert recover(coordination.acquire(), [back]).gaps == {"counts": range(42, 50)}
    assert back.passed == [range(max(42, committed), 50), range(49, 50)]
    assert (back.committed, back.epoch) == (49, 3)


@pytest.mark.parametrize(("committed", "current"), [(40, 50), (41, 60), (50, 60)])
def test_what_a_state_lacks_outside_of_its_gap_stops_the_takeover(committed: int, current: int) -> None:
    coordination = stored(current_txid=current, states={"counts": 1}, gaps={"counts": range(42, 50)})
    back = Remembered(committed=committed)
    with pytest.raises(StateError, match=f"ends with transaction {committed}, the record is at {current}: transacti"):
        recover(coordination.acquire(), [back])
    assert back.passed == []
