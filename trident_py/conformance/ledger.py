"""The rows that a reader may see in a store, derived from calls and their answers. Pure.

A commit without an answer may have happened or not, so several outcomes are possible at a time. Answers, recoveries and
reads exclude some of them. When no outcome is left, a rule was broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from coordinators.values.attempt import CommitToken
from trident_py.conformance.report import Rule

Row: TypeAlias = tuple[Any, ...]


@frozen
class Outcome:
    """A possible outcome.

    Attributes:
        last: the last committed transaction; 0 if no transaction is committed.
        tokens: the tokens of the attempts that may have committed it.
        rows: all rows that a reader then sees.
        before: the rows that a reader saw before the last transaction.
    """

    last: int
    tokens: frozenset[CommitToken]
    rows: Counter[Row] = field(eq=False)
    before: Counter[Row] = field(eq=False, factory=Counter)


def merged(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes without duplicates; equal ones join their tokens."""
    found: list[Outcome] = []
    for each in outcomes:
        what = each.last, each.rows, each.before
        place = next((place for place, known in enumerate(found) if (known.last, known.rows, known.before) == what), -1)
        if place < 0:
            found.append(each)
        else:
            found[place] = evolve(each, tokens=each.tokens | found[place].tokens)
    return found


@frozen
class Broken:
    """A broken rule, and the observation that breaks it."""

    rule: Rule
    seen: str


