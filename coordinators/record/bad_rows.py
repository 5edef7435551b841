"""Bad rows: rows of a spout over which a row function raised, and which a branch leaves out. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


def bad_rows_json(rows: Sequence[BadRow]) -> list[dict[str, Json]]:
    """Return the stored form of ``rows``, by branch and spout; each part fits into one write."""
    found: dict[tuple[str, str], list[BadRow]] = {}
    for each in rows:
        found.setdefault((each.branch, each.spout), []).append(each)
    return [_part(branch, spout, part) for (branch, spout), part in found.items()]


def _part(branch: str, spout: str, rows: Sequence[BadRow]) -> dict[str, Json]:
    """Return the stored form of the rows of one branch and spout; a text that many of them share is stored once."""
    texts: dict[str, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    places: list[Json] = [[each.hash, place(each.operation), place(each.error)] for each in rows]
    return {"branch": branch, "spout": spout, "texts": list(texts), "rows": places}


def bad_rows_of(parts: Iterable[Mapping[str, Any]]) -> tuple[BadRow, ...]:
    """Return the rows that were stored as ``parts``.

    Raises:
        IndexError, KeyError, TypeError, ValueError: that is not their stored form.
    """
    return tuple(
        BadRow(
            branch=part["branch"],
            spout=part["spout"],
            hash=hashed,
            operation=part["texts"][operation],
            error=part["texts"][error],
        )
        for part in parts
        for hashed, operation, error in part["rows"]
    )
