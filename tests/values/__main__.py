"""Writes the table of docs/reference/values.md from what each store refuses: ``python -m tests.values``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.values.odd import ODD
from tests.values.store import REFUSED, refusals

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "values.md"
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"


def stores() -> list[str]:
    """Return the names of all stores that have a file, in order."""
    return sorted(path.stem for path in REFUSED.glob("*.json"))


def table() -> str:
    """Return the table: a row a type, a column a store; the reasons of refusals are notes below it."""
    notes: list[str] = []
    lines = [f"| type | {' | '.join(stores())} |", f"|---|{'---|' * len(stores())}"]
    lines += [f"| `{ddl}` | {' | '.join(_cell(store, ddl, notes) for store in stores())} |" for ddl in ODD]
    return "\n".join([*lines, "", *[f"{number}. {note}" for number, note in enumerate(notes, 1)]])


def _cell(store: str, ddl: str, notes: list[str]) -> str:
    refused = refusals(store).get(ddl, {})
    if not refused:
        return "equal"
    note = refused if isinstance(refused, str) else _values_of(refused)
    if note not in notes:
        notes.append(note)
    mark = f"<sup>{notes.index(note) + 1}</sup>"
    return f"refused{mark}" if isinstance(refused, str) else f"equal{mark}"


def _values_of(refused: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for value, reason in refused.items():
        by_reason.setdefault(reason, []).append(value)
    return "; ".join(f"refuses {', '.join(values)}: {reason}" for reason, values in by_reason.items())


def page() -> str:
    """Return the page with the table as it is now."""
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
