"""The changes of a topology since its last start: those that are logged, refused, or accepted by a user.

Harmless changes are allowed; each is logged with the transaction from which it is in effect. Changes that would count
rows twice, skip rows or mix unrelated data are refused:

- a spout that may be another one, renamed;
- a spout that is left out of transactions that are not committed;
- an output that missed transactions;
- a change of a part's identity.

A refusal prints a string: ``kind:name:`` and 8 hex digits of the facts before and after. A start that receives this
string allows the change. The string fits that one change, and is used once: then it is in the record.

`adopted` and `compared` do the comparison. They use `SpoutChanges` for spouts, and `OutputChanges` for states, windows
and sinks. Class `Findings` collects the results. The functions `corrections_of` and
`with_corrections` apply corrected source data of batches that failed.

Pure: from a record and declarations to the record to continue from.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from coordinators.record.declarations import Declaration, Declarations, Declared, StoredDeclaration, is_same, shown
from coordinators.record.record import CoordinatorRecord
from coordinators.takeover.migrations import migrated_text
from coordinators.takeover.takeover import Torn
from coordinators.values.batch_coordinator import BatchCoordinator, Correction
from coordinators.values.canonical import Json, canonical_json, content_hash
from coordinators.values.cursors import Cursors
from coordinators.values.errors import TopologyError

log = logging.getLogger(__name__)


@frozen
class SpoutCorrection:
    """A spout's corrected definitions, to replace its stored ones."""

    spout: str
    correction: Correction[Any]


def corrections_of(
    record: CoordinatorRecord, coordinators: Mapping[str, BatchCoordinator[Any]]
) -> Iterator[SpoutCorrection]:
    """Ask each spout for corrections of its batches, if one has failed by its own fault.

    Batches that are committed, or being parked, are not among them: a release has the rows that were parked.
    """
    if not any(failure.count and txid >= record.current_txid for txid, failure in record.failures.items()):
        return
    for spout, coordinator in coordinators.items():
        definitions = {
            number: each[spout]
            for number, each in sorted(record.metadata.items())
            if spout in each and number > record.closed_number
        }
        if definitions and (found := coordinator.corrected(definitions)):
            yield SpoutCorrection(spout, found)


def with_corrections(
    findings: Findings, record: CoordinatorRecord, torn: Torn | None, corrections: Iterable[SpoutCorrection]
) -> CoordinatorRecord:
    """Return ``record`` with the corrected definitions that the user accepts; others are refused."""
    for each in corrections:
        found = each.correction
        txids = [record.bindings.txid(number) for number in sorted(found.definitions)]
        if torn is not None and txids[0] in torn.txids:
            findings.refusals.append(
                f"spout {each.spout!r}: {found.what}, but {' and '.join(map(repr, torn.having))} "
                f"{'has' if len(torn.having) == 1 else 'have'} transaction {txids[0]} as it was read before, so it "
                f"can't be read again. To fix this: restore the earlier data"
            )
            continue
        refusal = (
            f"spout {each.spout!r}: {found.what}. {span(txids).capitalize()} failed, or came after it, and no output "
            f"has {'it' if len(txids) == 1 else 'them'}; {found.checked}. If this was corrected on purpose"
        )
        if findings.accepted("corrected", each.spout, found.before, found.now, refusal):
            record = _corrected(record, each)
    return record


def _corrected(record: CoordinatorRecord, each: SpoutCorrection) -> CoordinatorRecord:
    spout, found = each.spout, each.correction
    metadata = {
        number: {**definitions, spout: found.definitions[number]} if number in found.definitions else definitions
        for number, definitions in record.metadata.items()
    }
    fingerprints = {
        number: {name: seen for name, seen in rows.items() if not (name == spout and number in found.definitions)}
        for number, rows in record.fingerprints.items()
    }
    cursors = {**record.cursors, spout: record.cursors.get(spout, Cursors()).updated(found.moved)}
    return evolve(record, metadata=metadata, fingerprints=fingerprints, cursors=cursors)


