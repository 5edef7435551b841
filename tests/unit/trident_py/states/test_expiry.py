"""Which keys have expired, by the times of transactions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import TopologyError
from trident_py.states.fenced import PORTION_KEYS, Expiry, WriteTimes, checked_ttl, milliseconds, portion


def test_without_a_ttl_nothing_expires() -> None:
    expiry = Expiry().after(1_000, None)
    assert expiry == Expiry()
    assert not expiry.has_expired(1)
    assert not expiry.has_expired(None)


def test_a_key_expires_when_it_was_not_written_for_so_long() -> None:
    expiry = Expiry().after(1_000, 100)
    assert [expiry.has_expired(at) for at in (899, 900, 901, None)] == [True, True, False, False]


def test_a_key_without_a_time_counts_as_written_by_the_first_transaction_with_a_ttl() -> None:
    expiry = Expiry().after(1_000, 100).after(1_099, 100)
    assert not expiry.has_expired(None)
    assert expiry.after(1_100, 100).has_expired(None)


def test_what_has_expired_stays_so_with_a_longer_ttl_and_without_one_and_when_time_goes_back() -> None:
    expiry = Expiry().after(1_000, 100)
    for later in (expiry.after(1_001, 500), expiry.after(1_001, None), expiry.after(950, 100)):
        assert later.has_expired(900)
        assert not later.has_expired(902)


def test_a_transaction_that_is_only_passed_over_has_no_time() -> None:
    assert Expiry().after(0, 100) == Expiry()


@pytest.mark.parametrize("wrong", [0, 1.5, "1 day", timedelta(0), timedelta(microseconds=999), timedelta(days=-1)])
def test_a_ttl_is_a_length_of_time(wrong: Any) -> None:
    with pytest.raises(TopologyError, match=r"timedelta\(days=30\)"):
        checked_ttl(wrong)


def test_a_ttl_is_kept_in_milliseconds() -> None:
    assert milliseconds(checked_ttl(timedelta(days=1, milliseconds=1))) == 86_400_001
    assert milliseconds(checked_ttl(None)) is None


def test_a_transaction_deletes_more_than_it_writes() -> None:
    assert portion(0) == PORTION_KEYS
    assert all(portion(written) > written for written in (1, 10_000, 10_000_000))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(1, 9)), max_size=40), st.integers(0, 9))
def test_keys_come_in_the_order_of_their_last_times_and_then_by_name(
    writes: list[tuple[str, int | None]], upto: int
) -> None:
    times, model = WriteTimes(), dict[str, int | None]()
    for key, now in writes:
        times.move(key, model.get(key), now)
        model[key] = now
    assert list(times.upto(upto)) == sorted((at, key) for key, at in model.items() if at is not None and at <= upto)
    assert list(times.upto(None)) == []
