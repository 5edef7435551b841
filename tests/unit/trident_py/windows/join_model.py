"""A join over time as a fold over the whole history of rows, as plain as can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attrs import frozen

from tests.unit.trident_py.windows.event_model import expected_watermark
from trident_py.windows.watermark import Watermark


class SideRow(NamedTuple):
    """A row: its side, its key, which is its partition too if the watermark is by key; a number; and its time."""

    side: int
    key: str | None
    number: int
    at: int | None


class Transaction(NamedTuple):
    now: int
    rows: Sequence[SideRow]


class Outcome(NamedTuple):
    """What a transaction gives: pairs and rows without a partner by number, and refused rows by number and reason."""

    joined: Sequence[tuple[int, int]]
    refused: Sequence[tuple[int, str]]


NONE = -1
"""The number of a missing partner."""


@frozen
class JoinModel:
    """A join over the history of all transactions; nothing is kept from one to the next."""

    within: int
    rules: tuple[Watermark, Watermark]
    kept: tuple[bool, bool]
    by_key: bool

    def outcome(self, history: Sequence[Transaction]) -> Outcome:
        """What the last transaction gives."""
        last, before = history[-1], [self.watermark(history[:-1], side) for side in (0, 1)]
        refused = [(row.number, why) for row in last.rows if (why := self.refusal(row, last.now, before))]
        earlier, accepted = list(self.accepted(history[:-1])), list(self.accepted(history))
        pairs = set(self.pairs(accepted)) - set(self.pairs(earlier))
        alone = set(self.alone(accepted, history)) - set(self.alone(earlier, history[:-1]))
        return Outcome(sorted(pairs | alone), sorted(refused))

    def accepted(self, history: Sequence[Transaction]) -> Iterator[SideRow]:
        for number, (now, rows) in enumerate(history):
            before = [self.watermark(history[:number], side) for side in (0, 1)]
            yield from (row for row in rows if not self.refusal(row, now, before))

    def pairs(self, rows: Sequence[SideRow]) -> Iterator[tuple[int, int]]:
        """The answer of a batch over all rows."""
        for left in rows:
            for right in rows:
                if (left.side, right.side) == (0, 1) and self.match(left, right):
                    yield left.number, right.number

    def match(self, left: SideRow, right: SideRow) -> bool:
        return left.key is not None and left.key == right.key and abs((left.at or 0) - (right.at or 0)) <= self.within

    def alone(self, rows: Sequence[SideRow], history: Sequence[Transaction]) -> Iterator[tuple[int, int]]:
        """The rows without a partner that nothing can match any more."""
        paired = {number for pair in self.pairs(rows) for number in pair}
        for row in rows:
            other = self.watermark(history, 1 - row.side)
            is_over = row.key is None or (other is not None and (row.at or 0) + self.within < other)
            if self.kept[row.side] and is_over and row.number not in paired:
                yield (row.number, NONE) if row.side == 0 else (NONE, row.number)

    def refusal(self, row: SideRow, now: int, before: Sequence[int | None]) -> str:
        if row.at is None:
            return "no timestamp"
        if row.at > now + self.rules[row.side].max_ahead:
            return "too far ahead"
        passed = before[row.side]
        return "late" if passed is not None and row.at < passed else ""

    def watermark(self, history: Sequence[Transaction], side: int) -> int | None:
        newest = []
        for now, rows in history:
            moving = [row for row in rows if row.side == side and row.at is not None]
            near = [row for row in moving if (row.at or 0) <= now + self.rules[side].max_ahead]
            names = [(str(row.key) if self.by_key else "", row.at or 0) for row in near]
            newest.append((now, dict(sorted(names))))  # the last of a name is its greatest
        return expected_watermark(self.rules[side], newest) if newest else None
