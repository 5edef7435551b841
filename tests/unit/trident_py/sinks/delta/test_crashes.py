"""`DeltaSink` dies at each line of its protocol, or is overtaken there and goes on: each row is in the table once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.trident_py.sinks.delta import tables
from tests.unit.trident_py.sinks.delta.tables import Leader, rows_in
from tests.unit.trident_py.sinks.tables.crashes import (
    Call,
    Crash,
    at_line,
    commit_second,
    die,
    finish,
    recover,
    take_over,
)
from tests.unit.trident_py.sinks.tables.leaders import A, B, TableLeader
from trident_py import FailedException, FencedError
from trident_py.sinks.tables import transactions as protocol

pytestmark = pytest.mark.slow


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


CALLS = {"commit": commit_second, "recover": recover}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_whoever_dies_at_any_line_leaves_each_row_once_for_the_next_leader(tmp_path: Path, call: Call) -> None:
    def met(path: Path, leader: Leader, number: int) -> int:
        called = call(leader)
        with suppress(Crash), at_line(protocol, number, die) as lines:
            called()
        assert rows_in(path) in ([A], [A, B])
        finish(tables, take_over(tables, path, 5))
        return lines[0]

    assert each_line(tmp_path, met) > 15


@pytest.mark.parametrize("goes_on", [False, True], ids=["leads", "commits"])
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_whoever_is_overtaken_at_any_line_adds_no_row_afterwards(tmp_path: Path, call: Call, goes_on: bool) -> None:
    def met(path: Path, leader: Leader, number: int) -> int:
        newer: list[TableLeader] = []

        def overtake() -> None:
            newer.append(take_over(tables, path, 5))
            if goes_on:
                newer[0].commit(2, B)

        called = call(leader)
        with at_line(protocol, number, overtake) as lines, suppress(FencedError, FailedException):
            called()
        if newer:
            there = rows_in(path)
            assert there == [A, B] or (there == [A] and not goes_on)
            finish(tables, newer[0])
        return lines[0]

    assert each_line(tmp_path, met) > 15
