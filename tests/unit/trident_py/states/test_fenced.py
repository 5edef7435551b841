from __future__ import annotations

from itertools import product

import pytest
from attrs import evolve

from coordinators.attempt import TransactionAttempt
from trident_py.errors import FencedError, StateError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionKey
from trident_py.states.fenced import Decision, Fence

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
    if fence.run_first is not None and fence.run_first <= new.txid < old.txid:
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
            "filled by another life of it .*8d1f.* in another directory than last time .*take another table",
        ),
        (TopologyKey("other", "77aa", 1), 9, StateError, "belongs to topology 'wordcount' .*8d1f.*take another table"),
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
