"""A leader that is paused goes on when another one, or a reader, can't without what it holds."""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from trident_py.conformance import play as plays
from trident_py.conformance.child_process import Subject, serve
from trident_py.conformance.children import BLOCKED_SECONDS, Child, Nursery
from trident_py.conformance.play import TRIES, Suspended
from trident_py.conformance.report import Findings
from trident_py.conformance.sink_play import SinkPlay
from trident_py.conformance.stops import Moment, Stop, Way
from trident_py.errors import StoreBusyException
from trident_py.rows.schema import schema_of


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

    def lease(self) -> None:
        end = time.monotonic() + 10 * BLOCKED_SECONDS
        while time.monotonic() < end:
            time.sleep(BLOCKED_SECONDS / 10)  # looks at the lock, and takes it for free when it is old


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


@pytest.mark.parametrize(("method", "count"), [("wait", 0), ("say", TRIES - 1), ("look", TRIES - 1)])
def test_whoever_lacks_what_a_paused_leader_holds_gets_it(
    play: SinkPlay, method: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plays, "LEASE_SECONDS", BLOCKED_SECONDS)
    assert failures(play, play.new_child(), method) == count
    assert not play.wake().error


def test_whoever_says_that_the_store_is_busy_waits_once_for_a_lock_that_ends_by_itself(
    play: SinkPlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plays, "LEASE_SECONDS", BLOCKED_SECONDS)
    assert failures(play, play.new_child(), "say") == TRIES - 1
    play.begin({0: (HELD,)}, "")
    with pytest.raises(Suspended):
        play.call(play.new_child(), "the next one", "hold")
    assert failures(play, play.new_child(), "say") == 1


def test_a_paused_leader_stays_paused_where_the_other_one_takes_its_lock_for_free_after_a_while(
    play: SinkPlay,
) -> None:
    assert not play.call(play.new_child(), "the other one", "lease").error
    assert play.zombie is not None
    assert play.zombie.paused


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
