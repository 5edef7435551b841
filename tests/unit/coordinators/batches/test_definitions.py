"""Definitions: what stands, what is asked for again, what is durable, and what can't be."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from coordinators.batches.definitions import Definitions
from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import Defined, OffsetsResolved
from coordinators.record.record import CoordinatorRecord
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import TridentError

SPOUTS = ("a", "b")
RECORD = CoordinatorRecord(epoch=1, current_txid=4, metadata={3: {"a": "a3"}, 4: {"a": "a4"}, 5: {"a": "a5"}})


def empty(exact: Collection[str] = SPOUTS) -> Definitions:
    return Definitions.restored(CoordinatorRecord(epoch=1), SPOUTS, frozenset(exact))


def asked(definitions: Definitions, upto: int = 0) -> dict[str, Ask]:
    return dict(definitions.asks(0.0, upto or definitions.frontier))


def answer(definitions: Definitions, spout: str, ask: Ask, *, txid: int = 0, more: bool = False) -> None:
    txid = txid or ask.txid
    definitions.take_defined(Defined(spout, ask.number, txid, f"{spout}{txid}", {"upto": txid}, more))


def define_next(definitions: Definitions) -> int:
    txid = definitions.frontier
    for spout, ask in asked(definitions).items():
        answer(definitions, spout, ask)
    return txid


def startable(definitions: Definitions) -> list[int]:
    return list(definitions.startable(0.0, lambda txid: 0.0, one_new=False))


def test_a_transaction_may_start_when_every_spout_has_defined_it() -> None:
    definitions = empty()
    asks = asked(definitions)
    answer(definitions, "a", asks["a"])
    assert (startable(definitions), definitions.frontier) == ([], 1)
    answer(definitions, "b", asks["b"])
    assert (startable(definitions), definitions.frontier) == ([1], 2)
    assert definitions.metadata(1) == {"a": "a1", "b": "b1"}


def test_what_was_never_attempted_is_not_durable_and_moves_nothing() -> None:
    definitions = empty()
    for _ in range(2):
        define_next(definitions)
    definitions.admit(1)
    assert definitions.stored_metadata == {1: {"a": "a1", "b": "b1"}}
    assert {spout: dict(each.items()) for spout, each in definitions.cursors.items()} == {
        "a": {"upto": 1},
        "b": {"upto": 1},
    }
    assert (definitions.is_new(1), definitions.is_new(2), definitions.is_new(3)) == (False, True, True)


def test_a_failure_has_all_attempted_ones_asked_for_again_and_the_others_only_of_opaque_spouts() -> None:
    definitions = empty(exact=("a",))
    for _ in range(3):
        define_next(definitions)
    definitions.admit(1)
    definitions.admit(2)
    definitions.go_back(2)
    assert startable(definitions) == []
    again = asked(definitions)
    assert {spout: ask.curr_metadata for spout, ask in again.items()} == {"a": "a2", "b": "b2"}
    for spout, ask in again.items():
        answer(definitions, spout, ask)
    assert {spout: (ask.txid, ask.curr_metadata) for spout, ask in asked(definitions).items()} == {"b": (3, "b3")}


def test_a_restart_asks_for_all_and_tells_what_it_was_and_what_came_before() -> None:
    definitions = Definitions.restored(RECORD, SPOUTS, frozenset(SPOUTS))
    asks = asked(definitions)
    assert {spout: (ask.txid, ask.prev_metadata, ask.curr_metadata) for spout, ask in asks.items()} == {
        "a": (4, "a3", "a4"),
        "b": (4, None, None),
    }


def test_what_a_new_exact_spout_defines_for_several_under_way_stands() -> None:
    definitions = Definitions.restored(RECORD, SPOUTS, frozenset(SPOUTS))
    asks = asked(definitions, upto=5)
    answer(definitions, "b", asks["b"], more=True)
    answer(definitions, "b", asks["b"], txid=5)
    answer(definitions, "a", asks["a"])
    assert list(asked(definitions)) == ["a"]
    assert definitions.stored_metadata[5] == {"a": "a5"}


def test_what_emission_has_shown_moves_cursors_at_the_close_and_is_gone_with_a_failed_attempt() -> None:
    definitions = empty(exact=())
    define_next(definitions)
    definitions.admit(1)
    resolved = OffsetsResolved(TransactionAttempt(1, 0), "a", "a1 to 9", {"upto": 9})
    definitions.take_emission("test", 1, resolved)
    definitions.go_back(1)
    define_next(definitions)
    definitions.admit(1)
    definitions.close_before(2)
    assert dict(definitions.cursors["a"].items()) == {"upto": 1}


def test_an_attempt_without_a_definition_is_a_defect_of_ours() -> None:
    definitions = empty()
    answer(definitions, "a", asked(definitions)["a"])
    with pytest.raises(AssertionError, match="an attempt of 1 starts without a definition"):
        definitions.admit(1)


def test_a_close_without_an_attempt_is_a_defect_of_ours() -> None:
    definitions = empty()
    define_next(definitions)
    with pytest.raises(AssertionError, match="1 is closed without an attempt"):
        definitions.close_before(2)


def test_an_attempt_before_an_earlier_one_is_a_defect_of_ours() -> None:
    definitions = empty()
    define_next(definitions)
    define_next(definitions)
    with pytest.raises(AssertionError, match="2 is ahead of the one before it"):
        definitions.admit(2)
    assert not issubclass(AssertionError, TridentError)  # so nothing takes it for a failure of the topology


def test_what_was_under_way_is_asked_for_again_with_one_question() -> None:
    definitions = Definitions.restored(RECORD, ("a",), frozenset("a"))
    ask = asked(definitions, upto=8)["a"]
    assert (ask.txid, ask.curr_metadata, ask.then, ask.upto) == (4, "a4", ("a5",), 8)
