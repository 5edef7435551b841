"""Where a line on logarithmic axes first changes its direction, and what that means."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

TOLERANCE = 0.35
"""How far a slope may be from the one before: measurements of the same thing differ by less."""

Point = tuple[float, float]


@frozen
class Bend:
    """The first bend of a line.

    Attributes:
        x: from here on the line goes elsewhere.
        before: the slope of the line up to there, on logarithmic axes: 0 is flat, 1 is proportional.
        after: the slope of the piece that follows.
    """

    x: float
    before: float
    after: float

    def __str__(self) -> str:
        return f"{kind(self.before)} up to {self.x:,.0f}, then {kind(self.after)}"


def slope(first: Point, last: Point) -> float:
    """The slope between two points, on logarithmic axes."""
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def kind(slope: float) -> str:
    """What such a slope is called."""
    names = ((-TOLERANCE, "falling"), (TOLERANCE, "flat"), (1 - TOLERANCE, "growing less than in proportion"))
    for limit, name in names:
        if slope < limit:
            return name
    return "growing in proportion" if slope <= 1 + TOLERANCE else "growing more than in proportion"


def first_bend(points: Sequence[Point], tolerance: float = TOLERANCE) -> Bend | None:
    """The first point whose next piece has another slope, by another name, than the line up to it; None without one.

    Args:
        points: x and y above zero, x rising.
        tolerance: how much the slopes may differ.
    """
    for number in range(1, len(points) - 1):
        before = slope(points[0], points[number])
        after = slope(points[number], points[number + 1])
        if abs(after - before) > tolerance and kind(before) != kind(after):
            return Bend(points[number][0], before, after)
    return None


def described(points: Sequence[Point]) -> str:
    """The first bend in words; without one, how the whole line goes."""
    if len(points) < 2:
        return "too few points"
    bend = first_bend(points)
    return str(bend) if bend else f"{kind(slope(points[0], points[-1]))} throughout"
