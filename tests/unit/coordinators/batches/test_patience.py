"""Sources that are away: how long each is waited for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinators.batches.failures import WAIT_SECONDS_MAX, SourcePatience

AWAY = ConnectionError("no route")


def test_waits_double_up_to_half_a_minute() -> None:
    patience, waits = SourcePatience(backoff=1.0), []
    for _ in range(8):
        waits.append(patience.failed("a", 7, AWAY, now=0.0, wall=0.0, is_asking=True).until)
    assert waits == [1, 2, 4, 8, 16, WAIT_SECONDS_MAX, WAIT_SECONDS_MAX, WAIT_SECONDS_MAX]


@given(st.floats(0.1, 100), st.lists(st.floats(0, 50), min_size=1, max_size=8))
def test_the_last_try_is_made_when_patience_ends_and_not_before(seconds: float, pauses: list[float]) -> None:
    patience, now = SourcePatience(seconds=seconds, backoff=1.0), 0.0
    for pause in pauses:
        wait = patience.failed("a", 7, AWAY, now=now, wall=now, is_asking=True)
        assert (patience.verdict("t", "a", now) is not None) == (now >= seconds)
        assert now >= seconds or now < wait.until <= seconds
        now += pause


def test_the_error_names_spout_transaction_and_cause() -> None:
    patience = SourcePatience(seconds=1.0)
    patience.failed("a", 7, AWAY, now=0.0, wall=0.0, is_asking=True)
    error = patience.verdict("t", "a", 1.0)
    assert error is not None
    assert "spout 'a'" in str(error)
    assert "ConnectionError: no route" in str(error)
    assert (error.topology, error.spout, error.txid) == ("t", "a", 7)


def test_only_a_batch_that_cannot_be_read_holds_its_transaction_back() -> None:
    patience = SourcePatience(backoff=1.0)
    patience.failed("asking", 7, AWAY, now=0.0, wall=0.0, is_asking=True)
    assert patience.held_until(7) == 0.0
    patience.failed("reading", 7, AWAY, now=0.0, wall=0.0, is_asking=False)
    assert [patience.held_until(txid) for txid in (6, 7, 8)] == [0.0, 1.0, 0.0]


def test_an_answer_ends_a_question_and_a_read_batch_ends_reading() -> None:
    patience = SourcePatience()
    for spout, is_asking in (("asking", True), ("reading", False)):
        patience.failed(spout, 7, AWAY, now=0.0, wall=0.0, is_asking=is_asking)
    assert patience.answered("reading") is None
    patience.read(7)
    assert patience.waits.keys() == {"asking"}
    assert patience.answered("asking") is not None
    assert patience.waits == {}


def test_an_empty_transaction_moves_those_behind_it() -> None:
    patience = SourcePatience()
    for txid in (6, 7, 8):
        patience.failed(str(txid), txid, AWAY, now=0.0, wall=0.0, is_asking=False)
    patience.make_room(7)
    assert {spout: wait.txid for spout, wait in patience.waits.items()} == {"6": 6, "7": 8, "8": 9}
