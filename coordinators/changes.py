"""What has changed in a topology since its last start: what is told, what is refused, and what a user has accepted.

Harmless changes go on, each with a line that says from which transaction. What would count rows twice, skip them or mix
what doesn't belong together is refused: a spout that may be another one renamed, a spout left out of transactions that
are not committed, an output that missed transactions, and whatever changed its identity. A refusal prints a string,
``kind:name:`` and 8 hex digits of what was and what is; a start that is given it goes on. It fits that one change, and
is used once: then it is in the record.

Pure: from a record and declarations to the record to go on from.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

from coordinators.canonical import Json, canonical_json, content_hash
from coordinators.declarations import Declaration, Declarations, Declared, StoredDeclaration, is_same, shown
from coordinators.errors import TopologyError
from coordinators.record import CoordinatorRecord
from coordinators.takeover import Torn

log = logging.getLogger(__name__)

_TOLD_OF_SPOUTS = ("fields", "replay")
"""What a spout may change although it is part of its identity: no position rests on it."""


@frozen
class Comparison:
    """What a start finds changed.

    Attributes:
        lines: to be told.
        refusals: why it can't go on; none: it can.
        record: to go on from, if it can.
    """

    lines: tuple[str, ...]
    refusals: tuple[str, ...]
    record: CoordinatorRecord

    def check(self, topology: str) -> None:
        """Raise TopologyError if there are refusals."""
        if self.refusals:
            at = self.record.current_txid
            text = "\n- ".join(["", *self.refusals]) if len(self.refusals) > 1 else f" {self.refusals[0]}"
            raise TopologyError(
                f"topology {topology!r} is not what it was, and was not started; it is at transaction {at}:{text}"
            )


def adopted(
    topology: str, record: CoordinatorRecord, torn: Torn | None, declarations: Declarations
) -> CoordinatorRecord:
    """``record`` with what is declared now in it, for a takeover; what has changed is logged.

    Raises:
        TopologyError: something has changed that is neither harmless nor accepted.
    """
    comparison = compared(record, declarations, torn)
    comparison.check(topology)
    for line in comparison.lines:
        log.warning("topology %s: %s", topology, line)
    return comparison.record


def compared(record: CoordinatorRecord, declarations: Declarations, torn: Torn | None = None) -> Comparison:
    """What has changed between what ``record`` knows and ``declarations``; ``torn``: what only some states have."""
    comparing = _Comparing(record, declarations)
    if torn is not None:
        comparing.torn(torn)
    after = comparing.outputs(comparing.spouts())
    comparing.unused()
    return Comparison(
        tuple(comparing.lines),
        tuple(comparing.refusals),
        evolve(after, declared=comparing.declared(), accepted=(*record.accepted, *comparing.used)),
    )


def accept_text(record: CoordinatorRecord, kind: str, name: str, before: Json, now: Json) -> str:
    """What a user writes to accept that this part of a topology changes so; another one each time it was accepted."""
    start = f"{kind}:{name}:"
    times = sum(each.startswith(start) for each in record.accepted)
    return start + content_hash(canonical_json([before, now, times]))


@define
class _Comparing:
    """One comparison under way.

    Attributes:
        known: what the record says was declared.
        used: the accepted changes that were found.
    """

    record: CoordinatorRecord
    declarations: Declarations
    known: Declared = field(init=False)
    lines: list[str] = field(factory=list, init=False)
    refusals: list[str] = field(factory=list, init=False)
    used: list[str] = field(factory=list, init=False)
    _left: dict[str, int] = field(factory=dict, init=False)  # until which transaction, by name of an output or spout

    def __attrs_post_init__(self) -> None:
        """Without declarations in the record, names are all that is known."""
        record = self.record
        if record.declared is not None:
            self.known = Declared.of(record.declared)
            return
        named = {spout for definitions in record.metadata.values() for spout in definitions} | {*record.cursors}
        self.known = Declared(
            "",
            {name: StoredDeclaration(name=name) for name in sorted(named)},
            {name: StoredDeclaration(name=name) for name in record.states},
        )
        if self.known.spouts or self.known.outputs:
            self.lines.append(
                "the record is of a release that kept no declarations: what is declared now is taken for unchanged"
            )

    @property
    def at(self) -> int:
        """The transaction that comes next."""
        return self.record.current_txid

    # --- spouts -------------------------------------------------------------------------------------------------------

    def spouts(self) -> CoordinatorRecord:
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
            self.lines.append(
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
                self.lines.append(f"spout {new.name!r} is new: it begins with transaction {self.at}")
            return True
        lost = " and ".join(map(repr, gone))
        into = [name for name, each in self.declarations.outputs.items() if new.name in _spouts_of(each.details)]
        filled = ", ".join(name for name in into if self.record.states.get(name, self.at) < self.at)
        return self._accepted(
            "spout",
            new.name,
            {name: dict(self.known.spouts[name].identity) for name in gone},
            dict(new.identity),
            f"spout {new.name!r} is new and would begin from its beginning, while {lost}, which was read before "
            f"transaction {self.at}, is not declared any more. If they are the same source, all its rows count again"
            f"{f' in {filled}' if filled else ''}: call it {gone[-1]!r} as before. If it is another source",
        )

    def _leaves(self, spout: str, *, is_renamed: bool) -> None:
        begun = sorted(txid for txid, known in self.record.metadata.items() if txid >= self.at and spout in known)
        self._left[spout] = self.at - 1
        if not begun:
            self.lines.append(
                f"spout {spout!r} was read until transaction {self.at - 1} and is not declared any more; its position "
                f"is kept, and it goes on from there when it is declared again"
            )
        elif not is_renamed:
            self._accepted(
                "spout",
                spout,
                [begun[0], begun[-1]],
                None,
                f"spout {spout!r} is not declared any more, and {_span(begun)}, which it has a part in, "
                f"{'is' if len(begun) == 1 else 'are'} not committed: what it gave to them would be nowhere. Start the "
                f"topology with it once more and stop() it, which commits them. If they are to go on without it",
            )

    def _changed_spout(self, before: StoredDeclaration, now: Declaration) -> bool:
        """Compare a spout with itself; returns whether rows of it that were read before can't be compared any more."""
        changed = _changed(before.identity, now.identity)
        told = {word for word in changed if word in _TOLD_OF_SPOUTS}
        if "replay" in changed and self.record.committing:
            told.discard("replay")
        self._tell(before.identity, now, told)
        self._tell(before.details, now, _changed(before.details, now.details))
        if refused := [word for word in changed if word not in told]:
            self._accepted(
                "spout",
                now.name,
                dict(before.identity),
                dict(now.identity),
                f"spout {now.name!r}: {_were(before.identity, now.identity, refused)}, and it would go on from a "
                f"position, and with transactions, that the other has defined. Declare it as it was, or give it a name "
                f"of its own. If it goes on where the other was",
            )
        return "fields" in changed

    def _incomparable(self, spouts: set[str]) -> CoordinatorRecord:
        """The record without the fingerprints of these spouts, or of all if it isn't known what they were made of."""
        seen = self.record.fingerprints
        drop = spouts if self.record.declared is not None else {name for each in seen.values() for name in each}
        affected = sorted(txid for txid, each in seen.items() if drop & each.keys())
        if affected:
            self.lines.append(
                f"{_span(affected)} {'was' if len(affected) == 1 else 'were'} read before and not committed; whether "
                f"the rows are the same now is not compared: they have other fields, or an older release read them"
            )
        kept = {txid: {name: one for name, one in each.items() if name not in drop} for txid, each in seen.items()}
        return evolve(self.record, fingerprints={txid: each for txid, each in kept.items() if each})

    def _moved(self, gone: list[str], back: list[str], record: CoordinatorRecord) -> CoordinatorRecord:
        """``record`` with the last metadata of spouts that are left out put aside, and of those that are back in place.

        The last is that of the last transaction they had a part in, committed or not, as their cursors are.
        """
        resting = dict(record.resting)
        for _, definitions in sorted(record.metadata.items()):
            resting |= {spout: definitions[spout] for spout in gone if spout in definitions}
        metadata = {
            txid: {spout: definition for spout, definition in definitions.items() if spout not in gone}
            for txid, definitions in record.metadata.items()
        }
        if back:
            last = metadata.setdefault(self.at - 1, {})
            last |= {spout: resting.pop(spout) for spout in back}
        return evolve(record, metadata=metadata, resting=resting)

    # --- states, windows and sinks ------------------------------------------------------------------------------------

    def outputs(self, record: CoordinatorRecord) -> CoordinatorRecord:
        """Compare states, windows and sinks; returns ``record`` with where those begin that join now."""
        now, before = self.declarations.outputs, self.known.outputs
        joined = {**record.states, **{name: self._joined(each, before.get(name)) for name, each in now.items()}}
        for name, each in before.items():
            if name not in now and each.until is None:
                self._stays(each)
            elif name in now and joined[name] < self.at:
                self._changed_output(each, now[name])
        return evolve(record, states=joined)

    def _joined(self, now: Declaration, before: StoredDeclaration | None) -> int:
        """The first transaction of an output, or the first after a gap."""
        joined = self.record.states.get(now.name)
        if joined is None:
            if self.at > 1:
                earlier = "transaction 1" if self.at == 2 else f"the {self.at - 1} before it"
                self.lines.append(
                    f"{now.kind} {now.name!r} is new: it begins with transaction {self.at}, what {earlier} did is not "
                    f"in it"
                )
            return self.at
        gap = before is not None and before.until is not None and self._returns(before.until, now)
        return self.at if gap else joined

    def _stays(self, before: StoredDeclaration) -> None:
        self._left[before.name] = self.at - 1
        if self.record.states.get(before.name, self.at) < self.at:
            self.lines.append(
                f"{before.kind or 'state'} {before.name!r} was fed until transaction {self.at - 1} and is not declared "
                f"any more; it stays as it is"
            )

    def _returns(self, until: int, now: Declaration) -> bool:
        """Whether an output that was left out comes back with a gap that is accepted."""
        if until >= self.at - 1:
            return False
        missing = _span(range(until + 1, self.at))
        return self._accepted(
            now.kind,
            now.name,
            until,
            self.at,
            f"{now.kind} {now.name!r} was left out after transaction {until}, and {missing} are not in it. Give the "
            f"new one a name or table of its own, which begins with transaction {self.at}. If it is to go on without",
        )

    def _changed_output(self, before: StoredDeclaration, now: Declaration) -> None:
        self._tell(before.details, now, _changed(before.details, now.details))
        changed = _changed(before.identity, now.identity)
        what = _were(before.identity, now.identity, changed)
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
            self.refusals.append(refusal)
        else:
            identities: list[Json] = [[dict(each.identity), "" if now.is_named else each.way] for each in (before, now)]
            self._accepted(now.kind, now.name, identities[0], identities[1], f"{refusal}. If both belong together")

    # --- transactions that only some have -----------------------------------------------------------------------------

    def torn(self, torn: Torn) -> None:
        """Refuse another plan while some states have transactions that others lack: those need the same of them."""
        before, now = self.known.plan, self.declarations.plan
        joining = [name for name in self.declarations.outputs if name not in self.record.states]
        if before == now or not (before or joining):
            return
        self._accepted(
            "torn",
            f"{torn.txids[0]}-{torn.txids[-1]}",
            before,
            now,
            f"{_span(torn.txids)} {'is' if len(torn.txids) == 1 else 'are'} in {' and '.join(torn.having)} and not in "
            f"{' and '.join(torn.lacking)}, since a crash came between their commits; spouts, states, or what leads to "
            f"them, are others now, so some would have these transactions of one plan, some of another or not at all. "
            f"Start the version that began them once more and stop() it, which commits them; functions may change. If "
            f"this is meant",
        )

    # --- what is told and accepted ------------------------------------------------------------------------------------

    def _tell(self, before: Mapping[str, Json], now: Declaration, words: Iterable[str]) -> None:
        facts = {**now.identity, **now.details}
        for word in sorted(words):
            self.lines.append(
                f"{now.kind} {now.name!r}: its {word} changed from {shown(before[word])!r} to {shown(facts[word])!r}, "
                f"with transaction {self.at}"
            )

    def _accepted(self, kind: str, name: str, before: Json, now: Json, refusal: str) -> bool:
        """Whether the user accepts this change; if not, it is refused."""
        text = accept_text(self.record, kind, name, before, now)
        if text in self.declarations.accept:
            self.used.append(text)
            self.lines.append(f"{kind} {name!r}: goes on as accepted by {text}, from transaction {self.at} on")
            return True
        self.refusals.append(f"{refusal}, accept it: TridentConfig(accept=[{text!r}])")
        return False

    def unused(self) -> None:
        """Tell of what was accepted and fits nothing."""
        for text in self.declarations.accept:
            if text not in (*self.used, *self.record.accepted):
                self.lines.append(f"accept={text!r} fits no change of this start, and is ignored")

    def declared(self) -> Mapping[str, Any]:
        """What the record is to say of what is declared."""
        spouts, outputs = (
            {
                **{name: evolve(each, until=self._left.get(name, each.until)) for name, each in before.items()},
                **{name: StoredDeclaration.of(each) for name, each in now.items()},
            }
            for before, now in (
                (self.known.spouts, self.declarations.spouts),
                (self.known.outputs, self.declarations.outputs),
            )
        )
        return Declared(self.declarations.plan, spouts, outputs).json


def _changed(before: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    """The words whose facts differ; of a word that only one side has nothing is known."""
    return sorted(word for word in before.keys() & now.keys() if not is_same(before[word], now[word]))


def _were(before: Mapping[str, Json], now: Mapping[str, Json], words: Iterable[str]) -> str:
    return " and ".join(f"its {word} changed from {shown(before[word])!r} to {shown(now[word])!r}" for word in words)


def _spouts_of(details: Mapping[str, Json]) -> list[str]:
    return str(details.get("spouts", "")).split(", ")


def _span(txids: Iterable[int]) -> str:
    first, *rest = txids
    return f"transactions {first} to {rest[-1]}" if rest else f"transaction {first}"
