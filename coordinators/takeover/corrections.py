"""Data that were corrected in place: a batch that failed is defined anew, as the user has accepted.

A definition that is stored is given again as it is, whatever fails. One thing may replace it: the source's bytes were
corrected while the topology stood still. That is safe only at a takeover, after every fence was raised, and where no
output has the transaction: nothing of the old definition was counted then, and nothing of it can still be. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from coordinators.record.record import CoordinatorRecord
from coordinators.takeover.changes import Findings, span
from coordinators.takeover.takeover import Torn
from coordinators.values.batch_coordinator import BatchCoordinator, Correction
from coordinators.values.cursors import Cursors


@frozen
class SpoutCorrection:
    """What the spout ``spout`` would give instead of what its stored definitions say."""

    spout: str
    correction: Correction[Any]


def corrections_of(
    record: CoordinatorRecord, coordinators: Mapping[str, BatchCoordinator[Any]]
) -> Iterator[SpoutCorrection]:
    """Ask each spout what was corrected of its batches, if one that is not committed has failed by its own fault."""
    if not any(failure.count and txid >= record.current_txid for txid, failure in record.failures.items()):
        return
    for spout, coordinator in coordinators.items():
        definitions = {
            number: each[spout]
            for number, each in sorted(record.metadata.items())
            if spout in each and record.numbers.txid(number) >= record.current_txid
        }
        if definitions and (found := coordinator.corrected(definitions)):
            yield SpoutCorrection(spout, found)


def with_corrections(
    findings: Findings, record: CoordinatorRecord, torn: Torn | None, corrections: Iterable[SpoutCorrection]
) -> CoordinatorRecord:
    """Return ``record`` with the definitions that were corrected, if the user accepts them; otherwise refuse."""
    for each in corrections:
        found = each.correction
        txids = [record.numbers.txid(number) for number in sorted(found.definitions)]
        if torn is not None and txids[0] in torn.txids:
            findings.refusals.append(
                f"spout {each.spout!r}: {found.what}, but {' and '.join(map(repr, torn.having))} "
                f"{'has' if len(torn.having) == 1 else 'have'} transaction {txids[0]} as it was read before, so it "
                f"can't be read anew; put back what was there"
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
