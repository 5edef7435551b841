"""States, windows and sinks, compared with those that the record knows: which are new, gone, back, or another one."""

from __future__ import annotations

from attrs import define, evolve, field

from coordinators.record.declarations import Declaration, Declarations, Declared, StoredDeclaration
from coordinators.record.record import CoordinatorRecord
from coordinators.takeover.findings import Findings, changed_words, span, were
from coordinators.values.canonical import Json


@define
class OutputChanges:
    """The comparison of all outputs.

    Attributes:
        known: what the record says was declared.
        left: the last transaction that an output had part in, by the names of those that are left out from now on.
    """

    findings: Findings
    known: Declared
    declarations: Declarations
    left: dict[str, int] = field(factory=dict, init=False)

    @property
    def at(self) -> int:
        """The transaction that comes next."""
        return self.findings.at

    def compare(self, record: CoordinatorRecord) -> CoordinatorRecord:
        """Compare states, windows and sinks; returns ``record`` with where those begin that join, and who has gaps.

        One that leaves before anything was committed to it was never there; but an attempt that died may have.
        """
        now, before = self.declarations.outputs, self.known.outputs
        joined = {**record.states, **{name: self._joined(each) for name, each in now.items()}}
        gaps = dict(record.gaps)
        for name, each in before.items():
            if name not in now and each.until is None:
                self._leaves(each, joined)
            elif name in now:
                if each.until is not None and each.until + 1 < self.at:
                    gaps[name] = self._gap(each.until, now[name])
                if joined[name] < self.at:
                    self._changed_output(each, now[name])
        return evolve(record, states=joined, gaps=gaps)

    def _joined(self, now: Declaration) -> int:
        """Return the first transaction of an output."""
        joined = self.findings.record.states.get(now.name)
        if joined is None and self.at > 1:
            earlier = "transaction 1" if self.at == 2 else f"the {self.at - 1} before it"
            self.findings.lines.append(
                f"{now.kind} {now.name!r} is new: it begins with transaction {self.at}, what {earlier} did is not in it"
            )
        return self.at if joined is None else joined

    def _leaves(self, before: StoredDeclaration, joined: dict[str, int]) -> None:
        self.left[before.name] = self.at - 1
        if joined.get(before.name, self.at) == self.at:
            joined.pop(before.name, None)
            return
        self.findings.lines.append(
            f"{before.kind or 'state'} {before.name!r} was fed until transaction {self.at - 1} and is not declared "
            f"any more; it stays as it is"
        )

    def _gap(self, until: int, now: Declaration) -> range:
        """Return what an output was left out of after ``until``; with its last gap, if it hasn't gone on since."""
        earlier = self.findings.record.gaps.get(now.name)
        first = earlier.start if earlier and earlier.stop == until + 1 else until + 1
        if now.name in self.findings.record.states:
            self._returns(until, now)
        return range(first, self.at)

    def _returns(self, until: int, now: Declaration) -> None:
        """Refuse an output that was left out and lacks something, unless a user accepts that."""
        missing = span(range(until + 1, self.at))
        self.findings.accepted(
            now.kind,
            now.name,
            until,
            self.at,
            f"{now.kind} {now.name!r} was left out after transaction {until}, and {missing} are not in it. Give the "
            f"new one a name or table of its own, which begins with transaction {self.at}. If it is to go on without",
        )

    def _changed_output(self, before: StoredDeclaration, now: Declaration) -> None:
        self.findings.tell(before.details, now, changed_words(before.details, now.details))
        changed = changed_words(before.identity, now.identity)
        what = were(before.identity, now.identity, changed)
        if before.kind not in ("", now.kind):
            changed, what = [*changed, "kind of part"], f"it was a {before.kind} and is a {now.kind} now"
        elif not now.is_named and before.way not in ("", now.way):
            changed = [*changed, "way"]
            what = (
                f"it has no name of its own, and what leads to it changed from {before.way!r} to {now.way!r}, so it "
                f"may be another one. If it is the same, say so by name({now.name!r})"
            )
        if not changed:
            return
        refusal = (
            f"{now.kind} {now.name!r}: {what}; what is stored under this name was made by the other. Declare it as it "
            f"was, or give the new one a name or table of its own, which begins with transaction {self.at}"
        )
        if now.fixed.intersection(changed) or "kind of part" in changed:
            self.findings.refusals.append(refusal)
        else:
            identities: list[Json] = [[dict(each.identity), "" if now.is_named else each.way] for each in (before, now)]
            self.findings.accepted(
                now.kind, now.name, identities[0], identities[1], f"{refusal}. If both belong together"
            )
