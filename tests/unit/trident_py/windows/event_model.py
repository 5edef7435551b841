"""Windows by event time as a fold over the whole history of rows, as plain as can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from attrs import frozen

from trident_py.windows.watermark import Watermark
from trident_py.windows.windows import DurationWindow, SessionWindow

History = Sequence[tuple[int, Mapping[str, int]]]
"""For each transaction its time, and the greatest event time of each partition that has rows in it."""


def expected_watermark(watermark: Watermark, history: History) -> int | None:
    """The greatest value that the definition has given at any moment."""
    steps = [(now, 1, number) for number, (now, _) in enumerate(history)]
    if watermark.idle is not None:
        steps += [(now + watermark.idle, 0, -1) for now, _ in history]
    found = []
    for time, comes, number in sorted(steps):
        if time > history[-1][0]:
            break
        so_far = history[: number + 1] if comes else [each for each in history if each[0] < time]
        if active := list(greatest(so_far, time, watermark.idle)):
            found.append(min(active) - watermark.delay)
    return max(found, default=None)


def greatest(history: History, time: int, idle: int | None) -> Iterator[int]:
    """The greatest event time of each partition that isn't idle at ``time``, since it was idle last."""
    for name in {name for _, newest in history for name in newest}:
        run: list[int] = []
        last = None
        for now, newest in history:
            if name in newest:
                run = run if last is None or idle is None or now - last < idle else []
                run, last = [*run, newest[name]], now
        if last is not None and (idle is None or time - last < idle):
            yield max(run)


class ModelRow(NamedTuple):
    """A row: its key, which is its partition too if the watermark is by key; a number; and its time."""

    key: str
    number: int
    at: int | None


class Transaction(NamedTuple):
    now: int
    rows: Sequence[ModelRow]


class Window(NamedTuple):
    start: int
    end: int
    key: str
    numbers: tuple[int, ...]


class Outcome(NamedTuple):
    """What a transaction gives: the windows that fire, and the rows that it refuses, by number and reason."""

    fired: Sequence[Window]
    refused: Sequence[tuple[int, str]]


@frozen
class Model:
    """Windows over the history of all transactions; nothing is kept from one to the next."""

    window: DurationWindow | SessionWindow
    rules: Watermark
    by_key: bool
    keyed: bool

    @property
    def grain(self) -> int:
        return self.window.gap_micros // 32 if isinstance(self.window, SessionWindow) else self.window.slide_micros

    def outcome(self, history: Sequence[Transaction]) -> Outcome:
        """What the last transaction gives."""
        before, after = self.bound(history[:-1]), self.bound(history)
        refused = [(row.number, why) for row in history[-1].rows if (why := self.refusal(row, history[-1].now, before))]
        fired = [
            each
            for each in self.windows(self.accepted(history))
            if self.is_closed(each, after) and not self.is_closed(each, before)
        ]
        return Outcome(sorted(fired), refused)

    def accepted(self, history: Sequence[Transaction]) -> list[ModelRow]:
        return [
            row
            for number, (now, rows) in enumerate(history)
            for row in rows
            if not self.refusal(row, now, self.bound(history[:number]))
        ]

    def windows(self, rows: Sequence[ModelRow]) -> list[Window]:
        """The answer of a batch over all rows."""
        found = []
        for key in sorted({row.key for row in rows} if self.keyed else {""}):
            of_key = [(row.at or 0, row.number) for row in rows if not self.keyed or row.key == key]
            timed = sorted(of_key, key=lambda row: row[0])
            found += [Window(start, end, key, tuple(n for _, n in each)) for start, end, each in self.cut(timed)]
        return found

    def cut(self, timed: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, Sequence[tuple[int, int]]]]:
        if isinstance(self.window, SessionWindow):
            gap = self.window.gap_micros
            if not timed:
                return
            breaks = [number for number, (one, two) in enumerate(pairwise(timed), 1) if two[0] > one[0] + gap]
            for first, last in pairwise([0, *breaks, len(timed)]):
                yield timed[first][0], timed[last - 1][0] + gap, timed[first:last]
            return
        length, slide = self.window.length_micros, self.window.slide_micros
        ends = {(at // slide + 1 + more) * slide for at, _ in timed for more in range(length // slide + 1)}
        for end in sorted(ends):
            if inside := [each for each in timed if end - length <= each[0] < end]:
                yield end - length, end, inside

    def refusal(self, row: ModelRow, now: int, bound: int | None) -> str:
        if row.at is None:
            return "no timestamp"
        if row.at > now + self.rules.max_ahead:
            return "too far ahead"
        return "late" if bound is not None and row.at < bound else ""

    def bound(self, history: Sequence[Transaction]) -> int | None:
        newest = []
        for now, rows in history:
            moving = [row for row in rows if row.at is not None and row.at <= now + self.rules.max_ahead]
            names = [(row.key if self.by_key else "", row.at or 0) for row in moving]
            newest.append((now, dict(sorted(names))))  # the last of a name is its greatest
        watermark = expected_watermark(self.rules, newest) if newest else None
        return None if watermark is None else watermark // self.grain * self.grain

    def is_closed(self, window: Window, bound: int | None) -> bool:
        if bound is None:
            return False
        return window.end < bound if isinstance(self.window, SessionWindow) else window.end <= bound
