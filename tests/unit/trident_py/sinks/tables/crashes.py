"""What crashes of table sinks have in common: calls that are cut off, and what has to be there after them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeAlias

from tests.unit.trident_py.sinks.tables.leaders import A, B, C, TableLeader, Tables, transaction
from trident_py import CommitToken

Call: TypeAlias = Callable[[TableLeader], Callable[[], object]]
"""Makes all ready for a call; gives the call."""


class Crash(BaseException):
    """The process has died."""


@contextmanager
def at_line(module: ModuleType, number: int, then: Callable[[], None]) -> Iterator[list[int]]:
    """``then()`` is called before the line of this number of ``module`` is executed; gives how many lines were."""
    lines = [0]

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
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


def commit_second(leader: TableLeader) -> Callable[[], object]:
    tx = transaction(2, 0, leader.epoch)
    staged = leader.staged(tx, B)
    return lambda: leader.transactions.commit(tx, staged)


def recover(leader: TableLeader) -> Callable[[], object]:
    return lambda: leader.transactions.recover(leader.topology, leader.epoch + 1)


def take_over(tables: Tables, path: Path, epoch: int) -> TableLeader:
    """A new leader; what it is told has to fit the rows that are there."""
    before = tables.rows_in(path)
    leader = tables.Leader(path, epoch=epoch)
    assert (leader.last or CommitToken(0, 0, 0)).txid == len(before)
    assert tables.rows_in(path) == before
    return leader


def finish(tables: Tables, leader: TableLeader) -> None:
    """All that was begun comes again, and one more."""
    for txid, row in ((2, B), (3, C)):
        leader.commit(txid, row, attempt=7)
    assert tables.rows_in(leader.path) == [A, B, C]
