"""The data plane of `trident script`: prints what is announced, and answers when the script says so."""

from __future__ import annotations

from attrs import evolve

from coordinators.batches.spout_coordinator import Ask
from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import Acked, Defined, NotReady, SuccessDelivered
from coordinators.protocol.protocol import StreamId
from coordinators.script.script import SPOUT, ScriptOutside, ScriptPlane
from tests.unit.coordinators.world import attempt

ONE = attempt("1:0")
ASK = Ask(number=1, txid=3, prev_metadata=None, curr_metadata=None, definite=False, upto=6)


def test_it_prints_what_is_announced_and_acks_once() -> None:
    plane = ScriptPlane(ScriptOutside())
    plane.emit_batch(Batch(attempt=ONE, number=1, metadata={}, time=0, edges=[5]))
    assert plane.ack(ONE) == [Acked(ONE, StreamId.BATCH, 5)]
    assert plane.ack(ONE) == []
    plane.emit_commit({ONE: [6]})
    plane.emit_success(ONE, 1)
    assert plane.said == ["BATCH 1:0", "COMMIT 1:0", "SUCCESS 1:0"]
    assert plane.taken() == [SuccessDelivered(1)]
    assert plane.taken() == []


def test_a_success_that_was_printed_before_a_crash_is_taken_and_not_printed_again() -> None:
    outside = ScriptOutside()
    for plane in (ScriptPlane(outside), ScriptPlane(outside)):
        plane.emit_success(ONE, 1)
        assert plane.taken() == [SuccessDelivered(1)]
        assert plane.said == (["SUCCESS 1:0"] if plane.said else [])
    assert outside.printed == 1


def test_an_attempt_that_is_cancelled_has_nothing_to_ack() -> None:
    plane = ScriptPlane(ScriptOutside())
    plane.emit_batch(Batch(attempt=ONE, number=1, metadata={}, time=0, edges=[5]))
    plane.cancel(ONE)
    assert plane.ack(ONE) == []


def test_it_defines_what_is_ready_of_the_window_and_stops_at_the_first_that_is_not() -> None:
    plane = ScriptPlane(ScriptOutside(ready_of={5: False}))
    plane.ask(SPOUT, ASK)
    three, four, five = plane.define(range(3, 7))
    assert three == Defined(SPOUT, 1, 3, None, more=True)
    assert four == Defined(SPOUT, 1, 4, None, more=True)
    assert five == NotReady(SPOUT, 1, 5)
    plane.ask(SPOUT, evolve(ASK, txid=4))
    assert plane.define(range(3, 4)) == [NotReady(SPOUT, 1, 4)], "it is behind the window"


def test_each_ask_is_answered_once() -> None:
    plane = ScriptPlane(ScriptOutside())
    plane.ask(SPOUT, ASK)
    assert plane.refuse() == [NotReady(SPOUT, 1, 3)]
    assert plane.refuse() == plane.define(range(9)) == []


def test_nobody_listens_where_the_script_says_so() -> None:
    plane = ScriptPlane(ScriptOutside(listening={StreamId.COMMIT: False}))
    assert [plane.consumers(stream) for stream in (StreamId.BATCH, StreamId.COMMIT)] == [1, 0]
