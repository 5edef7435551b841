"""`Bisection`: finds the rows of a batch that make it fail, with few trials. Pure.

A trial processes some of the rows, and passes or fails. More rows are assumed to fail if some of them do; the result
holds in any case, because each of its claims was tried.

The search finds the shortest beginning of the rows that fails, by halves. Its last row is needed. Rows before it may be
needed, too, as for an aggregate that fails only over two rows together. So the search goes on among these, with the
needed rows in each trial, until they fail alone. They are one cause. The search starts again without them, until the
other rows pass.

Whether all rows fail together is tried only if no beginning of them fails. So a single bad row of n takes at most
log2(n) + 2 trials, rounded up: the halves, the row alone, and all others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias

from attrs import define, field

Rows: TypeAlias = tuple[int, ...]
"""Rows by their numbers, rising."""


@define
class Bisection:
    """One search among the rows 0 to ``rows - 1``.

    Attributes:
        rows: how many there are.
        trial: the rows to try next; None: the search is over.
        failing: the rows that fail, once the search is over; the others pass. Empty: all rows together pass.
        trials: how many trials were made.
    """

    rows: int
    trial: Rows | None = field(default=None, init=False)
    failing: Rows = field(default=(), init=False)
    trials: int = field(default=0, init=False)
    _search: Generator[Rows, bool, Rows] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._search = _all_causes(self.rows)
        self.trial = next(self._search)

    def take(self, fails: bool) -> None:
        """Take the result of the trial."""
        self.trials += 1
        try:
            self.trial = self._search.send(fails)
        except StopIteration as end:
            self.trial, self.failing = None, end.value


def _all_causes(rows: int) -> Generator[Rows, bool, Rows]:
    """Yield trials, and return the rows of all causes."""
    found: set[int] = set()
    left, passing, fails = tuple(range(rows)), 0, False
    while left:
        cause, passing = yield from _one_cause(left, passing, fails)
        found |= set(cause)
        left = tuple(row for row in left if row not in found)
        fails = bool(cause and left and (yield left))
        if not fails:
            break
    return tuple(sorted(found))


def _one_cause(rows: Rows, passing: int, fails: bool) -> Generator[Rows, bool, tuple[Rows, int]]:
    """Yield trials of ``rows``; return a cause among them, and how many of the first others pass. No cause: all pass.

    Args:
        rows: that may fail.
        passing: how many of the first ones pass.
        fails: whether it is known that all of them fail.
    """
    needed, before = [], rows
    while True:
        length = yield from _shortest(before, needed, 0 if needed else passing)
        if not needed:
            passing, fails = length - 1, fails or length < len(rows)
        needed.append(before[length - 1])
        before = before[: length - 1]
        if (fails and not before) or (yield tuple(sorted(needed))):
            return tuple(sorted(needed)), passing - len(needed) + 1
        if not before or not (fails or (yield rows)):
            return (), len(rows)
        fails = True


def _shortest(rows: Rows, needed: Sequence[int], passing: int) -> Generator[Rows, bool, int]:
    """Yield trials; return the length of the shortest beginning of ``rows`` that fails together with ``needed``.

    The first ``passing`` rows pass with ``needed``, and all of them fail, as far as is known.
    """
    failing = len(rows)
    while failing - passing > 1:
        middle = (passing + failing) // 2
        if (yield tuple(sorted((*rows[:middle], *needed)))):
            failing = middle
        else:
            passing = middle
    return failing
