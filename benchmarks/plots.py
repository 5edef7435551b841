"""Line charts on logarithmic axes, as SVG that can be read on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from attrs import frozen

from benchmarks.bends import Point, first_bend
from benchmarks.parts import Plot

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 190, 48, 56
COLORS = ("#2f7ed8", "#e07b00", "#2a9d5c", "#c23b75", "#8a63d2", "#7f8c1f")
"""Each has enough contrast on white and on near-black."""

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-size: 15px; font-weight: 600 }
.grid { stroke: #8884; stroke-width: 1 }
.axis { stroke: #888; stroke-width: 1; fill: none }
.line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } }
"""


@frozen
class Axis:
    """A logarithmic axis.

    Attributes:
        low: the power of ten at ``start``.
        high: the power of ten at ``end``.
        start: pixels.
        end: pixels.
    """

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> Axis:
        """The axis that has room for ``values``."""
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def at(self, value: float) -> float:
        """Where ``value`` is, in pixels."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """The powers of ten; with 2 and 5 of each where those are few."""
        steps = (1, 2, 5) if self.high - self.low < 3 else (1,)
        found = [step * 10.0**power for power in range(self.low, self.high + 1) for step in steps]
        return [value for value in found if value <= 10.0**self.high]


def number(value: float) -> str:
    """A tick's label."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def svg(plot: Plot) -> str:
    """The chart; every line's first bend is a ring."""
    points = [point for line in plot.lines.values() for point in line]
    x = Axis.over([point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = Axis.over([point[1] for point in points], HEIGHT - BOTTOM, TOP)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(plot.title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="26">{escape(plot.title)}</text>',
        *_axes(plot, x, y),
    ]
    for place, (name, line) in enumerate(plot.lines.items()):
        drawn += _line(name, line, place, x, y)
    return "\n".join([*drawn, "</svg>", ""])


def _axes(plot: Plot, x: Axis, y: Axis) -> Iterator[str]:
    for value in x.ticks():
        at = x.at(value)
        yield f'<path class="grid" d="M{at} {y.start}V{y.end}"/>'
        yield f'<text x="{at}" y="{y.start + 18}" text-anchor="middle">{number(value)}</text>'
    for value in y.ticks():
        at = y.at(value)
        yield f'<path class="grid" d="M{x.start} {at}H{x.end}"/>'
        yield f'<text x="{x.start - 8}" y="{at + 4}" text-anchor="end">{number(value)}</text>'
    yield f'<path class="axis" d="M{x.start} {y.end}V{y.start}H{x.end}"/>'
    middle, side = (x.start + x.end) / 2, (y.start + y.end) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">{escape(plot.x)}</text>'
    yield f'<text transform="translate(20 {side}) rotate(-90)" text-anchor="middle">{escape(plot.y)}</text>'


def _line(name: str, line: Sequence[Point], place: int, x: Axis, y: Axis) -> Iterator[str]:
    color = COLORS[place % len(COLORS)]
    places = [(x.at(first), y.at(second)) for first, second in line]
    way = " ".join(f"{left},{top}" for left, top in places)
    yield f'<polyline class="line" stroke="{color}" points="{way}"/>'
    yield from (f'<circle cx="{left}" cy="{top}" r="3" fill="{color}"/>' for left, top in places)
    bend = first_bend(line)
    if bend:
        left, top = places[[point[0] for point in line].index(bend.x)]
        yield f'<circle cx="{left}" cy="{top}" r="8" fill="none" stroke="{color}"/>'
    legend = TOP + 20 * place
    yield f'<path class="line" stroke="{color}" d="M{x.end + 14} {legend}h18"/>'
    yield f'<text x="{x.end + 38}" y="{legend + 4}">{escape(name)}</text>'
