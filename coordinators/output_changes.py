"""States, windows and sinks, compared with those that the record knows: which are new, gone, back, or another one."""

from __future__ import annotations

from attrs import define, evolve, field

from coordinators.canonical import Json
from coordinators.declarations import Declaration, Declarations, Declared, StoredDeclaration
from coordinators.findings import Findings, changed_words, span, were
from coordinators.record import CoordinatorRecord


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
        """Compare states, windows and sinks; returns ``record`` with where those begin that join now.

        One that leaves before anything was committed to it was never there.
        """
        now, before = self.declarations.outputs, self.known.outputs
        joined = {**record.states, **{name: self._joined(each, before.get(name)) for name, each in now.items()}}
        for name, each in before.items():
            if name not in now and each.until is None:
                if joined.get(name, self.at) < self.at:
                    self._stays(each)
                else:
                    joined.pop(name, None)
            elif name in now and joined[name] < self.at:
                self._changed_output(each, now[name])
        return evolve(record, states=joined)

    def _joined(self, now: Declaration, before: StoredDeclaration | None) -> int:
        """The first transaction of an output, or the first after a gap."""
        joined = self.findings.record.states.get(now.name)
        if joined is None:
            if self.at > 1:
                earlier = "transaction 1" if self.at == 2 else f"the {self.at - 1} before it"
                self.findings.lines.append(
                    f"{now.kind} {now.name!r} is new: it begins with transaction {self.at}, what {earlier} did is not "
                    f"in it"
                )
            return self.at
        gap = before is not None and before.until is not None and self._returns(before.until, now)
        return self.at if gap else joined

    def _stays(self, before: StoredDeclaration) -> None:
        self.left[before.name] = self.at - 1
        self.findings.lines.append(
            f"{before.kind or 'state'} {before.name!r} was fed until transaction {self.at - 1} and is not declared "
            f"any more; it stays as it is"
        )

    def _returns(self, until: int, now: Declaration) -> bool:
        """Whether an output that was left out comes back with a gap that is accepted."""
        if until >= self.at - 1:
            return False
        missing = span(range(until + 1, self.at))
        return self.findings.accepted(
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
