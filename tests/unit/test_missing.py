"""The last line of a test run counts what was skipped because a server isn't installed."""

from __future__ import annotations

from tests.servers.missing import count_missing


def test_skipped_tests_are_counted_by_what_is_missing() -> None:
    postgres, redis = "Skipped: PostgreSQL is not installed", "Skipped: Redis is not installed"
    assert count_missing([postgres]) == "1 test was skipped: PostgreSQL is not installed"
    assert count_missing([postgres] * 12) == "12 tests were skipped: PostgreSQL is not installed"
    both = "3 tests were skipped: 1: PostgreSQL is not installed; 2: Redis is not installed"
    assert count_missing([redis, postgres, redis]) == both


def test_other_skips_are_not_counted() -> None:
    assert count_missing(["Skipped: SQLite alters no types"]) == ""
