"""Bad rows: rows of a spout over which a row function raised, and which a branch leaves out. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from coordinators.values.canonical import Json


@frozen(kw_only=True)
class BadRow:
    """A row that one branch leaves out of a batch.

    Equal rows are interchangeable, so a row is identified by its hash: the order of the rows may change in a replay. If
    two of three equal rows are bad, there are two of these objects.

    Attributes:
        branch: the name of the state or sink at its end.
        spout: that emitted the row.
        hash: of the row, an unsigned 64-bit number.
        operation: the row function that raised, as text.
        error: that it raised, as text.
    """

    branch: str
    spout: str
    hash: int
    operation: str
    error: str


def bad_rows_json(rows: Sequence[BadRow]) -> dict[str, Json]:
    """Return the stored form of ``rows``; a text that many of them share is stored once."""
    texts: dict[str, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    places: list[Json] = [
        [place(each.branch), place(each.spout), each.hash, place(each.operation), place(each.error)] for each in rows
    ]
    return {"texts": list(texts), "rows": places}


def bad_rows_of(body: Mapping[str, Any]) -> tuple[BadRow, ...]:
    """Return the rows that were stored as ``body``.

    Raises:
        IndexError, KeyError, TypeError, ValueError: ``body`` is not their stored form.
    """
    texts = body["texts"]
    return tuple(
        BadRow(branch=texts[branch], spout=texts[spout], hash=hashed, operation=texts[operation], error=texts[error])
        for branch, spout, hashed, operation, error in body["rows"]
    )
