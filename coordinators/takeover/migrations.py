"""Renamed and dropped parts of a topology: the record under the names that the program declares now.

A takeover calls `with_names` right after it has read the record, so everything else compares new names with new names.
The values of a renamed or changed state are migrated later (`coordinators.takeover.takeover`), and before the record
is written. So a takeover that is killed in between finds the old record again: it renames it again, and the stores
tell which of them are migrated already.

Pure: from a record and declarations to the record to compare.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen

from coordinators.record.bad_rows import BadRow
from coordinators.record.declarations import Declarations, Declared, StoredDeclaration
from coordinators.record.record import CommitIntent, CoordinatorRecord
from coordinators.values.canonical import canonical_json, content_hash
from coordinators.values.errors import TopologyError

log = logging.getLogger(__name__)

T = TypeVar("T")

MIGRATED = "migrated"


@frozen
class Named:
    """A record under the names of the program.

    Attributes:
        lines: the changes to log.
    """

    record: CoordinatorRecord
    lines: tuple[str, ...] = ()


def with_names(topology: str, record: CoordinatorRecord, declarations: Declarations) -> Named:
    """Return ``record`` with the new names of renamed parts, and without dropped ones.

    Parts that the record doesn't have under the old name stay: they are renamed or dropped already.

    Raises:
        TopologyError: a part can't be renamed or dropped now; nothing is changed.
    """
    names = _Names.of(record, declarations)
    refusals = list(names.refusals())
    if refusals:
        raise TopologyError(
            f"topology {topology!r} can't be migrated, and was not started; it is at transaction "
            f"{record.current_txid}: {'; '.join(refusals)}",
            topology=topology,
            txid=record.current_txid,
        )
    return Named(names.renamed(), tuple(names.lines())) if names.has_changes else Named(record)


def renamed(topology: str, record: CoordinatorRecord, declarations: Declarations) -> CoordinatorRecord:
    """Return the record of `with_names`, for a takeover; changes are logged.

    Raises:
        TopologyError: a part can't be renamed or dropped now.
    """
    named = with_names(topology, record, declarations)
    for line in named.lines:
        log.warning("topology %s: %s", topology, line)
    return named.record


def migrated_text(output: str, function: str) -> str:
    """Return the entry of `CoordinatorRecord.accepted` for values that a start has migrated."""
    return f"{MIGRATED}:{output}:{function}"


def migrating(before: CoordinatorRecord, after: CoordinatorRecord) -> frozenset[str]:
    """Return the states with values that are migrated between the two."""
    texts = after.accepted[len(before.accepted) :]
    return frozenset(_output_of(text) for text in texts if _is_migrated(text)) & before.states.keys()


def _is_migrated(text: str) -> bool:
    return text.startswith(f"{MIGRATED}:")


def _output_of(text: str) -> str:
    return text.removeprefix(f"{MIGRATED}:").rpartition(":")[0]


@frozen(kw_only=True)
class _Names:
    """The changes of names.

    Attributes:
        spouts, outputs: by old name, the new name of each part that is renamed.
        dropped_spouts, dropped_outputs: the parts that are dropped.
    """

    record: CoordinatorRecord
    declarations: Declarations
    known: Declared
    spouts: Mapping[str, str]
    outputs: Mapping[str, str]
    dropped_spouts: frozenset[str]
    dropped_outputs: frozenset[str]

    @classmethod
    def of(cls, record: CoordinatorRecord, declarations: Declarations) -> _Names:
        """Return the changes that ``record`` needs."""
        known = Declared.of(record.declared) if record.declared is not None else Declared()
        spouts, outputs = _spouts_in(record) | known.spouts.keys(), record.states.keys() | known.outputs.keys()
        renamed = {each.name: declarations.renamed(each.name) for each in declarations.migrations if each.rename}
        dropped = {each.name for each in declarations.migrations if each.is_dropped}
        return cls(
            record=record,
            declarations=declarations,
            known=known,
            spouts={old: new for old, new in renamed.items() if old in spouts and new in declarations.spouts},
            outputs={old: new for old, new in renamed.items() if old in outputs and new in declarations.outputs},
            dropped_spouts=frozenset(dropped & spouts),
            dropped_outputs=frozenset(dropped & outputs),
        )

    @property
    def has_changes(self) -> bool:
        """Whether the record has a part under an old name."""
        return bool(self.spouts or self.outputs or self.dropped_spouts or self.dropped_outputs)

    def lines(self) -> Iterator[str]:
        """Yield the changes to log."""
        at = self.record.current_txid
        for kind, renamed in (("spout", self.spouts), ("state or sink", self.outputs)):
            for old, new in renamed.items():
                yield f"{kind} {old!r} is called {new!r} from transaction {at} on"
        for name in sorted(self.dropped_spouts):
            yield f"spout {name!r}: its position after transaction {at - 1} is forgotten, as declared"
        for name in sorted(self.dropped_outputs):
            yield f"state or sink {name!r} is let go after transaction {at - 1}, as declared; its data stay as they are"

    def refusals(self) -> Iterator[str]:
        """Yield the reasons why the names can't change now."""
        yield from self._taken()
        for name in sorted(self.dropped_spouts):
            if begun := sorted(number for number in self._uncommitted() if name in self.record.metadata[number]):
                yield (
                    f"spout {name!r} can't be dropped: {len(begun)} of its batches have begun and are not committed. "
                    f"To fix this: start the version that has it once more and stop() it, which commits them"
                )
        for name in sorted({*self.spouts, *self.outputs, *self.dropped_spouts, *self.dropped_outputs}):
            if name in self._parked():
                yield (
                    f"{name!r} can't be renamed or dropped: parked transactions or dead letters have rows of it. "
                    f"To fix this: start the old version, and release or skip them (`trident tx`)"
                )
        yield from self._lost()

    def _taken(self) -> Iterator[str]:
        spouts, outputs = _spouts_in(self.record) | self.known.spouts.keys(), self.record.states.keys()
        for renamed, names in ((self.spouts, spouts), (self.outputs, outputs | self.known.outputs.keys())):
            for old, new in renamed.items():
                if new in names or [*renamed.values()].count(new) > 1:
                    yield (
                        f"{old!r} can't be renamed to {new!r}, which is stored, too: a start without migrate() has "
                        f"begun it, or two parts are renamed to it. To fix this: choose another new name; or let the "
                        f"old one go: topology.migrate({old!r}, drop=True)"
                    )

    def _lost(self) -> Iterator[str]:
        """Yield outputs of renamed spouts that would silently begin again, because their default names have changed."""
        for name, each in self.known.outputs.items():
            read = sorted(set(_listed(each)) & self.spouts.keys())
            kept = self.outputs.get(name, name) in self.declarations.outputs or name in self.dropped_outputs
            if read and each.until is None and not kept and name in self.record.states:
                yield (
                    f"{each.kind} {name!r} reads spout {read[0]!r}, which is renamed, and is not declared any more. If "
                    f"its name was made of the spout's: give it its stored name, by Stream.name({name!r}). If it is "
                    f"left out: topology.migrate({name!r}, drop=True)"
                )

    def _uncommitted(self) -> list[int]:
        return [number for number in self.record.metadata if number > self.record.closed_number]

    def _parked(self) -> set[str]:
        parked = self.record.parked
        entries = [*parked.entries, *([parked.parking.entry] if parked.parking else [])]
        return {name for each in entries for name in (*each.definition, *each.stored, each.letters_of)}

    def renamed(self) -> CoordinatorRecord:
        """Return the record under the new names."""
        record, spouts = self.record, self._of(self.spouts, self.dropped_spouts)
        outputs = self._of(self.outputs, self.dropped_outputs)
        metadata = {number: spouts(each) for number, each in record.metadata.items()}
        return evolve(
            record,
            metadata=metadata,
            cursors=spouts(record.cursors),
            fingerprints={number: spouts(each) for number, each in record.fingerprints.items()},
            resting=spouts(record.resting),
            failures={
                txid: evolve(each, spout=None if each.spout is None else self.spouts.get(each.spout, each.spout))
                for txid, each in record.failures.items()
            },
            committing=tuple(self._pin(pin, metadata) for pin in record.committing),
            states=outputs(record.states),
            gaps=outputs(record.gaps),
            accepted=tuple(self._accepted(text) for text in record.accepted),
            bad_rows={txid: kept for txid, rows in record.bad_rows.items() if (kept := self._bad_rows(rows))},
            declared=None if record.declared is None else self._declared().json,
        )

    def _accepted(self, text: str) -> str:
        """Return the text under the new name of its state: a function that has migrated it never does it again."""
        name = _output_of(text)
        if not _is_migrated(text) or name not in self.outputs:
            return text
        return migrated_text(self.outputs[name], text.rpartition(":")[2])

    def _bad_rows(self, rows: Sequence[BadRow]) -> tuple[BadRow, ...]:
        return tuple(
            evolve(
                each, branch=self.outputs.get(each.branch, each.branch), spout=self.spouts.get(each.spout, each.spout)
            )
            for each in rows
            if each.branch not in self.dropped_outputs
        )

    def _pin(self, pin: CommitIntent, metadata: Mapping[int, Mapping[str, Any]]) -> CommitIntent:
        """Return the intent with the hash of the renamed definition, if it is of the stored definition."""
        txid = pin.attempt.txid
        before = self.record.definition(txid)
        if pin.hash != content_hash(canonical_json(dict(before))):
            return pin
        now = evolve(self.record, metadata=metadata).definition(txid)
        return evolve(pin, hash=content_hash(canonical_json(dict(now))))

    def _declared(self) -> Declared:
        known = self.known
        spouts = self._of(self.spouts, self.dropped_spouts)(known.spouts)
        outputs = self._of(self.outputs, self.dropped_outputs)(known.outputs)
        return Declared(
            known.plan,
            {name: evolve(each, name=name) for name, each in spouts.items()},
            {name: self._reading(evolve(each, name=name)) for name, each in outputs.items()},
        )

    def _reading(self, output: StoredDeclaration) -> StoredDeclaration:
        if "spouts" not in output.details:
            return output
        read = ", ".join(self.spouts.get(name, name) for name in _listed(output))
        return evolve(output, details={**output.details, "spouts": read})

    @staticmethod
    def _of(renamed: Mapping[str, str], dropped: frozenset[str]) -> Callable[[Mapping[str, T]], dict[str, T]]:
        return lambda values: {renamed.get(name, name): value for name, value in values.items() if name not in dropped}


def _listed(output: StoredDeclaration) -> list[str]:
    return str(output.details.get("spouts", "")).split(", ")


def _spouts_in(record: CoordinatorRecord) -> set[str]:
    defined = {spout for definitions in record.metadata.values() for spout in definitions}
    return defined | {*record.cursors} | {*record.resting}
