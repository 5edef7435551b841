"""The stored form of bad rows."""

from __future__ import annotations

import json

from coordinators.record.bad_rows import BadRow, bad_rows_json, bad_rows_of


def bad(branch: str, hashed: int, error: str) -> BadRow:
    return BadRow(branch=branch, spout="s", hash=hashed, operation="map(f)", error=error)


def test_bad_rows_come_back_as_they_were_and_a_text_is_stored_once() -> None:
    rows = (bad("a", 2**64 - 1, "too long"), bad("b", 7, "too long"), bad("b", 7, "s"))
    stored = json.dumps(bad_rows_json(rows))
    assert bad_rows_of(json.loads(stored)) == rows
    assert (stored.count("too long"), stored.count("map(f)")) == (1, 1)
