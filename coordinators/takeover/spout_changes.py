"""The spouts of a topology, compared with those that its record knows: which are new, gone, back, or another one."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve, field

from coordinators.record.declarations import Declaration, Declarations, Declared, StoredDeclaration
from coordinators.record.record import CoordinatorRecord
from coordinators.takeover.findings import Findings, changed_words, span, were
from coordinators.values.canonical import Json

_TOLD_OF_SPOUTS = ("fields", "replay")
"""What a spout may change although it is part of its identity: no position rests on it."""


@define
class SpoutChanges:
    """The comparison of all spouts.

    Attributes:
        known: what the record says was declared.
        left: the last transaction before a spout was left out, by the names of those that are from now on.
    """

    findings: Findings
    known: Declared
    declarations: Declarations
    left: dict[str, int] = field(factory=dict, init=False)

    @property
    def record(self) -> CoordinatorRecord:
        """As it was found."""
        return self.findings.record

    @property
    def at(self) -> int:
        """The transaction that comes next."""
        return self.findings.at

    def compare(self) -> CoordinatorRecord:
        """Compare the spouts; returns the record with the positions of those that are left out put aside."""
        now, before = self.declarations.spouts, self.known.spouts
        gone = [name for name in before if name not in now and self._has_read(name)]
        new = [each for name, each in now.items() if name not in before or not self._has_read(name)]
        refused = [each for each in new if not self._begins(each, gone)]
        for name in gone:
            if before[name].until is None:
                self._leaves(name, is_renamed=bool(refused))
        unlike: set[str] = set()
        for name, each in now.items():
            if each not in new and self._changed_spout(before[name], each):
                unlike.add(name)
        back = [name for name in now if name in self.record.resting]
        for name in back:
            until = before[name].until if name in before else None
            self.findings.lines.append(
                f"spout {name!r} is declared again: it goes on with transaction {self.at} where it was after "
                f"transaction {self.at - 1 if until is None else until}"
            )
        return self._moved(gone, back, self._incomparable(unlike))

    def _has_read(self, spout: str) -> bool:
        record = self.record
        defined = any(spout in definitions for definitions in record.metadata.values())
        return defined or spout in record.cursors or spout in record.resting

    def _begins(self, new: Declaration, gone: list[str]) -> bool:
        if not gone:
            if self.at > 1:
                self.findings.lines.append(f"spout {new.name!r} is new: it begins with transaction {self.at}")
            return True
        lost = " and ".join(map(repr, gone))
        into = [name for name, each in self.declarations.outputs.items() if new.name in _spouts_of(each.details)]
        filled = ", ".join(name for name in into if self.record.states.get(name, self.at) < self.at)
        return self.findings.accepted(
            "spout",
            new.name,
            {name: dict(self.known.spouts[name].identity) for name in gone},
            dict(new.identity),
            f"spout {new.name!r} is new and would begin from its beginning, while {lost}, which was read before "
            f"transaction {self.at}, is not declared any more. If they are the same source, all its rows count again"
            f"{f' in {filled}' if filled else ''}: call it {gone[-1]!r} as before. If it is another source",
        )

    def _leaves(self, spout: str, *, is_renamed: bool) -> None:
        numbers, metadata = self.record.numbers, self.record.metadata
        begun = sorted(
            txid for txid in map(numbers.txid, metadata) if txid >= self.at and spout in self.record.definition(txid)
        )
        self.left[spout] = self.at - 1
        if not begun:
            self.findings.lines.append(
                f"spout {spout!r} was read until transaction {self.at - 1} and is not declared any more; its position "
                f"is kept, and it goes on from there when it is declared again"
            )
        elif not is_renamed:
            self.findings.accepted(
                "spout",
                spout,
                [begun[0], begun[-1]],
                None,
                f"spout {spout!r} is not declared any more, and {span(begun)}, which it has a part in, "
                f"{'is' if len(begun) == 1 else 'are'} not committed: what it gave to them would be nowhere. Start the "
                f"topology with it once more and stop() it, which commits them. If they are to go on without it",
            )

    def _changed_spout(self, before: StoredDeclaration, now: Declaration) -> bool:
        """Compare a spout with itself; returns whether rows of it that were read before can't be compared any more."""
        changed = changed_words(before.identity, now.identity)
        told = {word for word in changed if word in _TOLD_OF_SPOUTS}
        if "replay" in changed and self.record.committing:
            told.discard("replay")
        self.findings.tell(before.identity, now, told)
        self.findings.tell(before.details, now, changed_words(before.details, now.details))
        if refused := [word for word in changed if word not in told]:
            self.findings.accepted(
                "spout",
                now.name,
                dict(before.identity),
                dict(now.identity),
                f"spout {now.name!r}: {were(before.identity, now.identity, refused)}, and it would go on from a "
                f"position, and with transactions, that the other has defined. Declare it as it was, or give it a name "
                f"of its own. If it goes on where the other was",
            )
        return "fields" in changed

    def _incomparable(self, spouts: set[str]) -> CoordinatorRecord:
        """Drop the fingerprints of these spouts from the record, or all if it isn't known what they were made of."""
        seen = self.record.fingerprints
        drop = spouts if self.record.declared is not None else {name for each in seen.values() for name in each}
        affected = sorted(self.record.numbers.txid(number) for number, each in seen.items() if drop & each.keys())
        if affected:
            self.findings.lines.append(
                f"{span(affected)} {'was' if len(affected) == 1 else 'were'} read before and not committed; whether "
                f"the rows are the same now is not compared: they have other fields, or an older release read them"
            )
        kept = {number: {name: one for name, one in each.items() if name not in drop} for number, each in seen.items()}
        return evolve(self.record, fingerprints={number: each for number, each in kept.items() if each})

    def _moved(self, gone: list[str], back: list[str], record: CoordinatorRecord) -> CoordinatorRecord:
        """Put the last metadata of spouts that are left out aside, and that of those that are back in place.

        The last is that of the last transaction they had a part in, committed or not, as their cursors are.
        """
        resting = dict(record.resting)
        for _, definitions in sorted(record.metadata.items()):
            resting |= {spout: definitions[spout] for spout in gone if spout in definitions}
        metadata = {
            number: {spout: definition for spout, definition in definitions.items() if spout not in gone}
            for number, definitions in record.metadata.items()
        }
        if back:
            last = metadata.setdefault(self.record.numbers.upto(self.at - 1), {})
            last |= {spout: resting.pop(spout) for spout in back}
        return evolve(record, metadata=metadata, resting=resting)


def _spouts_of(details: Mapping[str, Json]) -> list[str]:
    return str(details.get("spouts", "")).split(", ")