@define
class Ledger:
    """Follows one store.

    Attributes:
        outcomes: the possible outcomes.
        fence: the epoch of the newest leader that has recovered; commits of older leaders must have no effect any more.
        keys: the positions of the fields by which a row replaces another; none: rows are added.
    """

    outcomes: list[Outcome] = field(factory=lambda: [Outcome(0, frozenset(), Counter())])
    fence: int = 0
    keys: tuple[int, ...] = ()
    _owners: dict[Row, CommitToken] = field(factory=dict)
    _begun: set[CommitToken] = field(factory=set)
    _given_up: set[CommitToken] = field(factory=set)

    @property
    def last(self) -> int:
        """The last transaction that is certainly committed."""
        return min(outcome.last for outcome in self.outcomes)

    @property
    def in_doubt(self) -> bool:
        """Whether several outcomes are possible, so that only a read can decide."""
        return len(self.outcomes) > 1

    def given(self, token: CommitToken, rows: Iterable[Row]) -> None:
        """Record the rows of an attempt; no other attempt has them."""
        for row in rows:
            self._owners.setdefault(row, token)

    def given_up(self, token: CommitToken) -> None:
        """Record that this attempt will never be committed."""
        self._given_up.add(token)

    def begun(self, token: CommitToken, rows: Sequence[Row]) -> None:
        """Record the call of a commit."""
        self._begun.add(token)
        if token.epoch < self.fence:
            return
        for outcome in list(self.outcomes):
            if outcome.last == token.txid - 1:
                after = self.changed(outcome.rows, rows)
                self.outcomes.append(Outcome(token.txid, frozenset([token]), after, outcome.rows))
        same = [each for each in self.outcomes if each.last == token.txid]
        # If it is committed already, the sink may keep the older token or store this one.
        self.outcomes = [each for each in self.outcomes if each.last != token.txid] + merged(
            evolve(each, tokens=each.tokens | {token}) for each in same
        )

    def leaves_out(self, token: CommitToken) -> None:
        """Record the call of a commit that leaves the transaction out: earlier attempts lose their rows, too."""
        self.replaces(token, ())

    def left_out(self, token: CommitToken) -> None:
        """Record that a commit that leaves its transaction out has returned."""
        self.replaced(token)

    def replaces(self, token: CommitToken, rows: Sequence[Row]) -> None:
        """Record the call of a commit that replaces the rows of earlier attempts of the transaction, by key."""
        self._begun.add(token)
        if token.epoch < self.fence:
            return
        replaced = [
            Outcome(token.txid, frozenset([token]), self.changed(before, rows), before)
            for each in self.outcomes
            if (before := {token.txid - 1: each.rows, token.txid: each.before}.get(each.last)) is not None
        ]
        self.outcomes = merged([*self.outcomes, *replaced])

    def replaced(self, token: CommitToken) -> None:
        """Record that such a commit has returned."""
        if token.epoch >= self.fence:
            own = [each for each in self.outcomes if each.last > token.txid or token in each.tokens]
            self.outcomes = own or self.outcomes

    def answered(self, token: CommitToken) -> None:
        """Record that a commit has returned."""
        if token.epoch >= self.fence:
            self.outcomes = [each for each in self.outcomes if each.last >= token.txid] or self.outcomes

    def recovered(self, epoch: int, token: object, rows: Counter[Row] | None) -> Broken | None:
        """Record that a new leader has recovered; return a broken rule, if any.

        Args:
            epoch: the epoch of the leader.
            token: the return value of ``recover``.
            rows: the rows that a reader sees now; None: not read, because only one outcome is possible.
        """
        self.fence = max(self.fence, epoch)
        if not isinstance(token, CommitToken | None):
            return Broken(Rule.TOKEN_RIGHT, f"recover() returned {token!r}")
        said = token.txid if token else 0
        fits = [each for each in self.outcomes if each.last == said and rows in (None, each.rows)]
        if not fits:
            return self._mismatch(token, rows)
        self.outcomes = fits
        if token is not None and not any(token in each.tokens for each in fits if each.tokens):
            known = any(each.tokens for each in fits)
            if known:
                return Broken(Rule.TOKEN_RIGHT, f"recover() returned {token}, which never committed")
        return None

    def read(self, rows: Counter[Row]) -> Broken | None:
        """Record the rows that a reader sees; return a broken rule, if any.

        Visible rows stay. Invisible rows may still appear: a recovery may complete a commit that had no answer.
        """
        fits = [each for each in self.outcomes if each.rows == rows]
        if not fits:
            return self._explained(rows, self.outcomes)
        seen = max(each.last for each in fits)
        self.outcomes = fits + [each for each in self.outcomes if each.last > seen]
        return None

    def changed(self, before: Counter[Row], rows: Sequence[Row]) -> Counter[Row]:
        """Return the rows that a reader sees after a transaction with these rows."""
        if not self.keys:
            return before + Counter(rows)
        given = {self._key(row) for row in rows}
        return Counter({row: n for row, n in before.items() if self._key(row) not in given}) + Counter(rows)

    def _key(self, row: Row) -> Row:
        return tuple(row[position] for position in self.keys)

    def start_over(self, last: int, rows: Counter[Row]) -> None:
        """Accept the present rows, after a rule was broken."""
        self.outcomes = [Outcome(last, frozenset(), Counter(rows))]

    def _mismatch(self, token: CommitToken | None, rows: Counter[Row] | None) -> Broken:
        said = f"recover() returned {token}"
        by_rows = [each for each in self.outcomes if rows in (None, each.rows)]
        number = token.txid if token else 0
        if by_rows:
            there = by_rows[-1].last
            if number < there:
                return Broken(Rule.TOKEN_NOT_BEHIND, f"{said}, and the rows of transaction {there} are there")
            return Broken(Rule.TOKEN_NOT_AHEAD, f"{said}, and no row of a transaction above {there} is there")
        named = [each for each in self.outcomes if each.last == number]
        if named and rows is not None:
            found = self._explained(rows, named)
            return Broken(found.rule, f"{said}; {found.seen}")
        if rows is not None and not any(each.rows == rows for each in self.outcomes):
            found = self._explained(rows, self.outcomes)
            return Broken(found.rule, f"{said}; {found.seen}")
        return Broken(Rule.TOKEN_RIGHT, f"{said}; expected one of {sorted({each.last for each in self.outcomes})}")

    def _explained(self, rows: Counter[Row], among: Sequence[Outcome]) -> Broken:
        """Return the rule broken by rows that match no outcome, compared with the closest outcome."""

        def distance(outcome: Outcome) -> int:
            return (rows - outcome.rows).total() + (outcome.rows - rows).total()

        closest = min(among, key=distance)
        surplus, missing = rows - closest.rows, closest.rows - rows
        seen = [f"a reader {'sees too often' if closest.rows & surplus else 'also sees'} {listed(surplus)}"] * bool(
            surplus
        )
        seen += [f"a reader does not see {listed(missing)}"] * bool(missing)
        rules = [*(self._surplus(row, surplus, closest) for row in surplus)]
        rules += [self._missing(missing, closest)] if missing else []
        return Broken(min(rules, key=_WORST.index), "; ".join(seen))

    def _surplus(self, row: Row, surplus: Counter[Row], closest: Outcome) -> Rule:
        token = self._owners.get(row)
        if token is None:
            return Rule.COMMITTED_ONCE if row in closest.rows else Rule.GIVEN_ROWS
        if token.txid <= closest.last:
            return Rule.COMMITTED_ONCE
        if token not in self._begun:
            return Rule.NEVER_COMMITTED if token in self._given_up or token.epoch < self.fence else Rule.COMMIT_FIRST
        return Rule.FENCED if token.epoch < self.fence else Rule.ALL_OR_NOTHING

    def _missing(self, missing: Counter[Row], closest: Outcome) -> Rule:
        """Return the rule for missing rows: whole transactions, or a part of one."""
        if closest.last > self.last and missing <= closest.rows - closest.before:
            return Rule.ALL_OR_NOTHING  # of a commit without an answer so far
        owners = Counter(self._owners[row] for row in missing.elements() if row in self._owners)
        in_part = any(count < self._own_rows(token) for token, count in owners.items())
        return Rule.ALL_OR_NOTHING if in_part else Rule.COMMITTED_STAYS

    def _own_rows(self, token: CommitToken) -> int:
        return sum(owner == token for owner in self._owners.values())


_WORST = [
    Rule.FENCED,
    Rule.NEVER_COMMITTED,
    Rule.COMMIT_FIRST,
    Rule.COMMITTED_ONCE,
    Rule.ALL_OR_NOTHING,
    Rule.COMMITTED_STAYS,
    Rule.GIVEN_ROWS,
]
"""If the same rows break several rules, the first of these is reported, because it says most about the cause."""


def listed(rows: Counter[Row]) -> str:
    """Return some of the rows as text for people."""
    shown = [f"{row}{f' ({count} times)' if count > 1 else ''}" for row, count in list(rows.items())[:4]]
    return ", ".join(shown) + (f" and {len(rows) - 4} more" if len(rows) > 4 else "")
