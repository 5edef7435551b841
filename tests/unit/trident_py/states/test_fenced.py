from __future__ import annotations

from itertools import product

import pytest
from attrs import evolve, field, frozen

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import FencedError, StateError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionKey
from trident_py.states.fenced import Decision, Fence
from trident_py.states.memory import MemoryMapState

OURS = TopologyKey("wordcount", "8d1f", 2)


def transaction(token: CommitToken) -> SinkTransaction:
    key = TransactionKey(OURS.uuid, OURS.incarnation, token.txid)
    return SinkTransaction(key, TransactionAttempt(token.txid, token.attempt_id), token.epoch)


def decision(fence: Fence, new: CommitToken) -> object:
    try:
        return fence.decide(transaction(new), "table 'counts'")
    except (FencedError, StateError) as refusal:
        return type(refusal)


def expected(fence: Fence, new: CommitToken) -> object:
    """The table of the module's docstring, line by line."""
    old = fence.token
    if new.epoch < fence.epoch:
        return FencedError
    if old is None or new.txid == old.txid + 1:
        return Decision.APPLY
    if fence.group_first is not None and fence.group_first <= new.txid < old.txid:
        return Decision.SKIP
    if new.txid != old.txid:
        return StateError
    if (new.epoch, new.attempt_id) == (old.epoch, old.attempt_id):
        return Decision.SKIP
    return StateError if (new.epoch, new.attempt_id) < (old.epoch, old.attempt_id) else Decision.REDO


def test_every_line_of_the_decision_table_holds() -> None:
    tokens = [CommitToken(*numbers) for numbers in product(range(1, 5), range(1, 4), range(3))]
    seen = set()
    for last, new, epoch, first in product([None, *tokens], tokens, range(1, 4), (None, 1, 2)):
        fence = Fence(OURS, epoch, last, first)
        assert decision(fence, new) == expected(fence, new), (fence, new)
        seen.add(decision(fence, new))
    assert seen == {FencedError, StateError, *Decision}


@pytest.mark.parametrize(
    ("claimed", "epoch", "error", "message"),
    [
        (
            evolve(OURS, uuid="77aa"),
            9,
            StateError,
            "filled by another life of it .*8d1f.* in another directory than last time .*use another table",
        ),
        (TopologyKey("other", "77aa", 1), 9, StateError, "belongs to topology 'wordcount' .*8d1f.*use another table"),
        (evolve(OURS, incarnation=1), 9, StateError, "incarnation 2, this is incarnation 1: .* restored from the past"),
        (OURS, 4, FencedError, "epoch 5, ours is 4: another leader runs, or ZooKeeper was restored from the past"),
    ],
)
def test_a_takeover_that_cannot_be_ours_is_refused_by_name(
    claimed: TopologyKey, epoch: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"topology '{claimed.name}'.*table 'counts'.*{message}"):
        Fence(OURS, 5, CommitToken(1, 5, 0)).raised(claimed, epoch, "table 'counts'")


def test_a_takeover_keeps_the_token_and_a_new_incarnation_drops_it() -> None:
    fence = Fence(OURS, 5, CommitToken(7, 5, 0))
    assert fence.raised(OURS, 6, "") == Fence(OURS, 6, CommitToken(7, 5, 0))
    newer = evolve(OURS, incarnation=3)
    assert fence.raised(newer, 6, "") == Fence(newer, 6, None)


# --- what it asserts of itself ----------------------------------------------------------------------------------------

NAME = "table 'counts'"
AT_7 = Fence(OURS, 5, CommitToken(7, 5, 0), 6)


@frozen
class DecidingAtRandom(Fence):
    """A fence that has lost its head."""

    decisions: dict[int, Decision] = field(kw_only=True)

    def decide(self, tx: SinkTransaction, state: str) -> Decision:
        return self.decisions[tx.txid]


def run(*txids: int, epoch: int = 5, attempt_id: int = 0) -> list[SinkTransaction]:
    return [transaction(CommitToken(txid, epoch, attempt_id)) for txid in txids]


def test_only_members_at_the_end_of_a_run_can_be_due() -> None:
    fence = DecidingAtRandom(OURS, 5, decisions={8: Decision.APPLY, 9: Decision.SKIP})
    with pytest.raises(AssertionError, match=r"please report it: 1 are due, and not the last ones: .*'8:0 of epoch 5'"):
        fence.due(run(8, 9), NAME)


def test_only_the_last_commit_can_be_rolled_back() -> None:
    decisions = {8: Decision.APPLY, 9: Decision.REDO}
    fence = DecidingAtRandom(OURS, 5, CommitToken(7, 5, 0), decisions=decisions)
    with pytest.raises(AssertionError, match="the transaction to roll back is not the last commit"):
        fence.due(run(8, 9), NAME)


def test_a_run_with_a_gap_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="there is a gap"):
        Fence(OURS, 5, CommitToken(7, 5, 0), 5).due(run(5, 7), NAME)


@pytest.mark.parametrize(
    ("commit", "broken"),
    [
        (run(6, 7), "the token would go back"),
        (run(8, epoch=4), "its leader was taken over"),
        ([evolve(tx, group_first=9) for tx in run(8)], "its group begins after it"),
    ],
)
def test_a_commit_that_does_not_go_on_from_the_last_one_is_our_bug(commit: list[SinkTransaction], broken: str) -> None:
    with pytest.raises(AssertionError, match=f"defect of trident_py, please report it: {broken}: a commit of .*Fence"):
        AT_7.after(commit)


def test_each_decision_of_the_table_passes_its_own_assertions() -> None:
    for txids, attempt_id in product([(6, 7), (6, 7, 8), (7, 8), (8,), (8, 9)], (0, 1)):
        members = run(*txids, attempt_id=attempt_id)
        due, _ = AT_7.due(members, NAME)
        if due:
            assert AT_7.after(members).token == members[-1].token


def test_a_takeover_gives_up_what_an_older_leader_has_left_open() -> None:
    state = MemoryMapState[int]()
    state.recover(OURS, 5)
    (tx,) = state.begin_group(run(1))
    state.begin_member(tx)
    state.multi_put([("a",)], [1])
    state.recover(OURS, 6)
    with pytest.raises(StateError, match="changes only between"):
        state.commit_group()
    assert state.values() == {}
