"""A leader that is paused goes on when another one, or a reader, can't without what it holds."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from trident_py.errors import StoreBusyException
from trident_py.rows.schema import schema_of
from trident_py.testing.child_process import Subject, serve
from trident_py.testing.children import Child, Nursery
from trident_py.testing.play import TRIES, Suspended
from trident_py.testing.report import Findings
from trident_py.testing.sink_play import SinkPlay
from trident_py.testing.stops import Moment, Stop, Way


def locked(path: Path, flags: int) -> int:
    lock = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, flags)
    except BaseException:
        os.close(lock)
        raise
    return lock


class Locks(Subject):
    def __init__(self, path: Path) -> None:
        self.path = path

    def hold(self) -> None:
        lock = locked(self.path, fcntl.LOCK_EX)
        os.close(lock)

    def wait(self) -> None:
        os.close(locked(self.path, fcntl.LOCK_EX))

    def look(self) -> None:
        os.close(locked(self.path, fcntl.LOCK_EX | fcntl.LOCK_NB))

    def say(self) -> None:
        try:
            self.look()
        except BlockingIOError as error:
            raise StoreBusyException("somebody else has the lock") from error


HELD = Stop(Way.PAUSE, Moment.AT_LINE, Locks.hold.__code__.co_filename, Locks.hold.__code__.co_firstlineno + 2)


@pytest.fixture
def play(tmp_path: Path) -> Iterator[SinkPlay]:
    """One in which a leader is paused that holds the lock."""
    path = tmp_path / "lock"
    with Nursery.open(partial(serve, make=lambda: Locks(path)), lambda: None) as nursery:
        play = SinkPlay(nursery, Findings(), schema=schema_of("n int"), read_rows=list)
        play.begin({0: (HELD,)}, "")
        play.recuperating = True  # nobody is killed at lines that nobody has come to
        with pytest.raises(Suspended):
            play.call(play.new_child(), "the first one", "hold")
        play.ledger.start_over(1, Counter())
        yield play
        play.end_children()


def failures(play: SinkPlay, other: Child, method: str) -> int:
    for count in range(TRIES * 2):
        if not play.call(other, "the other one", method).error:
            return count
    return TRIES * 2


@pytest.mark.parametrize(("method", "count"), [("wait", 0), ("say", 1), ("look", TRIES - 1)])
def test_whoever_lacks_what_a_paused_leader_holds_gets_it(play: SinkPlay, method: str, count: int) -> None:
    assert failures(play, play.new_child(), method) == count
    assert not play.wake().error


@pytest.mark.parametrize("flags", [fcntl.LOCK_SH, fcntl.LOCK_SH | fcntl.LOCK_NB])
def test_a_reader_that_waits_for_a_paused_leader_or_is_refused_gets_to_read(
    play: SinkPlay, tmp_path: Path, flags: int
) -> None:
    def read() -> list[tuple[int]]:
        os.close(locked(tmp_path / "lock", flags))
        return [(1,)]

    play.read_rows = read
    assert play.read() == Counter([(1,)])
    assert not play.wake().error
