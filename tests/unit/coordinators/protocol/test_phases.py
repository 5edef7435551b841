"""Phases: when one is finished, and when it was silent for too long."""

from __future__ import annotations

from itertools import permutations

import pytest

from coordinators.protocol.acker import Phases
from coordinators.protocol.messages import Acked, FailureKind
from coordinators.protocol.protocol import PhaseAcked, StreamId
from tests.unit.coordinators.world import attempt

ONE = attempt("1:0")


def phases(epoch: int = 1) -> Phases:
    return Phases(epoch=epoch, message_timeout=30.0)


@pytest.mark.parametrize("order", list(permutations((5, 6, 7))))
def test_a_phase_is_finished_by_the_last_of_its_reports_in_whatever_order(order: tuple[int, ...]) -> None:
    those = phases()
    assert list(those.open(ONE, StreamId.BATCH, [5, 6, 7])) == []
    acked = [list(those.take(Acked(ONE, StreamId.BATCH, edge))) for edge in order]
    assert acked == [[], [], [PhaseAcked(ONE, StreamId.BATCH)]]


def test_a_phase_that_nobody_takes_part_in_is_finished_at_once() -> None:
    assert list(phases().open(ONE, StreamId.COMMIT, [])) == [PhaseAcked(ONE, StreamId.COMMIT)]


def test_a_report_counts_for_its_attempt_and_stream_alone() -> None:
    those = phases()
    list(those.open(ONE, StreamId.BATCH, [5]))
    for attempt_, stream in ((ONE, StreamId.COMMIT), (attempt("1:1"), StreamId.BATCH)):
        assert list(those.take(Acked(attempt_, stream, 5))) == []
    assert list(those.take(Acked(ONE, StreamId.BATCH, 5))) == [PhaseAcked(ONE, StreamId.BATCH)]


def test_nothing_is_heard_of_a_cancelled_attempt() -> None:
    those = phases()
    list(those.open(ONE, StreamId.BATCH, [5]))
    those.forget(ONE)
    assert list(those.take(Acked(ONE, StreamId.BATCH, 5))) == []
    assert [failed for _ in range(4) for failed in those.silent([])] == []


def test_what_is_silent_fails_and_what_something_works_on_does_not() -> None:
    those, two = phases(), attempt("2:0")
    for each in (ONE, two):
        list(those.open(each, StreamId.BATCH, [5, 6]))
    failed = [failed for _ in range(4) for failed in those.silent([(two, StreamId.BATCH)])]
    assert [(each.attempt, each.kind) for each in failed] == [(ONE, FailureKind.INTERRUPTED)]
    assert str(failed[0].cause) == "$batch was silent for 30 s with 2 reports missing"


def test_silence_is_looked_for_twice_in_a_timeout() -> None:
    those = phases()
    those.rotate_at(100.0)
    assert those.next_rotation_at == 115.0
