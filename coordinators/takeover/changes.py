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

from attrs import evolve, frozen

from coordinators.record.declarations import Declaration, Declarations, Declared, StoredDeclaration
from coordinators.record.record import CoordinatorRecord
from coordinators.takeover.corrections import SpoutCorrection, with_corrections
from coordinators.takeover.findings import Findings, span
from coordinators.takeover.output_changes import OutputChanges
from coordinators.takeover.spout_changes import SpoutChanges
from coordinators.takeover.takeover import Torn
from coordinators.values.errors import TopologyError

log = logging.getLogger(__name__)


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
    """Return ``record`` with what is declared now in it, for a takeover; what has changed is logged.

    Raises:
        TopologyError: something has changed that is neither harmless nor accepted.
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
    """Return what has changed between what ``record`` knows and ``declarations``.

    ``torn``: what only some states have. ``corrections``: data of batches that failed, changed in place.
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
    """Return what the record says was declared; without declarations in it, names are all that is known."""
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
            "the record is of a release that kept no declarations: what is declared now is taken for unchanged"
        )
    return known


def _remembered(
    before: Mapping[str, StoredDeclaration], now: Mapping[str, Declaration], left: Mapping[str, int]
) -> dict[str, StoredDeclaration]:
    """Return what the record is to say: what is declared now, and what was before, with when it was left out."""
    return {
        **{name: evolve(each, until=left.get(name, each.until)) for name, each in before.items()},
        **{name: StoredDeclaration.of(each) for name, each in now.items()},
    }


def _compare_torn(findings: Findings, known: Declared, declarations: Declarations, torn: Torn) -> None:
    """Refuse another plan while some states have transactions that others lack: those need the same of them."""
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
        f"since a crash came between their commits; spouts, states, or what leads to "
        f"them, are others now, so some would have these transactions of one plan, some of another or not at all. "
        f"Start the version that began them once more and stop() it, which commits them; functions may change. If "
        f"this is meant",
    )
