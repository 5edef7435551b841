"""The wrapper around a user's coordinator: what it is called with, and which message each outcome becomes."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from coordinators.batches.spout_coordinator import Ask, TridentSpoutCoordinator
from coordinators.protocol.messages import Defined, DefinitionFailed, NotReady
from coordinators.values.errors import MetadataError, SpoutError
from tests.unit.coordinators.world import Numbers

ASK = Ask(number=9, txid=1, prev_metadata=None, curr_metadata=None, definite=False, upto=3)


def asked(coordinator: Numbers, ask: Ask = ASK, *, exact: bool = True) -> list[Any]:
    return list(TridentSpoutCoordinator("t", "lines", coordinator, exact).answers(ask))


def test_it_defines_one_after_the_other_as_long_as_there_is_something() -> None:
    coordinator = Numbers(upto=2)
    first, second, last = asked(coordinator)
    assert [each.metadata for each in (first, second)] == [[1, "first"], [2, "first"]]
    assert (first.more, second.more) == (True, True)
    assert last == NotReady("lines", 9, 3)
    assert [previous for _, previous, _ in coordinator.calls] == [None, [1, "first"]], "each is given the one before"


def test_the_last_one_has_no_more() -> None:
    answers = asked(Numbers())
    assert [each.more for each in answers] == [True, True, False]
    assert all(each.ask == 9 for each in answers)


def test_what_was_defined_is_told_whether_there_is_something_or_not() -> None:
    coordinator = Numbers(upto=0)
    ask = evolve(ASK, curr_metadata=[1, "stored"], then=([2, "stored"],), definite=True)
    answers = asked(coordinator, ask)
    assert [each.metadata for each in answers if isinstance(each, Defined)] == [[1, "stored"], [2, "stored"]]
    assert isinstance(answers[-1], NotReady)


class Lagging(Numbers):
    def lag(self) -> dict[str, int]:
        return {"numbers": 10 - len(self.calls)}


def test_what_waits_in_the_source_is_asked_after_every_answer() -> None:
    coordinator = TridentSpoutCoordinator("t", "lines", Lagging(upto=2), True)
    answers = coordinator.answers(ASK)
    assert coordinator.lag == {}
    assert [(type(each), dict(coordinator.lag)) for each in answers] == [
        (Defined, {"numbers": 9}),
        (Defined, {"numbers": 8}),
        (NotReady, {"numbers": 8}),
    ]


class Expiring(Numbers):
    def expiring(self, metadata: Any) -> str:
        return "it is old" if metadata == [1, "first"] else ""


def test_who_parks_what_may_soon_be_gone_is_warned_once(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = TridentSpoutCoordinator("t", "lines", Expiring(upto=0), True)
    parked = evolve(ASK, parked={7: [1, "first"], 8: [2, "first"]})
    for _ in range(2):
        list(coordinator.answers(parked))
        assert coordinator.expiring == {7: "it is old"}
    (said,) = caplog.messages
    assert "the rows of parked transaction 7 may soon be gone: it is old" in said
    assert "`trident tx t rows 7` stores them" in said
    list(coordinator.answers(ASK))
    assert coordinator.expiring == {}


class Changing(Numbers):
    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        return [txid, "changed"]


def test_an_exact_spout_that_defines_something_else_is_refused_and_an_opaque_one_is_not() -> None:
    ask = evolve(ASK, curr_metadata=[1, "stored"], upto=1)
    [refused] = asked(Changing(), ask)
    assert isinstance(refused.cause, SpoutError)
    assert (refused.cause.topology, refused.cause.spout, refused.cause.txid) == ("t", "lines", 1)
    [taken] = asked(Changing(), ask, exact=False)
    assert taken.metadata == [1, "changed"]


class Unfit(Numbers):
    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        return {1, 2}


def test_metadata_that_json_can_not_hold_is_an_error_at_once() -> None:
    [failed] = asked(Unfit())
    assert isinstance(failed, DefinitionFailed)
    assert isinstance(failed.cause, MetadataError)
    assert "initialize_transaction returned {1, 2}" in str(failed.cause)


def test_what_a_coordinator_raises_becomes_a_message() -> None:
    first, failed = asked(Numbers(fails={2: 1}))
    assert isinstance(first, Defined)
    assert isinstance(failed, DefinitionFailed)
    assert str(failed.cause) == "no definition of 2"


def test_a_limit_is_told_once_and_when_it_changes() -> None:
    coordinator = Numbers()
    wrapper = TridentSpoutCoordinator("t", "lines", coordinator, True)
    for limit in (None, 10, 10, 20, None):
        list(wrapper.answers(evolve(ASK, max_batch=limit)))
    assert coordinator.limits == [10, 20, None]
