"""The stored form of bad rows."""

from __future__ import annotations

import json

from coordinators.record.bad_rows import BadRow, bad_rows_json, bad_rows_of


def bad(branch: str, hashed: int, error: str) -> BadRow:
    return BadRow(branch=branch, spout="s", hash=hashed, operation="map(f)", error=error)


def test_bad_rows_come_back_as_they_were_and_a_branch_stores_a_text_once() -> None:
    rows = (bad("a", 2**64 - 1, "too long"), bad("b", 7, "too long"), bad("b", 7, "s"), bad("b", 8, "too long"))
    stored = json.dumps(bad_rows_json(rows))
    assert bad_rows_of(json.loads(stored)) == rows
    assert (stored.count("too long"), stored.count("map(f)")) == (2, 2)
