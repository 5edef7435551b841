"""Positions in a stream: every loss of an unread message is noticed, and nothing else is taken for one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, combinations, product
from typing import Any

import pytest

from coordinators.values.canonical import json_copy
from trident_py.spouts.nats.positions import StreamLook, StreamPosition, micros_of

CREATED = "2026-11-28T20:05:09.123456789Z"


def look(*there: int, last: int, **more: Any) -> StreamLook:
    """What a server says of a stream that has the messages ``there``."""
    first = min(there, default=last + 1)
    deleted = tuple(number for number in range(first, last + 1) if number not in there)
    standard: dict[str, Any] = {"created": CREATED, "retention": "limits", "is_mirror": False}
    return StreamLook(first=first, last=last, gaps=len(deleted), deleted=deleted, **standard | more)


def subsets(numbers: range) -> Iterator[set[int]]:
    yield from map(set, chain.from_iterable(combinations(numbers, size) for size in range(len(numbers) + 1)))


def test_an_answer_of_the_server_is_understood() -> None:
    state = {"first_seq": 3, "last_seq": 9, "num_deleted": 2, "deleted": [7, 4]}
    info: dict[str, Any] = {"created": CREATED, "config": {"retention": "limits"}, "state": state}
    assert StreamLook.of(info) == look(3, 5, 6, 8, 9, last=9)
    assert StreamLook.of(info | {"state": {"first_seq": 0, "last_seq": 0}}) == look(last=0)
    assert StreamLook.of(info | {"config": {"retention": "limits", "mirror": {"name": "a"}}}).is_mirror


def test_times_have_microseconds() -> None:
    moment = datetime(2026, 11, 28, 20, 5, 9, 123456, UTC).timestamp() * 1e6
    assert micros_of(CREATED) == int(moment)
    assert micros_of("2026-11-28T20:05:09.12345678Z") == int(moment)
    assert micros_of("2026-11-28T20:05:09Z") == int(moment) - 123456


def test_a_range_ends_after_so_many_messages_whatever_is_deleted() -> None:
    for deleted, after, most in product(subsets(range(1, 7)), range(7), range(1, 5)):
        there = [number for number in range(1, 7) if number not in deleted]
        unread = [number for number in there if number > after][:most]
        upto, count = look(*there, last=6).end_after(max(after, min(there, default=7) - 1), most)
        assert (count, upto if count == most else 6) == (len(unread), unread[-1] if count == most else 6)
        assert [number for number in there if after < number <= upto] == unread


def test_exactly_the_losses_of_unread_messages_are_noticed() -> None:
    for before, upto, after in product(subsets(range(1, 5)), range(5), subsets(range(1, 7))):
        there = {1, 2, 3, 4} - before
        first = look(*there, last=4)
        if upto < first.first - 1:
            continue
        stored: Any = json_copy(first.position(upto, 0).cursor)
        position = StreamPosition.of(stored)
        found = look(*(there | {5, 6}) - after, last=6)
        is_lost = any(number > upto for number in (there | {5, 6}) & after)
        assert bool(found.lost_after(position)) == is_lost, (before, upto, after)


def test_losses_are_named() -> None:
    position = look(1, 2, 3, 4, last=4).position(2, 0)
    assert look(4, last=4).lost_after(position) == "1 unread messages after message 2 were trimmed or purged"
    assert look(1, 2, 3, last=4).lost_after(position) == "1 unread messages after message 2 were deleted"
    assert look(1, last=1).lost_after(position).startswith("it was read up to message 2, and ends at 1: its server has")
    other = look(1, 2, 3, 4, last=4, created="2026-11-29T00:00:00Z")
    assert other.lost_after(position).endswith(f"at {CREATED}: it was deleted and made again")


def test_a_mirror_may_lack_messages_but_not_lose_them() -> None:
    position = look(1, 2, 4, last=4, is_mirror=True).position(2, 0)
    assert look(1, 2, 4, 7, last=7, is_mirror=True).lost_after(position) == ""
    assert look(1, 2, 7, last=7, is_mirror=True).lost_after(position) != ""
    assert look(6, last=7, is_mirror=True).lost_after(position) != ""


def test_a_range_knows_which_numbers_had_no_message() -> None:
    first = look(1, 2, 4, last=4)
    given = first.range("orders", first.position(0, 0), first.position(4, 17), 3)
    assert (given["after"], given["upto"], given["holes"], given["time"]) == (0, 4, 1, 17)
    assert not look(1, 2, 4, 5, last=5).has_lost(given)
    assert look(1, 4, last=4).has_lost(given)
    assert look(2, 4, last=4).has_lost(given)
    assert look(1, 2, last=3).has_lost(given)


@pytest.mark.parametrize(
    ("found", "is_endangered"),
    [
        (look(*range(1, 20), last=19), False),
        (look(*range(1, 22), last=21), True),
        (look(*range(1, 11), *range(12, 15), last=14), True),
        (look(*range(12, 15), last=14), True),
    ],
)
def test_a_position_that_a_restart_could_not_continue_from_is_endangered(
    found: StreamLook, is_endangered: bool
) -> None:
    assert found.endangers(look(*range(1, 11), last=10).position(10, 0)) is is_endangered
