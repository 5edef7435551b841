"""The page of values says what the tests of values check."""

from __future__ import annotations

from tests.values.__main__ import PAGE, page


def test_the_page_has_the_table_as_the_tests_have_it() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.values`"
