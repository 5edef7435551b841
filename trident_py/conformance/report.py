"""The report of a check: the broken rules, each with a history that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from attrs import define, field, frozen


class Rule(StrEnum):
    """The rules for sinks, states and spouts; `sentence` is the text of a rule."""

    def __new__(cls, value: str, sentence: str) -> Rule:
        """Make a member from its name in reports and its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member

    sentence: str

    COMMITTED_ONCE = "committed-once", "the rows of a transaction are there once, however often it comes again"
    COMMITTED_STAYS = "committed-stays", "the rows of a committed transaction are there, all of them, from then on"
    COMMIT_FIRST = "commit-first", "no row of an attempt is seen before its commit was called"
    NEVER_COMMITTED = (
        "never-committed",
        "no row of an attempt that was given up, or died before its commit, is ever seen",
    )
    ALL_OR_NOTHING = "all-or-nothing", "a reader sees all rows of a transaction or none, at any moment"
    TOKEN_NOT_BEHIND = "token-not-behind", "recover() returns the token of the last transaction whose rows are there"
    TOKEN_NOT_AHEAD = "token-not-ahead", "recover() returns no token of a transaction whose rows are not there"
    TOKEN_RIGHT = (
        "token-right",
        "the token that recover() returns is a CommitToken, with the epoch and attempt that committed",
    )
    FENCED = (
        "fenced",
        "once recover() has returned to a newer leader, nothing that an older one does changes what is there",
    )
    LEFT_OUT = (
        "left-out",
        "if can_park() returns true, no row of the transaction is there after its empty attempt is committed; if it "
        "returns false, that commit raises",
    )
    REPLACED = (
        "replaced",
        "once commit() with tx.replaces has returned, the rows of this attempt are there, and have replaced those of "
        "earlier attempts of the transaction, by the fields of replaces_by",
    )
    GIVEN_ROWS = "given-rows", "a reader sees the rows that were given, with the values that they were given with"
    COMES_THROUGH = (
        "comes-through",
        "a leader that nobody disturbs recovers, and has a transaction committed in a few attempts",
    )
    NOT_STUCK = (
        "not-stuck",
        "each call returns or raises: it executes a line that it had not executed before within 30 s",
    )
    READABLE = "readable", "the store can be read at any moment after the first commit"
    NO_ROW_LOST = "no-row-lost", "each row of the source is in a committed batch"
    NO_ROW_TWICE = "no-row-twice", "no row of the source is in two committed batches"
    IN_ORDER = "in-order", "committed batches, one behind the other, have the rows in the order of the source"
    SAME_AGAIN = "same-again", "a batch that is emitted again by the same metadata has the same rows"
    SAME_METADATA = (
        "same-metadata",
        "initialize_transaction() returns stored metadata as it was, where a batch must be the same again",
    )
    KILLED_EVERYWHERE = "killed-everywhere", "the kit has killed a process at each line that was reached"


@frozen
class Violation:
    """A rule that was broken.

    Attributes:
        rule: its name, as in the docs.
        history: the steps of the experiment, one per line, and the observation; no shorter one was found.
    """

    rule: Rule
    history: str

    def __str__(self) -> str:
        return f"{self.rule.value}: {self.rule.sentence}\n{self.history}"


@frozen(kw_only=True)
class Report:
    """The result of a check; ``str()`` formats it.

    Attributes:
        subject: the kind of the checked object.
        violations: at most one for each rule, the one with the shortest history.
        lines: the number of reached lines of the user's code, counted once for each method that reached them.
        kills: the number of killed processes.
        pauses: the number of processes paused while another one took over.
        promise: the promise that was checked, if it is weaker than exactly-once; otherwise empty.
    """

    subject: str
    violations: Sequence[Violation]
    lines: int
    kills: int
    pauses: int
    promise: str = ""

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.violations

    def __bool__(self) -> bool:
        """Return `ok`, so that ``assert check_sink(…)`` is a test, which prints the report when it fails."""
        return self.ok

    def __str__(self) -> str:
        seen = f"{self.kills} processes killed at {self.lines} lines, {self.pauses} paused while another took over"
        promised = f"promise: {self.promise}" if self.promise else ""
        broken = f"{len(self.violations)} rules are broken" if len(self.violations) != 1 else "1 rule is broken"
        head = f"{self.subject}: {'ok' if self.ok else broken} ({seen})"
        return "\n\n".join(["\n".join(filter(None, [head, promised])), *map(str, self.violations)])

    __repr__ = __str__


Reached: TypeAlias = tuple[str, str, int]
"""A method, and a line that it reached: file and number."""


@define
class Findings:
    """Collects violations, the shortest of each rule, and counts."""

    shortest: dict[Rule, Sequence[str]] = field(factory=dict)
    kills: int = 0
    pauses: int = 0
    reached: set[Reached] = field(factory=set)
    killed: set[Reached] = field(factory=set)

    def note(self, rule: Rule, steps: Sequence[str]) -> None:
        """Record that ``steps`` broke ``rule``."""
        known = self.shortest.get(rule)
        if known is None or len(steps) < len(known):
            self.shortest[rule] = list(steps)

    def report(self, subject: str, promise: str = "", *, complete: bool = True) -> Report:
        """Return the report; a check that was not cut short must have killed at each line."""
        missed = sorted(self.reached - self.killed)
        if complete and missed:
            self.note(Rule.KILLED_EVERYWHERE, [f"{method}() at {file}:{line}" for method, file, line in missed])
        violations = [
            Violation(rule, "\n".join(f"  {number:2}  {step}" for number, step in enumerate(steps, 1)))
            for rule, steps in sorted(self.shortest.items(), key=lambda found: len(found[1]))
        ]
        return Report(
            subject=subject,
            violations=violations,
            lines=len(self.reached),
            kills=self.kills,
            pauses=self.pauses,
            promise=promise,
        )
