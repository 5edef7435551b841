from __future__ import annotations

import pytest

from trident_py.spouts.spool.log import Position, SpoolLog, end_of, file_name
from trident_py.spouts.spool.records import Received, Record

A, B = file_name(1, 1), file_name(2, 1)


def records(*ends: int, begin: int = 10) -> list[Record]:
    """Records of two rows each."""
    found = []
    for end in ends:
        one = Received(key=None, digest="", rows=2, content=b"")
        found.append(Record(begin=begin, end=end, at=0.0, received=one, hash=bytes([end])))
        begin = end
    return found


@pytest.fixture
def log() -> SpoolLog:
    log = SpoolLog()
    log.add(A, records(20, 30, 40), 40)
    log.add(B, records(15), 15)
    return log


def test_batches_are_ranges_in_order_and_never_divide_a_record(log: SpoolLog) -> None:
    first, second = log.take(1, 25, None), log.take(2, 1, None)
    assert [(each["file"], each["begin"], each["end"], each["rows"]) for each in first] == [(A, 10, 30, 4)]
    assert [(each["begin"], each["end"]) for each in second] == [(30, 40)]
    assert end_of(second) == log.position == Position(A, 40)
    assert log.take(3, 100, None)[0]["file"] == B
    assert log.take(4, 100, None) == []
    assert log.position == Position(B, 15)


def test_a_batch_may_span_files_and_has_no_more_rows_than_allowed(log: SpoolLog) -> None:
    assert [each["rows"] for each in log.take(1, 1_000, 4)] == [4]
    assert [each["file"] for each in log.take(2, 1_000, None)] == [A, B]
    assert log.unread_rows == 0


def test_a_new_leader_continues_at_its_position(log: SpoolLog) -> None:
    taken = log.take(1, 10, None)
    later = SpoolLog(log.position)
    later.add(A, records(20, 30, 40), 40)
    assert (later.unread_rows, later.held_bytes) == (4, 20)
    later.define(1, taken)
    later.define(1, taken)
    assert later.held_bytes == 30


def test_bytes_are_held_until_the_success_of_their_batch(log: SpoolLog) -> None:
    assert log.held_bytes == 35
    log.take(1, 10, None)
    log.take(2, 10, None)
    assert log.held_bytes == 35
    log.succeed(2)
    assert (log.held_bytes, log.unneeded(B)) == (15, [])


def test_a_file_is_unneeded_once_all_of_it_has_succeeded_and_another_one_is_written(log: SpoolLog) -> None:
    log.take(1, 100, None)
    assert log.unneeded(B) == []
    log.succeed(1)
    assert log.unneeded(B) == [A]
    log.forget(A)
    assert (log.unneeded(B), log.ends) == ([], {B: 15})


def test_an_empty_batch_moves_nothing(log: SpoolLog) -> None:
    assert SpoolLog().take(1, 100, None) == []
    log.define(7, [])
    log.succeed(7)
    assert log.unneeded("") == []
