"""What a status says of itself, as attributes, as the mapping that it was before, and for people."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError

from coordinators.record.record import Failure
from coordinators.status.status import SourceStatus, TopologyStatus, TransactionStatus
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import TridentError

STANDING_BY = TopologyStatus(topology="wc")
IDLE = TopologyStatus(topology="wc", is_leading=True, epoch=2, current_txid=5)
SEVEN = TransactionStatus(attempt=TransactionAttempt(7, 1), number=6, phase="processing", since=10.0, failures=1)


def test_it_is_a_mapping_of_what_it_told_as_a_dict_and_that_can_be_written_as_json() -> None:
    source = SourceStatus(spout="lines", txid=8, cause="OSError: away", tries=2, since=7.0, last=9.0)
    status = evolve(IDLE, at=10.0, transactions=(SEVEN,), sources=(source,))
    waiting = "waiting for spout 'lines': OSError: away (2 tries, 3 s)"
    assert dict(status) == {
        "message": waiting,
        "is_active": True,
        "is_leading": True,
        "is_paused": False,
        "leader": None,
        "epoch": 2,
        "current_txid": 5,
        "active": {7: "7:1"},
        "failing": {},
        "waiting": {"lines": waiting},
        "seconds_ahead": 0.0,
    }
    assert json.dumps(dict(status))
    assert str(status).startswith(f"TopologyStatus(topology='wc', message={waiting!r}, last_committed=4, ")
    assert "epoch=2" in str(status)
    assert "history_error" not in str(status)
    assert len(status) == 11
    assert status.get("wishes") is None
    with pytest.raises(KeyError):
        status["topology"]


def test_it_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        IDLE.epoch = 3  # type: ignore[misc]
    assert (SEVEN.txid, SEVEN.status) == (7, "processing")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (STANDING_BY, "taking over"),
        (evolve(STANDING_BY, leader="pid 7 on vm"), "standing by; pid 7 on vm leads"),
        (IDLE, "waiting for data"),
        (evolve(IDLE, transactions=(SEVEN,)), "processing"),
        (evolve(IDLE, is_paused=True), "paused"),
        (evolve(IDLE, is_stopping=True), "stopping: committing what is being processed"),
        (evolve(IDLE, late="the commit has taken 31 s so far", is_paused=True), "the commit has taken 31 s so far"),
        (evolve(IDLE, is_active=False), "stopped"),
        (evolve(IDLE, is_active=False, left_behind=["'x' in f"]), "stopped; left behind: thread 'x' in f"),
        (evolve(IDLE, error=TridentError("enough")), "failed: enough"),
        (evolve(IDLE, error=TridentError("enough"), held_by="a state commits"), "a state commits"),
    ],
)
def test_it_says_in_a_sentence_what_matters_most(status: TopologyStatus, message: str) -> None:
    assert status.message == message


def test_the_lowest_transaction_that_fails_is_told() -> None:
    failure = Failure(count=1, attempt_id=0, cause="ValueError: no", since=0.0, last=0.0, tries=1)
    status = evolve(IDLE, failures={6: failure, 5: evolve(failure, cause="KeyError: 'x'")})
    assert status.message == "transaction 5 has failed and is tried again: KeyError: 'x' (1 try, 0 s)"
    assert status.failing == {6: "ValueError: no", 5: "KeyError: 'x'"}


def test_what_is_committed_is_not_known_while_it_stands_by() -> None:
    assert STANDING_BY.last_committed is None
    assert IDLE.last_committed == 4
