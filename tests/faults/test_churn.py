"""What is left of words that go where nothing happens: what the faults under a ``ttl`` are compared with."""

from __future__ import annotations

from collections import Counter

from tests.faults.churn import TTL, alive

TTL_MS = int(TTL.total_seconds() * 1000)


def test_a_word_goes_with_the_first_transaction_that_is_a_ttl_later_and_begins_anew() -> None:
    words = Counter({"a": 2, "b": 1})
    assert alive([(1000, words), (1001, Counter("b"))]) == {"a": 2, "b": 2}
    assert alive([(1000, words), (1000 + TTL_MS - 1, Counter("b"))]) == {"a": 2, "b": 2}
    assert alive([(1000, words), (1000 + TTL_MS, Counter("b"))]) == {"b": 1}
    assert alive([(1000, words), (1001, Counter("b")), (1000 + TTL_MS, Counter("c"))]) == {"b": 2, "c": 1}