@define
class Findings:
    """The results of the comparison so far.

    Attributes:
        record: as it was found.
        accept: the strings with which a user has accepted changes in this program.
        lines: the changes to log.
        refusals: the reasons why the topology can't continue.
        used: the strings of ``accept`` that fit a change.
    """

    record: CoordinatorRecord
    accept: Sequence[str]
    lines: list[str] = field(factory=list, init=False)
    refusals: list[str] = field(factory=list, init=False)
    used: list[str] = field(factory=list, init=False)

    @property
    def at(self) -> int:
        """The transaction that comes next."""
        return self.record.current_txid

    def tell(self, before: Mapping[str, Json], now: Declaration, words: Iterable[str]) -> None:
        """Log that these facts of ``now`` have changed."""
        facts = {**now.identity, **now.details}
        for word in sorted(words):
            self.lines.append(
                f"{now.kind} {now.name!r}: its {word} changed from {shown(before[word])!r} to {shown(facts[word])!r}, "
                f"with transaction {self.at}"
            )

    def accepted(self, kind: str, name: str, before: Json, now: Json, refusal: str) -> bool:
        """Return true if the user accepts this change; if not, it is refused."""
        text = accept_text(self.record, kind, name, before, now)
        if text in self.accept:
            self.used.append(text)
            self.lines.append(f"{kind} {name!r}: continues, as accepted by {text}, from transaction {self.at} on")
            return True
        self.refusals.append(f"{refusal}, accept it: TridentConfig(accept=[{text!r}])")
        return False

    def unused(self) -> None:
        """Log the accepted strings that fit no change."""
        for text in self.accept:
            if text not in (*self.used, *self.record.accepted):
                self.lines.append(f"accept={text!r} fits no change of this start, and is ignored")


def accept_text(record: CoordinatorRecord, kind: str, name: str, before: Json, now: Json) -> str:
    """Return the string with which a user accepts exactly this change of a part of a topology.

    It is another text each time, so that one that was used fits no later change.
    """
    start = f"{kind}:{name}:"
    times = sum(each.startswith(start) for each in record.accepted)
    return start + content_hash(canonical_json([before, now, times]))


def changed_words(before: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    """Return the words with different facts; a word that only one side has is not compared."""
    return sorted(word for word in before.keys() & now.keys() if not is_same(before[word], now[word]))


def were(before: Mapping[str, Json], now: Mapping[str, Json], words: Iterable[str]) -> str:
    """Format the facts of these words before and now, for messages."""
    return " and ".join(f"its {word} changed from {shown(before[word])!r} to {shown(now[word])!r}" for word in words)


def span(txids: Iterable[int]) -> str:
    """Format consecutive transactions for messages."""
    first, *rest = txids
    return f"transactions {first} to {rest[-1]}" if rest else f"transaction {first}"


_TOLD_OF_SPOUTS = ("fields", "replay")
"""Facts that a spout may change although they are part of its identity: no position depends on them."""


@define
class SpoutChanges:
    """The comparison of all spouts.

    Attributes:
        known: the declarations in the record.
        left: the last transaction of each spout that is left out from now on, by name.
    """

    findings: Findings
    known: Declared
    declarations: Declarations
    left: dict[str, int] = field(factory=dict, init=False)

    @property
    def record(self) -> CoordinatorRecord:
        """The record as it was found."""
        return self.findings.record

    @property
    def at(self) -> int:
        """The transaction that comes next."""
        return self.findings.at

    def compare(self) -> CoordinatorRecord:
        """Compare the declared spouts with the stored ones; add the changes and refusals to ``findings``.

        Return the record: the last metadata of removed spouts is put aside, and that of returning spouts is restored.
        Fingerprints that can't be compared any more are dropped.
        """
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
                f"spout {name!r} is declared again: it continues with transaction {self.at} where it was after "
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
            f"spout {new.name!r} is new and would be read from the beginning, while {lost}, which was read before "
            f"transaction {self.at}, is not declared any more. If they are the same source, all its rows count twice"
            f"{f' in {filled}' if filled else ''}: call it {gone[-1]!r} as before, or "
            f"say that it is renamed: topology.migrate({gone[-1]!r}, rename={new.name!r}). If it is another source",
        )

    def _leaves(self, spout: str, *, is_renamed: bool) -> None:
        bindings, metadata = self.record.bindings, self.record.metadata
        begun = sorted(
            txid for txid in map(bindings.txid, metadata) if txid >= self.at and spout in self.record.definition(txid)
        )
        self.left[spout] = self.at - 1
        if not begun:
            self.findings.lines.append(
                f"spout {spout!r} was read until transaction {self.at - 1} and is not declared any more; its position "
                f"is kept, and it continues from there when it is declared again"
            )
        elif not is_renamed:
            self.findings.accepted(
                "spout",
                spout,
                [begun[0], begun[-1]],
                None,
                f"spout {spout!r} is not declared any more, and {span(begun)}, which it has a part in, "
                f"{'is' if len(begun) == 1 else 'are'} not committed: its rows in them would be lost. To fix this: "
                f"start the topology with it once more and stop() it, which commits them. If they are to continue "
                f"without it",
            )

    def _changed_spout(self, before: StoredDeclaration, now: Declaration) -> bool:
        """Compare a spout with its stored declaration; return true if its earlier rows can't be compared any more."""
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
                f"spout {now.name!r}: {were(before.identity, now.identity, refused)}, and it would continue from a "
                f"position, and with transactions, that the other one has defined. To fix this: declare it as it was, "
                f"or give it another name. If it continues where the other one was",
            )
        return "fields" in changed

    def _incomparable(self, spouts: set[str]) -> CoordinatorRecord:
        """Drop the fingerprints of these spouts from the record, or all of them if it has no declarations."""
        seen = self.record.fingerprints
        drop = spouts if self.record.declared is not None else {name for each in seen.values() for name in each}
        affected = sorted(self.record.bindings.txid(number) for number, each in seen.items() if drop & each.keys())
        if affected:
            self.findings.lines.append(
                f"{span(affected)} {'was' if len(affected) == 1 else 'were'} read before and not committed; whether "
                f"the rows are the same now is not compared: they have other fields, or an older release read them"
            )
        kept = {number: {name: one for name, one in each.items() if name not in drop} for number, each in seen.items()}
        return evolve(self.record, fingerprints={number: each for number, each in kept.items() if each})

    def _moved(self, gone: list[str], back: list[str], record: CoordinatorRecord) -> CoordinatorRecord:
        """Put the last metadata of removed spouts aside, and restore that of spouts that are back.

        It is that of the last transaction in which they had a part, committed or not, as their cursors are.
        """
        resting = dict(record.resting)
        for _, definitions in sorted(record.metadata.items()):
            resting |= {spout: definitions[spout] for spout in gone if spout in definitions}
        metadata = {
            number: {spout: definition for spout, definition in definitions.items() if spout not in gone}
            for number, definitions in record.metadata.items()
        }
        if back:
            last = metadata.setdefault(self.record.bindings.upto(self.at - 1), {})
            last |= {spout: resting.pop(spout) for spout in back}
        return evolve(record, metadata=metadata, resting=resting)


