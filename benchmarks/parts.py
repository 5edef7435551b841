"""What a part of the suite gives: tables, plots, and the numbers by which it is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from benchmarks.bends import Point

Cell = str | float | None


@frozen
class Table:
    """Rows under the same headings.

    Attributes:
        title: what it shows, with what was done.
        rows: each by heading; all have the headings of the first.
    """

    title: str
    rows: Sequence[Mapping[str, Cell]]


@frozen
class Plot:
    """Lines on logarithmic axes.

    Attributes:
        name: of the file, without its suffix.
        title: above it.
        x: what the x axis shows.
        y: what the y axis shows.
        lines: points by the line's name; x rising, all above zero.
    """

    name: str
    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[Point]]


@frozen
class Part:
    """The results of one part.

    Attributes:
        tables: for people.
        plots: for people.
        numbers: by name, as they stand in the last line of the output.
        spread: for those numbers that come from rounds, the highest over the lowest of all rounds.
        notes: sentences about the results.
    """

    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    numbers: Mapping[str, float] = field(factory=dict)
    spread: Mapping[str, float] = field(factory=dict)
    notes: Sequence[str] = ()
