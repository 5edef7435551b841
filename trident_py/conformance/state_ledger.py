"""What a reader may see of a state: one value for each key, which every transaction goes on from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

from coordinators.values.attempt import CommitToken
from trident_py.conformance.ledger import Broken, Ledger, Outcome, Row, listed
from trident_py.conformance.report import Rule

Values = Mapping[Row, Any]

RECENT = 8
"""The commits that are looked at to tell why values are wrong."""


@define
class StateLedger(Ledger):
    """Follows one state.

    Attributes:
        accumulator: the values by key after some rows, given those before.
    """

    accumulator: Callable[[Values, Sequence[Row]], Values] = field(kw_only=True)

    def changed(self, before: Counter[Row], rows: Sequence[Row]) -> Counter[Row]:
        """What a reader sees after a transaction with these rows."""
        values = self.accumulator({row[:-1]: row[-1] for row in before}, rows)
        return Counter((*key, value) for key, value in values.items())

    def begun(self, token: CommitToken, rows: Sequence[Row]) -> None:
        """A commit is called: where its transaction is there already, it may be replaced by what this attempt has."""
        again = [each for each in self.outcomes if each.last == token.txid] if token.epoch >= self.fence else []
        super().begun(token, rows)
        self._rows[token] = rows
        while len(self._rows) > RECENT:
            del self._rows[next(iter(self._rows))]
        for each in again:
            after = self.changed(each.before, rows)
            if not any(known.last == token.txid and known.rows == after for known in self.outcomes):
                self.outcomes.append(Outcome(token.txid, frozenset([token]), after, each.before))

    def answered(self, token: CommitToken) -> None:
        """A commit has returned."""
        super().answered(token)
        rows = self._rows[token]
        done = [each for each in self.outcomes if each.rows == self.changed(each.before, rows)]
        self.outcomes = [each for each in done if token in each.tokens] or self.outcomes

    _rows: dict[CommitToken, Sequence[Row]] = field(factory=dict, init=False)

    def _explained(self, rows: Counter[Row], among: Sequence[Outcome]) -> Broken:
        """The rule that values break which are none of these outcomes."""
        newest = among[-1]
        seen = "; ".join(
            f"{what} {listed(each)}"
            for what, each in (("a reader sees", rows - newest.rows), ("and should see", newest.rows - rows))
            if each
        )
        return Broken(self._rule(rows, among), seen)

    def _rule(self, rows: Counter[Row], among: Sequence[Outcome]) -> Rule:
        late = [(token, its) for token, its in self._rows.items() if token.epoch < self.fence]
        for outcome in among:
            if any(rows == self.changed(outcome.rows, its) for token, its in late if token.txid > outcome.last):
                return Rule.FENCED
            if any(rows == self.changed(outcome.rows, its) for its in [*self._rows.values()][-4:]):
                return Rule.COMMITTED_ONCE
            if rows == outcome.before and outcome.last:
                return Rule.COMMITTED_STAYS
        newest = among[-1]
        if set(rows) <= set(newest.rows) | set(newest.before) and rows != newest.rows:
            return Rule.ALL_OR_NOTHING
        return Rule.COMMITTED_ONCE
