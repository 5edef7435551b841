"""A spool in a directory: groups, limits, keys, and what a new leader finds. Crashes are in test_exploration."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trident_py.errors import FencedError, SpoutError
from trident_py.spouts.spool.files import SpoolDirectory
from trident_py.spouts.spool.log import Position
from trident_py.spouts.spool.records import Received
from trident_py.spouts.spool.spool import (
    OtherContentError,
    Spool,
    SpoolClosedError,
    SpoolFullError,
    SpoolLimits,
)

Make = Callable[..., Spool]


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Make:
    def make(epoch: int = 1, *, where: str = "spool", held: int = 1_000, file: int = 10_000) -> Spool:
        limits = SpoolLimits(held_bytes=held, dedup_seconds=10.0, file_bytes=file)
        return Spool(where="here", files=SpoolDirectory(tmp_path / where), epoch=epoch, limits=limits, clock=clock)

    return make


def opened(spool: Spool, token: str | None = None, position: Position = Position()) -> Spool:  # noqa: B008 - frozen
    spool.open(token, position)
    spool.accept()
    return spool


def one(key: str | None = None, content: bytes = b"x", digest: str = "") -> Received:
    return Received(key=key, digest=digest, rows=1, content=content)


def test_nothing_is_accepted_before_the_spool_is_open_and_named_and_after_its_end(make: Make) -> None:
    spool = make()
    spool.accept()
    with pytest.raises(SpoolClosedError, match="just starting"):
        spool.offer(one())
    spool.open(None, Position())
    with pytest.raises(SpoolClosedError, match="just starting"):
        spool.offer(one())
    spool.accept()
    spool.offer(one())
    spool.close()
    spool.accept()
    with pytest.raises(SpoolClosedError, match="has stopped here"):
        spool.offer(one())


def test_senders_that_wait_share_a_flush(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    spool, first, goes, groups = opened(make()), threading.Event(), threading.Event(), list[bytes]()
    append = SpoolDirectory.append

    def slow(self: SpoolDirectory, name: str, data: bytes) -> None:
        first.set()
        goes.wait()
        groups.append(data)
        append(self, name, data)

    monkeypatch.setattr(SpoolDirectory, "append", slow)
    with ThreadPoolExecutor(9) as pool:
        sent = [pool.submit(spool.offer, one("0"))]
        first.wait()
        sent += [pool.submit(spool.offer, one(str(number % 4))) for number in range(8)]
        while len(spool._waiting) < 3:
            pass
        goes.set()
        for each in sent:
            each.result()
    assert spool.unread_rows == 4
    assert len(groups) <= 4


def test_a_key_counts_once_within_its_time_also_after_its_file_was_removed(make: Make, clock: Clock) -> None:
    spool = opened(make(file=1))
    spool.offer(one("k", digest="d"))
    spool.offer(one("k", digest="d"))
    with pytest.raises(OtherContentError, match="the key 'k'"):
        spool.offer(one("k", digest="other"))
    assert spool.unread_rows == 1
    spool.offer(one())
    spool.take(1, 10_000, None)
    spool.succeed(1)
    assert spool.files.names() == [
        "0000000001-000002.spool.keys",
        "0000000001-000003.spool",
        "0000000001.fence",
        "identity",
    ]
    later = opened(make(2))
    later.offer(one("k", digest="d"))
    assert later.unread_rows == 1
    clock.now += 11.0
    later.offer(one("k", digest="other"))
    assert later.unread_rows == 2
    later.take(1, 10_000, None)
    later.succeed(1)
    assert not [name for name in later.files.names() if name.endswith(".keys")]


def test_a_topology_that_is_behind_takes_no_more_until_batches_succeed(make: Make) -> None:
    spool = opened(make(held=200))
    spool.offer(one("big", b"x" * 5_000))
    with pytest.raises(SpoolFullError, match="not processed yet, the limit is 200"):
        spool.offer(one())
    spool.offer(one("big", b"x" * 5_000))
    spool.take(1, 1, None)
    with pytest.raises(SpoolFullError):
        spool.offer(one())
    spool.succeed(1)
    spool.offer(one())


def test_a_spool_elsewhere_is_refused(make: Make) -> None:
    token = make().open(None, Position())
    with pytest.raises(SpoutError, match=r"the earlier leader .* on this machine has no spool; to fix this: give"):
        make(2, where="other").open(token, Position())
    make(2, where="other").open(None, Position())
    with pytest.raises(SpoutError, match="has another spool"):
        make(3, where="other").open(token, Position())
    assert make(2).open(token, Position()) == token


def test_an_older_leader_is_refused(make: Make) -> None:
    older = opened(make(1))
    make(2).open(None, Position())
    with pytest.raises(SpoolClosedError, match="a leader of epoch 2 has taken over"):
        older.offer(one())
    with pytest.raises(FencedError, match="move the spool away"):
        make(1).open(None, Position())


def test_a_file_that_lost_records_is_named_by_the_next_leader(make: Make, tmp_path: Path) -> None:
    spool = opened(make())
    spool.offer(one())
    (taken,) = spool.take(1, 100, None)
    path = tmp_path / "spool" / taken["file"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SpoutError, match=r"ends at byte \d+, and was read up to \d+: it has lost records"):
        make(2).open(None, Position(taken["file"], taken["end"]))


def test_an_error_of_the_disk_refuses_the_records_and_begins_a_new_file(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = opened(make())
    with monkeypatch.context() as broken:
        broken.setattr(SpoolDirectory, "append", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
        with pytest.raises(SpoolClosedError, match="could not be stored: the disk is full"):
            spool.offer(one("k"))
    spool.offer(one("k"))
    assert [name for name in spool.files.names() if name.endswith(".spool")] == [
        "0000000001-000001.spool",
        "0000000001-000002.spool",
    ]
    assert opened(make(2)).unread_rows == 1


def test_files_that_cannot_be_removed_are_removed_later(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = opened(make(file=1))
    spool.offer(one())
    spool.offer(one())
    spool.take(1, 10_000, None)
    with monkeypatch.context() as broken:
        broken.setattr(SpoolDirectory, "remove", lambda *_: (_ for _ in ()).throw(OSError("read-only")))
        spool.succeed(1)
    spool.succeed(1)
    assert len([name for name in spool.files.names() if name.endswith(".spool")]) == 1
