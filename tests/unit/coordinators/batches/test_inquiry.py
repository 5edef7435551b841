"""When each spout is asked, and which of its answers counts."""

from __future__ import annotations

from attrs import evolve

from coordinators.batches.definitions import POLL_MAX_SECONDS, POLL_MIN_SECONDS, Inquiries, SpoutInquiry
from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import NotReady

ASK = Ask(number=1, txid=1, prev_metadata=None, curr_metadata=None, definite=False, upto=1)
REFUSAL = NotReady("lines", 1, 1)


def due(inquiry: SpoutInquiry, now: float) -> tuple[bool, bool]:
    """Whether it is asked while nobody has anything, and while another spout has."""
    return inquiry.is_due(now, definite=False), inquiry.is_due(now, definite=True)


def test_a_spout_with_an_open_ask_is_not_asked_again() -> None:
    inquiry = SpoutInquiry(asked=ASK)
    assert due(inquiry, 0.0) == (False, False)
    assert not inquiry.close(2)
    assert inquiry.close(1)
    assert due(inquiry, 0.0) == (True, True)


def test_a_spout_that_was_not_ready_waits_longer_and_longer_unless_another_has_something() -> None:
    inquiry, waits = SpoutInquiry(), []
    for _ in range(8):
        inquiry.poll_later(REFUSAL, now=0.0)
        waits.append(inquiry.ask_again_at)
        assert due(inquiry, 0.0) == (False, True)
        assert due(inquiry, inquiry.ask_again_at) == (True, True)
    assert waits == [min(POLL_MAX_SECONDS, POLL_MIN_SECONDS * 2**n) for n in range(8)]
    inquiry.begin()
    assert due(inquiry, 0.0) == (True, True)
    assert inquiry.wait == POLL_MIN_SECONDS


def test_after_an_error_it_waits_whoever_has_something() -> None:
    inquiry = SpoutInquiry()
    inquiry.back_off(until=5.0)
    assert due(inquiry, 4.9) == (False, False)
    assert due(inquiry, 5.0) == (True, True)


def test_a_late_answer_and_one_to_an_outdated_ask_are_not_awaited() -> None:
    inquiries = Inquiries.of(["a", "b"])
    for inquiry in inquiries.by_spout.values():
        inquiry.asked = evolve(ASK, number=inquiries.next_number())
    inquiries.outdate({"b"})
    assert [inquiries.by_spout["a"].is_awaited(ask) for ask in (1, 2)] == [True, False]
    assert [inquiries.by_spout["b"].is_awaited(ask) for ask in (1, 2)] == [False, False]


def test_all_were_not_ready_only_since_the_ask_of_the_first() -> None:
    inquiries = Inquiries.of(["a", "b"])
    inquiries.by_spout["a"].poll_later(evolve(REFUSAL, ask=3), 0.0)
    assert not inquiries.refused_since(0)
    inquiries.by_spout["b"].poll_later(evolve(REFUSAL, ask=4), 0.0)
    assert [inquiries.refused_since(ask) for ask in (2, 3)] == [True, False]


def test_one_that_has_something_soon_has_not_refused() -> None:
    inquiry = SpoutInquiry()
    inquiry.poll_later(evolve(REFUSAL, is_pending=True), 0.0)
    assert inquiry.refused == 0


def test_the_next_ask_is_due_with_the_first_that_has_none_open() -> None:
    inquiries = Inquiries.of(["a", "b", "c"])
    inquiries.by_spout["a"].asked = ASK
    inquiries.by_spout["b"].ask_again_at, inquiries.by_spout["c"].ask_again_at = 2.0, 1.0
    assert inquiries.next_at(["a", "b", "c"]) == 1.0
    assert inquiries.next_at(["a", "b"]) == 2.0
    assert inquiries.next_at(["a"]) is None


def test_who_wants_to_know_at_once_shortens_polls_and_no_backing_off() -> None:
    inquiries = Inquiries.of(["polled", "failed"])
    inquiries.by_spout["polled"].poll_later(REFUSAL, 0.0)
    inquiries.by_spout["failed"].back_off(9.0)
    inquiries.ask_now()
    assert list(inquiries.due(0.0, definite=False)) == ["polled"]
