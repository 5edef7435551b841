"""One attempt, as a sink sees it."""

from __future__ import annotations

from attrs import evolve

from coordinators.values.attempt import CommitToken, TransactionAttempt
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey

TX = SinkTransaction(TransactionKey("uuid", 2, 7), TransactionAttempt(7, 3), epoch=5, time=1000)


def test_its_token_says_who_commits_which_try_of_what() -> None:
    assert TX.token == CommitToken(7, 5, 3)
    assert TX.txid == 7


def test_with_whom_it_commits_does_not_make_it_another_one() -> None:
    assert evolve(TX, group_first=4) == TX
    assert evolve(TX, epoch=6) != TX
