"""Results as JSON, as Markdown and as plots, always in files of the same names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from benchmarks.parts import Cell, Part, Table
from benchmarks.plots import svg
from benchmarks.sizes import Sizes


@frozen
class Report:
    """One run.

    Attributes:
        machine: where it ran; see `benchmarks.machine`.
        sizes: how much was measured.
        parts: the results by part.
    """

    machine: Mapping[str, Cell]
    sizes: Sizes
    parts: Mapping[str, Part]

    def summary(self) -> dict[str, Any]:
        """What stands in the last line: the numbers by which the suite is judged, and how they spread."""
        numbers: dict[str, Any] = {}
        spread: dict[str, float] = {}
        for part in self.parts.values():
            numbers |= {name: rounded(value) for name, value in part.numbers.items()}
            spread |= {name: rounded(value) for name, value in part.spread.items()}
        return numbers | {"zookeeper_round_ms": self.machine["zookeeper round, ms"], "spread": spread}

    def as_json(self) -> str:
        """All of it."""
        parts = {name: asdict(part) for name, part in self.parts.items()}
        everything = {"machine": self.machine, "sizes": asdict(self.sizes), "summary": self.summary(), "parts": parts}
        return json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def as_markdown(self) -> str:
        """All of it, for people; plots are linked by the names of their files."""
        return "\n".join(self._lines()) + "\n"

    def write(self, directory: Path) -> None:
        """``results.json``, ``results.md``, and a file for each plot."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "results.json").write_text(self.as_json(), encoding="utf-8")
        (directory / "results.md").write_text(self.as_markdown(), encoding="utf-8")
        for part in self.parts.values():
            for plot in part.plots:
                (directory / f"{plot.name}.svg").write_text(svg(plot), encoding="utf-8")

    def _lines(self) -> Iterator[str]:
        yield from ("# Results", "")
        yield from markdown(Table("The machine", [{"": name, "is": cell} for name, cell in self.machine.items()]))
        for name, part in self.parts.items():
            yield from ("", f"## {name}")
            for table in part.tables:
                yield ""
                yield from markdown(table)
            for plot in part.plots:
                yield from ("", f"![{plot.title}]({plot.name}.svg)")
            if part.notes:
                yield from ("", *(f"- {note}" for note in part.notes))


def rounded(value: float) -> float:
    """Four digits: nobody measures more."""
    return float(f"{value:.4g}")


def markdown(table: Table) -> Iterator[str]:
    """The lines of a table; numbers stand on the right."""
    headings = list(table.rows[0]) if table.rows else []
    yield from (f"**{table.title}**", "")
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join('---' if number == 0 else '--:' for number in range(len(headings)))}|"
    for row in table.rows:
        yield f"| {' | '.join(shown(row.get(heading)) for heading in headings)} |"


def shown(cell: Cell) -> str:
    """A cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell.replace("|", "\\|")
    return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{rounded(cell):g}"
