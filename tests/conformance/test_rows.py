"""The table of rows itself: complete, about tests that exist, and in the documentation as it is."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.conformance.rows import IDS, ROOT, Row, Verdict, documented, known_tests, rendered, rows

TUTORIAL = ROOT / "docs" / "tutorials" / "from-storm.md"
AHEAD = re.compile(r"(b\d+_\d+|I_\d+|[A-Z]+\d+)_")
"""An id at the beginning of a test's name: ``S12`` for a row, ``b1_8`` for a rule."""


def test_every_row_and_every_rule_is_there_once() -> None:
    assert Counter(row.id for row in rows()) == Counter(IDS)


def test_what_works_or_differs_has_a_test_and_what_is_missing_has_none() -> None:
    for row in rows():
        if row.verdict in (Verdict.WORKS, Verdict.DIFFERS):
            assert row.test, row.id
        if row.verdict is Verdict.NOT_YET:
            assert not row.test, row.id
        assert row.here or row.verdict is Verdict.WORKS, row.id


def test_tests_are_called_after_their_rows() -> None:
    shown_here = {_as_in_names(row) for row in rows() if row.test.startswith("tests/conformance/")}
    for name, (place, *_) in known_tests().items():
        if place.startswith("tests/conformance/") and not place.endswith("/test_rows.py"):
            ids = _ids(name.removeprefix("test_"))
            assert ids, f"{name} begins with no id of a row"
            assert ids <= shown_here, f"{name} begins with the id of a row that another test shows"
    for row in rows():
        if row.test.startswith("tests/conformance/test_") and not row.id.startswith(("b.", "I-", "STORM-")):
            assert _as_in_names(row) in _ids(row.test.partition("::test_")[2]), row


def _as_in_names(row: Row) -> str:
    return row.id.replace("b.", "b").replace("-", "_")


def _ids(name: str) -> set[str]:
    found = AHEAD.match(name)
    return {found[1]} | _ids(name[found.end() :]) if found else set()


def test_the_documentation_has_the_rows_as_they_are() -> None:
    assert documented() == rendered(), "run `python -m tests.conformance`"


def test_the_word_count_of_the_documentation_can_be_declared() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.partition("\nwith topology.start")[0], names)  # noqa: S102 - ours
    assert names["counts"].name == "counts"
    assert "new_drpc_stream('count')" in names["topology"].explain()
