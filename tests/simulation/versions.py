"""Versions of a topology with other stores, compared as the product does, and accepted as a user would."""

from __future__ import annotations

import re
from collections.abc import Sequence

from coordinators.record.declarations import Declaration, Declarations
from coordinators.record.record import CoordinatorRecord
from coordinators.takeover.changes import Findings, SpoutCorrection, compared, with_corrections
from coordinators.takeover.takeover import Torn


def adopted(
    record: CoordinatorRecord, torn: Torn | None, sources: Sequence[str], stores: Sequence[str]
) -> CoordinatorRecord:
    """``record`` with what is declared now; that a store which comes back has a gap is accepted.

    Raises:
        TopologyError: another version began a transaction that only some stores have.
    """
    entries = [Declaration(kind="spout", name=name) for name in sources]
    entries += [Declaration(kind="state", name=name) for name in stores]
    refused = compared(record, Declarations(entries), torn).refusals
    accept = [found[1] for text in refused if (found := re.search(r"accept=\['(state:[^']+)'\]", text))]
    comparison = compared(record, Declarations(entries, accept), torn)
    comparison.check("simulated")
    return comparison.record


def corrected(record: CoordinatorRecord, torn: Torn | None, found: Sequence[SpoutCorrection]) -> CoordinatorRecord:
    """``record`` with the data that were corrected; itself, if that is refused whatever the user says."""
    asked = Findings(record, ())
    with_corrections(asked, record, torn, found)
    accept = [text for each in asked.refusals for text in re.findall(r"accept=\['(corrected:[^']+)'\]", each)]
    findings = Findings(record, accept)
    after = with_corrections(findings, record, torn, found)
    return record if findings.refusals else after
