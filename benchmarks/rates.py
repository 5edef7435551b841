"""The table of a race over files: rows a second, and how they compare."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.parts import Cell, Table
from benchmarks.rounds import Measured
from benchmarks.workloads import Inputs


def rates(title: str, inputs: Inputs, results: Mapping[str, Measured], *against: str) -> Table:
    """Who did how much, and how that compares with those competitors of ``against`` that took part."""
    rows = inputs.timed * inputs.rows

    def row(name: str, result: Measured) -> dict[str, Cell]:
        compared = {f"× {base}": result.over(results[base]).ratio for base in against if base in results}
        return {
            "": name,
            "rows/s": rows / result.median,
            "ms a batch": 1000 * result.median / inputs.timed,
            **compared,
            "spread": result.spread,
        }

    return Table(title, [row(name, result) for name, result in results.items()])
