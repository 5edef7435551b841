"""`DeltaSink` dies at each line of its protocol, or is overtaken there and goes on: each row is in the table once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import pytest

from tests.unit.trident_py.sinks.delta.tables import Leader, rows_in, transaction
from trident_py import CommitToken, FailedException, FencedError
from trident_py.sinks.tables import transactions as protocol

pytestmark = pytest.mark.slow

HOME = protocol.__file__
A, B, C = ("a", 1), ("b", 2), ("c", 3)

Call: TypeAlias = Callable[[Leader], Callable[[], object]]
"""Makes all ready for a call; gives the call."""


class Crash(BaseException):
    """The process has died."""


@contextmanager
def at_line(number: int, then: Callable[[], None]) -> Iterator[list[int]]:
    """``then()`` is called before the line of this number is executed; gives how many lines were."""
    lines = [0]

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line":
            lines[0] += 1
            if lines[0] == number:
                before = sys.gettrace()
                sys.settrace(None)
                then()
                sys.settrace(before)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def die() -> None:
    raise Crash


def commit_second(leader: Leader) -> Callable[[], object]:
    tx = transaction(2, 0, leader.epoch)
    staged = leader.staged(tx, B)
    return lambda: leader.transactions.commit(tx, staged)


def take_over(path: Path, epoch: int) -> Leader:
    """A new leader; what it is told has to fit the rows that are there."""
    before = rows_in(path)
    leader = Leader(path, epoch=epoch)
    assert (leader.last or CommitToken(0, 0, 0)).txid == len(before)
    assert rows_in(path) == before
    return leader


def finish(leader: Leader) -> None:
    """All that was begun comes again, and one more."""
    for txid, row in ((2, B), (3, C)):
        leader.commit(txid, row, attempt=7)
    assert rows_in(leader.path) == [A, B, C]


def each_line(tmp_path: Path, met: Callable[[Path, Leader, int], int]) -> int:
    """Have ``met(path, leader, number)`` try each line of a call, until it says how few there are."""
    number = 0
    while True:
        number += 1
        path = tmp_path / str(number)
        leader = Leader(path)
        leader.commit(1, A)
        if met(path, leader, number) < number:
            return number


def recover(leader: Leader) -> Callable[[], object]:
    return lambda: leader.transactions.recover(leader.topology, leader.epoch + 1)


CALLS = {"commit": commit_second, "recover": recover}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_whoever_dies_at_any_line_leaves_each_row_once_for_the_next_leader(tmp_path: Path, call: Call) -> None:
    def met(path: Path, leader: Leader, number: int) -> int:
        called = call(leader)
        with suppress(Crash), at_line(number, die) as lines:
            called()
        assert rows_in(path) in ([A], [A, B])
        finish(take_over(path, 5))
        return lines[0]

    assert each_line(tmp_path, met) > 15


@pytest.mark.parametrize("goes_on", [False, True], ids=["leads", "commits"])
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_whoever_is_overtaken_at_any_line_adds_no_row_afterwards(tmp_path: Path, call: Call, goes_on: bool) -> None:
    def met(path: Path, leader: Leader, number: int) -> int:
        newer: list[Leader] = []

        def overtake() -> None:
            newer.append(take_over(path, 5))
            if goes_on:
                newer[0].commit(2, B)

        called = call(leader)
        with at_line(number, overtake) as lines, suppress(FencedError, FailedException):
            called()
        if newer:
            there = rows_in(path)
            assert there == [A, B] or (there == [A] and not goes_on)
            finish(newer[0])
        return lines[0]

    assert each_line(tmp_path, met) > 15
