"""What stores keep of a sink."""

from __future__ import annotations

import pytest

from coordinators.values.canonical import Fingerprint
from trident_py import CommitToken
from trident_py.sinks.token import LeaderToken, TableToken

NUMBERS = {"version": 1, "incarnation": 1, "fence": 3, "sink": 5, "txid": 7, "epoch": 2, "attempt": 4}
NOTHING = {**NUMBERS, "txid": 0, "epoch": 0, "attempt": 0}


def test_a_token_is_told_in_numbers_and_back() -> None:
    token = LeaderToken(incarnation=1, fence=3, sink=5, commit=CommitToken(7, 2, 4))
    assert token.numbers() == NUMBERS
    assert LeaderToken.of(NUMBERS) == token
    assert token.txid == 7


def test_where_nothing_was_committed_there_is_no_commit() -> None:
    token = LeaderToken(incarnation=1, fence=3, sink=5)
    assert token.numbers() == NOTHING
    assert LeaderToken.of(NOTHING) == token
    assert token.txid == 0


def test_a_table_keeps_what_rows_the_last_commit_has() -> None:
    token = TableToken.of({**NUMBERS, "rows": 10, "hash": 99})
    assert (token.txid, token.content) == (7, Fingerprint(10, 99))
    assert TableToken.of(token.numbers()) == token
    with pytest.raises(KeyError, match="rows"):
        TableToken.of(NUMBERS)


def test_a_token_of_another_format_is_refused() -> None:
    for version, who in ((0, "a version before the first release wrote it"), (2, "another release wrote it")):
        with pytest.raises(ValueError, match=who):
            LeaderToken.of({**NUMBERS, "version": version})
