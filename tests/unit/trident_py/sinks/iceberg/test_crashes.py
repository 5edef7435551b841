"""`IcebergSink` dies before, in or after a call of its catalog, or is overtaken and goes on: each row is there once.

Every line of the protocol is tried with Delta tables, which have the same (`tests/unit/trident_py/sinks/delta`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog

from tests.unit.trident_py.sinks.iceberg import tables
from tests.unit.trident_py.sinks.iceberg.tables import Leader, files_in, files_of, rows_in
from tests.unit.trident_py.sinks.tables.crashes import Call, Crash, commit_second, die, finish, recover, take_over
from tests.unit.trident_py.sinks.tables.leaders import A, B, TableLeader, transaction
from trident_py import FailedException, FencedError

pytestmark = pytest.mark.slow


@contextmanager
def at_point(point: str, then: Callable[[], None]) -> Iterator[None]:
    """``then()`` is called once, at a point of the next commit of a catalog: before, in (all is written), or after."""
    waiting = [then]

    def once() -> None:
        if waiting:
            waiting.pop()()

    owner, name = (MetastoreCatalog, "_write_metadata") if point == "in" else (SqlCatalog, "commit_table")
    call = getattr(owner, name)

    def patched(*arguments: Any, **options: Any) -> Any:
        if point == "before":
            once()
        done = call(*arguments, **options)
        if point != "before":
            once()
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, staticmethod(patched) if point == "in" else patched)
        yield


def redo_first(leader: TableLeader) -> Callable[[], object]:
    """With the row that it has, so that all that is there fits what may come again."""
    tx = transaction(1, 1, leader.epoch)
    staged = leader.staged(tx, A)
    return lambda: leader.transactions.commit(tx, staged)


def abort(leader: TableLeader) -> Callable[[], object]:
    """Of an attempt that dies at its commit; the point is in that."""
    tx = transaction(2, 0, leader.epoch)
    staged = leader.staged(tx, B)

    def commit_and_abort() -> None:
        try:
            leader.transactions.commit(tx, staged)
        finally:
            leader.transactions.abort(tx, staged)

    return commit_and_abort


CALLS = {"commit": commit_second, "commit again": redo_first, "recover": recover, "abort": abort}
POINTS = ("before", "in", "after")


def finish_all(leader: TableLeader) -> None:
    """All comes to its end, and hardly anything is left."""
    finish(tables, leader)
    left = {Path(each).name.partition("-")[0] for each in files_in(leader.path) - files_of(leader.path)}
    assert left <= {"1"}  # of what was there already, nothing is swept: readers of older snapshots may need it


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_whoever_dies_leaves_each_row_once_for_the_next_leader(tmp_path: Path, call: Call, point: str) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    called = call(leader)
    with pytest.raises(Crash), at_point(point, die):
        called()
    assert rows_in(tmp_path) in ([A], [A, B])
    finish_all(take_over(tables, tmp_path, 5))


@pytest.mark.parametrize("goes_on", [False, True], ids=["leads", "commits"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_whoever_is_overtaken_adds_no_row_afterwards(tmp_path: Path, call: Call, point: str, goes_on: bool) -> None:
    leader = Leader(tmp_path)
    leader.commit(1, A)
    newer: list[TableLeader] = []

    def overtake() -> None:
        newer.append(take_over(tables, tmp_path, 5))
        if goes_on:
            newer[0].commit(2, B)

    called = call(leader)
    with at_point(point, overtake), suppress(FencedError, FailedException):
        called()
    there = rows_in(tmp_path)
    assert newer
    assert there == [A, B] or (there == [A] and not goes_on)
    finish_all(newer[0])
