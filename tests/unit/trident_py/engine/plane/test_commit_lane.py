"""The commit lane: one thing at a time, in the order in which they came."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import Acked, Diagnosis, Failed, FailureKind
from coordinators.protocol.protocol import StreamId
from coordinators.record.record import CommitIntent, CoordinatorRecord
from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.commit_lane import (
    CommitGroup,
    CommitLane,
    CommitOutput,
    GroupMember,
    outputs_of,
    partial_commit_txid,
)
from trident_py.engine.plane.instructions import Abort, Answer, CloseStates, CommitStep, Post, Refuse, TryCommit
from trident_py.engine.plane.stimuli import Emitted, ReadWanted
from trident_py.engine.plane.work import BranchShape, SpoutShape, TopologyShape
from trident_py.participants.capabilities import Capabilities

WHY = Diagnosis(ValueError("busy"), FailureKind.INTERRUPTED)
TWO = (CommitOutput(name="a", branches=(0,), capabilities=Capabilities()), CommitOutput(name="b", branches=(1,)))


def member(txid: int, *, is_small: bool = True, branches: int = 2) -> GroupMember:
    attempt = TransactionAttempt(txid, 0)
    executor = TridentBoltExecutor(
        Batch(attempt=attempt, number=txid, metadata={}, time=0, edges=[1]), [frozenset("s")] * branches, {"s": 1}
    )
    batch: Any = None
    edges = dict.fromkeys(range(branches), 1)
    list(executor.take(Emitted(attempt=attempt, spout="s", batch=batch, rows=1, is_small=is_small, edges=edges)))
    for branch in range(branches):
        executor.prepare(branch, f"receipt {branch} of {txid}")
    return GroupMember(executor, [10, 11])


def group(*members: GroupMember) -> CommitGroup:
    return CommitGroup(members[0].executor.attempt.txid, list(members))


def steps(lane: CommitLane, first: list[Any]) -> list[tuple[int, list[int]]]:
    """Commit whatever is asked for, and return the branch and the transactions of each step."""
    found, instructions = [], first
    while steps := [each for each in instructions if isinstance(each, CommitStep)]:
        [step] = steps
        found.append((step.branches[0], [each.attempt.txid for each in step.members]))
        instructions = list(lane.step_committed())
    return found


def test_small_transactions_share_a_step_of_each_output_and_a_large_one_has_its_own() -> None:
    lane = CommitLane(TWO)
    sizes = [True, True, False, True]
    members = [member(txid, is_small=is_small) for txid, is_small in enumerate(sizes, 1)]
    done = steps(lane, list(lane.add(group(*members))))
    assert done == [(0, [1, 2]), (1, [1, 2]), (0, [3]), (1, [3]), (0, [4]), (1, [4])]
    assert lane.is_idle
    assert lane.partial_commit_txid == 0


def test_each_member_of_a_step_is_acked_by_itself() -> None:
    lane = CommitLane(TWO)
    list(lane.add(group(member(1), member(2))))
    acked = [each.message for each in lane.step_committed() if isinstance(each, Post)]
    assert acked == [Acked(TransactionAttempt(txid, 0), StreamId.COMMIT, 10) for txid in (1, 2)]


def test_after_a_failed_step_the_other_outputs_do_not_commit_and_receipts_are_kept_to_be_given_up() -> None:
    lane, first = CommitLane(TWO), member(1)
    list(lane.add(group(first)))
    [failed] = lane.step_failed(WHY)
    assert isinstance(failed, Post)
    assert isinstance(failed.message, Failed)
    assert set(first.executor.prepared) == {0, 1}
    assert lane.is_idle
    assert lane.partial_commit_txid == 1, "nobody knows what the step has done"


@pytest.mark.parametrize(("named", "blamed"), [(2, 2), (3, 1), (None, 1)])
def test_of_a_step_the_transaction_counts_as_failed_that_is_named_else_the_first(
    named: int | None, blamed: int
) -> None:
    lane = CommitLane(TWO)
    list(lane.add(group(member(1), member(2), member(3, is_small=False))))
    failed = next(each.message for each in lane.step_failed(evolve(WHY, txid=named)) if isinstance(each, Post))
    assert isinstance(failed, Failed)
    assert failed.attempt == TransactionAttempt(blamed, 0)


def test_of_an_attempt_that_was_cancelled_meanwhile_a_failed_step_is_given_up_at_once() -> None:
    lane, first = CommitLane(TWO), member(1)
    list(lane.add(group(first)))
    first.executor.cancel()
    assert [each for each in lane.step_failed(WHY) if isinstance(each, Abort)] == [
        Abort(TransactionAttempt(1, 0), 0, 0, "receipt 0 of 1")
    ]


def test_a_read_of_all_states_waits_until_they_are_at_the_same_transaction_and_another_one_does_not() -> None:
    lane, first = CommitLane(TWO), member(1)
    list(lane.add(group(first)))
    whole, single = ReadWanted("whole", whole=True), ReadWanted("single", whole=False)
    assert list(lane.add(whole)) == list(lane.add(single)) == []
    list(lane.step_failed(WHY))
    assert lane.is_alive, "the single one is answered"
    list(lane.ended(Answer))
    assert list(lane.add(group(evolve(first, executor=member(1).executor))))
    list(lane.step_committed())
    assert Answer("whole", committed_txid=1) in list(lane.step_committed())


def test_once_it_closes_only_what_is_to_be_given_up_is_done() -> None:
    lane, abort = CommitLane(TWO), Abort(TransactionAttempt(1, 0), 0, 0, None)
    assert list(lane.add(abort)) == [abort]
    for waiting in (ReadWanted("read", whole=False), group(member(2)), abort):
        assert list(lane.add(waiting)) == []
    assert list(lane.close()) == [Refuse("read")]
    assert list(lane.add(ReadWanted("late", whole=False))) == [Refuse("late")]
    assert list(lane.add(CloseStates())) == []
    assert list(lane.ended(Abort)) == [abort]
    assert list(lane.ended(Abort)) == [CloseStates()]


def test_what_ends_and_was_not_begun_is_a_defect_of_ours() -> None:
    with pytest.raises(AssertionError):
        list(CommitLane(TWO).ended(Answer))
    with pytest.raises(AssertionError):
        list(CommitLane(TWO).step_committed())


def test_only_an_output_without_a_fence_holds_the_end() -> None:
    lane = CommitLane(TWO)
    list(lane.add(group(member(1))))
    assert lane.unfenced == ""
    list(lane.step_committed())
    assert lane.unfenced == "b committing"


def test_committer_spouts_come_before_states_and_loose_ends_do_not_commit() -> None:
    shape = TopologyShape(
        spouts=(SpoutShape(name="plain"), SpoutShape(name="committer", is_committer=True)),
        branches=(
            BranchShape(name="loose", spouts=frozenset(), capabilities=Capabilities(commits=False)),
            BranchShape(name="counts", spouts=frozenset()),
        ),
    )
    assert [(each.name, each.spout, each.branches) for each in outputs_of(shape)] == [
        ("spout 'committer'", "committer", ()),
        ("counts", "", (1,)),
    ]


def test_branches_of_one_database_are_one_output_in_the_place_of_their_first() -> None:
    branches = tuple(
        BranchShape(name=name, spouts=frozenset(), capabilities=Capabilities(keeps_alive=name != "c")) for name in "abc"
    )
    outputs = outputs_of(TopologyShape(spouts=(), branches=branches), [{2, 0}])
    assert [(each.name, each.branches, each.capabilities.keeps_alive) for each in outputs] == [
        ("a and c", (0, 2), False),
        ("b", (1,), True),
    ]


def test_a_step_of_several_branches_commits_all_their_receipts_and_when_it_fails_all_are_kept() -> None:
    lane, first = CommitLane((CommitOutput(name="a and b", branches=(0, 1)),)), member(1)
    [step] = lane.add(group(first))
    assert isinstance(step, CommitStep)
    assert step.members[0].receipts == {0: "receipt 0 of 1", 1: "receipt 1 of 1"}
    assert not first.executor.prepared
    list(lane.step_failed(WHY))
    assert set(first.executor.prepared) == {0, 1}
    list(lane.add(group(first)))
    [acked] = lane.step_committed()
    assert acked == Post(Acked(first.executor.attempt, StreamId.COMMIT, 10))
    assert lane.is_idle


@pytest.mark.parametrize(
    ("last", "committing", "all_remember", "torn"),
    [
        ([7, 6], False, True, 7),
        ([6, 6], False, True, 0),
        ([7, 7], False, True, 0),
        ([6], True, False, 7),
        ([6], True, True, 0),
        ([], False, False, 0),
    ],
)
def test_a_takeover_knows_what_only_some_states_may_have(
    last: list[int], committing: bool, all_remember: bool, torn: int
) -> None:
    intents = (CommitIntent(TransactionAttempt(7, 0), "hash"),) if committing else ()
    record = CoordinatorRecord(epoch=1, current_txid=7, committing=intents)
    assert partial_commit_txid(last, record, all_remember=all_remember) == torn


def test_a_trial_lets_a_commit_pass_that_comes_while_it_waits() -> None:
    lane, trial = CommitLane(TWO), member(TRIAL_TXID).executor
    list(lane.add(ReadWanted("read", whole=False)))
    for item in (trial, group(member(1))):
        assert list(lane.add(item)) == []
    assert steps(lane, list(lane.ended(Answer))) == [(0, [1]), (1, [1])]
    list(lane.ended(TryCommit))
    assert lane.is_idle