def _spouts_of(details: Mapping[str, Json]) -> list[str]:
    return str(details.get("spouts", "")).split(", ")


@define
class OutputChanges:
    """The comparison of all outputs.

    Attributes:
        known: the declarations in the record.
        left: the last transaction of each output that is left out from now on, by name.
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
        """Compare states, windows and sinks; return ``record`` with the first transactions of new ones, and the gaps.

        An output that leaves before anything was committed to it was never part of the topology. But it may contain an
        attempt that died.
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
        if joined is None:  # a function that is declared from the beginning has nothing to migrate, ever
            functions = [each.function for each in self.declarations.migrations_of(now.name) if each.function]
            self.findings.used += [migrated_text(now.name, function) for function in functions]
        if joined is None and self.at > 1:
            earlier = "transaction 1" if self.at == 2 else f"the {self.at - 1} before it"
            self.findings.lines.append(
                f"{now.kind} {now.name!r} is new: it begins with transaction {self.at}, without {earlier}"
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
        """Return the transactions that an output missed after ``until``.

        Includes its last gap, if it has committed nothing since.
        """
        earlier = self.findings.record.gaps.get(now.name)
        first = earlier.start if earlier and earlier.stop == until + 1 else until + 1
        if now.name in self.findings.record.states:
            self._returns(until, now)
        return range(first, self.at)

    def _returns(self, until: int, now: Declaration) -> None:
        """Refuse an output that was left out and lacks transactions, unless a user accepts that."""
        missing = span(range(until + 1, self.at))
        self.findings.accepted(
            now.kind,
            now.name,
            until,
            self.at,
            f"{now.kind} {now.name!r} was left out after transaction {until}, and {missing} are not in it. To fix "
            f"this: give the new one another name or table, which begins with transaction {self.at}. If it is to "
            f"continue without them",
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
                f"it has no explicit name, and the operations before it changed from {before.way!r} to {now.way!r}, so "
                f"it may be another one. If it is the same, say so by name({now.name!r})"
            )
        if not changed or self._is_migrated(before, now, changed):
            return
        migrated = f"migrate it if it is a SQL state (topology.migrate({now.name!r}, …)), " * (now.kind == "state")
        refusal = (
            f"{now.kind} {now.name!r}: {what}; the data under this name belong to the other one. To fix this: declare "
            f"it as it was, {migrated}or give the new one another name or table, which begins with transaction "
            f"{self.at}"
        )
        if now.fixed.intersection(changed) or "kind of part" in changed:
            self.findings.refusals.append(refusal)
        else:
            identities: list[Json] = [[dict(each.identity), "" if now.is_named else each.way] for each in (before, now)]
            self.findings.accepted(
                now.kind, now.name, identities[0], identities[1], f"{refusal}. If both belong together"
            )

    def _is_migrated(self, before: StoredDeclaration, now: Declaration, changed: Sequence[str]) -> bool:
        """Return true if the program migrates the values; they are of the other declaration until then."""
        migrations = self.declarations.migrations_of(now.name)
        if not migrations or not frozenset().union(*(each.words for each in migrations)).issuperset(changed):
            return False
        function = next((each.function for each in migrations if each.function), "")
        text = migrated_text(now.name, function)
        if function and text in self.findings.record.accepted:
            self.findings.refusals.append(
                f"{now.kind} {now.name!r}: {were(before.identity, now.identity, changed)}, and function {function!r} "
                f"of migrate() has migrated its values before, to an earlier declaration. To fix this: call migrate() "
                f"with a function for this change, under a name of its own"
            )
            return True
        self.findings.used.append(text)
        self.findings.lines.append(
            f"{now.kind} {now.name!r}: {were(before.identity, now.identity, changed)}; its values are migrated, with "
            f"transaction {self.at}"
        )
        return True


@frozen
class Comparison:
    """The changes that a start has found.

    Attributes:
        lines: the changes to log.
        refusals: the reasons why it can't continue; empty: it can.
        record: to continue from, if it can.
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
                f"topology {topology!r} is not what it was, and was not started; it is at transaction {at}:{text}",
                topology=topology,
                txid=at,
            )


def adopted(
    topology: str,
    record: CoordinatorRecord,
    torn: Torn | None,
    declarations: Declarations,
    corrections: Iterable[SpoutCorrection] = (),
) -> CoordinatorRecord:
    """Return ``record`` with the current declarations, for a takeover; changes are logged.

    Raises:
        TopologyError: a change is neither harmless nor accepted.
    """
    comparison = compared(record, declarations, torn, corrections)
    comparison.check(topology)
    for line in comparison.lines:
        log.warning("topology %s: %s", topology, line)
    return comparison.record


def compared(
    record: CoordinatorRecord,
    declarations: Declarations,
    torn: Torn | None = None,
    corrections: Iterable[SpoutCorrection] = (),
) -> Comparison:
    """Compare the declarations in ``record`` with ``declarations``.

    ``torn``: the transactions that only some states have. ``corrections``: data of failed batches, changed in place.
    """
    findings = Findings(record, declarations.accept)
    known = _known(findings)
    if torn is not None:
        _compare_torn(findings, known, declarations, torn)
    spouts, outputs = SpoutChanges(findings, known, declarations), OutputChanges(findings, known, declarations)
    after = with_corrections(findings, outputs.compare(spouts.compare()), torn, corrections)
    findings.unused()
    declared = Declared(
        declarations.plan,
        _remembered(known.spouts, declarations.spouts, spouts.left),
        _remembered(known.outputs, declarations.outputs, outputs.left),
    )
    accepted = (*record.accepted, *findings.used)
    after = evolve(after, declared=declared.json, accepted=accepted)
    return Comparison(tuple(findings.lines), tuple(findings.refusals), after)


def _known(findings: Findings) -> Declared:
    """Return the declarations in the record; if it has none, only names are known."""
    record = findings.record
    if record.declared is not None:
        return Declared.of(record.declared)
    named = {spout for definitions in record.metadata.values() for spout in definitions} | {*record.cursors}
    known = Declared(
        "",
        {name: StoredDeclaration(name=name) for name in sorted(named)},
        {name: StoredDeclaration(name=name) for name in record.states},
    )
    if known.spouts or known.outputs:
        findings.lines.append(
            "the record is of a release that kept no declarations: the current ones are assumed to be unchanged"
        )
    return known


def _remembered(
    before: Mapping[str, StoredDeclaration], now: Mapping[str, Declaration], left: Mapping[str, int]
) -> dict[str, StoredDeclaration]:
    """Return the declarations to store: the current ones, and earlier ones with their last transaction."""
    return {
        **{name: evolve(each, until=left.get(name, each.until)) for name, each in before.items()},
        **{name: StoredDeclaration.of(each) for name, each in now.items()},
    }


def _compare_torn(findings: Findings, known: Declared, declarations: Declarations, torn: Torn) -> None:
    """Refuse another plan while some states have transactions that others lack: the same plan must process them."""
    before, now = known.plan, declarations.plan
    joining = [name for name in declarations.outputs if name not in findings.record.states]
    if before == now or not (before or joining):
        return
    elsewhere = (
        f" and not in {' and '.join(torn.lacking)}"
        if torn.lacking
        else "; whether the rest has committed too isn't known"
    )
    findings.accepted(
        "torn",
        f"{torn.txids[0]}-{torn.txids[-1]}",
        before,
        now,
        f"{span(torn.txids)} {'is' if len(torn.txids) == 1 else 'are'} in {' and '.join(torn.having)}{elsewhere}, "
        f"because of a crash between their commits. Now spouts, states, or the operations "
        f"before them have changed, so some would have these transactions by one plan, some by another or not at all. "
        f"To fix this: start the version that began them once more and stop() it, which commits them; functions may "
        f"change. If this is intended",
    )
