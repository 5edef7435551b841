"""`Bisection`: finds the rows of a batch that make it fail, with few trials. Pure.

A trial processes some of the rows, and passes or fails. More rows are assumed to fail if some of them do; the result
holds in any case, because each of its claims was tried.

The search finds the shortest beginning of the rows that fails, by halves. Its last row is needed. Rows before it may be
needed, too, as for an aggregate that fails only over two rows together. So the search continues among these, with
the needed rows in each trial, until they fail alone. They are one cause. The search starts again without them, until
the other rows pass.

Whether all rows fail together is tried only if no beginning of them fails. So a single bad row of n takes at most
log2(n) + 2 trials, rounded up: the halves, the row alone, and all others.
"""

from __future__ import annotations

from enum import Enum

from attrs import define, field

from coordinators.record.parking import Runs, beginning, joined, runs_of, selected, size_of, without


class Question(Enum):
    """The question that a trial answers."""

    BEGINNING = "does this beginning of the rows fail, with the needed ones?"
    ALONE = "do the needed rows fail alone?"
    ALL = "do all rows fail together?"
    OTHERS = "do the rows fail without those that were found?"


# large: one search with one entry point, and a field for each thing that it knows
@define
class Bisection:
    """One search among the rows 0 to ``rows - 1``.

    Attributes:
        rows: how many there are.
        known: rows that are known to fail, each alone.
        trial: the rows to try next; None: the search is over.
        trials: how many trials were made, by which its promise is tested.
        found: the rows of all causes so far. Once the search is over, the others pass.
    """

    rows: int
    known: tuple[int, ...] = ()
    trial: Runs | None = field(default=None, init=False)
    trials: int = field(default=0, init=False)
    found: tuple[int, ...] = field(default=(), init=False)
    _asks: Question = field(default=Question.BEGINNING, init=False)
    _left: Runs = field(default=(), init=False)  # without those that were found
    _passing: int = field(default=0, init=False)  # so many of the first ones of them pass
    _fails: bool = field(default=False, init=False)  # whether it is known that all of them fail
    _needed: tuple[int, ...] = field(default=(), init=False)  # the rows of the present cause
    _before: Runs = field(default=(), init=False)  # the rows before them, among which the other rows of it are
    _low: int = field(default=0, init=False)  # so many of the first of these pass, with the needed ones
    _high: int = field(default=0, init=False)  # so many fail, as far as is known

    def __attrs_post_init__(self) -> None:
        self._left, self._needed = ((0, self.rows),), self.known
        if self.known:
            self._end_cause()
        else:
            self._search(self._left, self._passing)

    def take(self, *, fails: bool) -> None:
        """Take the answer of the trial."""
        self.trials += 1
        match self._asks, fails:
            case Question.BEGINNING, True:
                self._high = (self._low + self._high) // 2
                self._fails = True
                self._halve()
            case Question.BEGINNING, False:
                self._low = (self._low + self._high) // 2
                self._halve()
            case Question.ALONE, True:
                self._end_cause()
            case Question.ALONE, False:
                self._widen()
            case Question.ALL, True:
                self._fails = True
                self._search(self._before, 0)
            case Question.OTHERS, True:
                self._fails, self._needed = True, ()
                self._search(self._left, self._passing)
            case _:
                self.trial = None

    def _ask(self, question: Question, rows: Runs) -> None:
        self._asks, self.trial = question, rows

    def _search(self, rows: Runs, passing: int) -> None:
        """Search the shortest beginning of ``rows`` that fails with the needed ones; ``passing`` rows of it pass."""
        self._before, self._low, self._high = rows, passing, size_of(rows)
        self._halve()

    def _halve(self) -> None:
        if self._high - self._low > 1:
            first = beginning(self._before, (self._low + self._high) // 2)
            self._ask(Question.BEGINNING, joined((*first, *runs_of(self._needed))))
            return
        if not self._needed:
            self._passing = self._high - 1
        last = selected(self._before, ((self._high - 1, self._high),))
        self._needed = (*(first for first, _ in last), *self._needed)
        self._before = beginning(self._before, self._high - 1)
        if self._fails and not self._before:
            self._end_cause()
        else:
            self._ask(Question.ALONE, runs_of(self._needed))

    def _widen(self) -> None:
        """Search further rows of the present cause, if there is one."""
        if not self._before:
            self.trial = None
        elif self._fails:
            self._search(self._before, 0)
        else:
            self._ask(Question.ALL, self._left)

    def _end_cause(self) -> None:
        self.found = tuple(sorted({*self.found, *self._needed}))
        self._left = without(self._left, self._needed)
        self._passing = max(0, self._passing - len(self._needed) + 1)
        if self._left:
            self._ask(Question.OTHERS, self._left)
        else:
            self.trial = None
