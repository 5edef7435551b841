"""Topologies that changed: what tests declare, and what a comparison with the record says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from coordinators.record.declarations import Declaration, Declarations
from coordinators.record.record import CoordinatorRecord, decode, encode
from coordinators.takeover.changes import Comparison, compared
from coordinators.values.canonical import Json


def spout(name: str = "lines", *, details: dict[str, Json] | None = None, **identity: Json) -> Declaration:
    said: dict[str, Json] = {"kind": ["FileSpout"], "fields": "value string", "replay": "exact"}
    return Declaration(kind="spout", name=name, identity={**said, **identity}, details=details or {})


def state(name: str = "counts", spouts: str = "lines", **identity: Json) -> Declaration:
    said: dict[str, Json] = {"kind": ["SQLiteState"], "keys": "word string", "aggregator": ["Count"]}
    return Declaration(
        kind="state",
        name=name,
        identity={**said, **identity},
        details={"spouts": spouts},
        fixed=frozenset({"keys"}),
        way="lines > map > persistent_aggregate",
    )


def window(way: str = "lines > window", *, name: str = "lines-window", is_named: bool = False) -> Declaration:
    identity: dict[str, Json] = {"window": "tumbling_count_10"}
    return Declaration(kind="window", name=name, identity=identity, way=way, is_named=is_named)


def ran(record: CoordinatorRecord, *entries: Declaration, upto: int, accept: Sequence[str] = ()) -> CoordinatorRecord:
    """The record after these have run until ``upto`` was committed, and were stopped."""
    found = compared(record, Declarations(entries, accept))
    assert found.refusals == ()
    spouts = [each.name for each in entries if each.kind == "spout"]
    return stored(evolve(found.record, current_txid=upto + 1, metadata={upto: {name: upto * 10 for name in spouts}}))


def stored(record: CoordinatorRecord) -> CoordinatorRecord:
    """What a later process reads."""
    encoded = encode(record)
    return decode(encoded.head, encoded.blobs, where="here")


NEW = CoordinatorRecord(epoch=1)
USUAL = (spout(), state())


def changed(record: CoordinatorRecord, *entries: Declaration, accept: Sequence[str] = ()) -> Comparison:
    return compared(record, Declarations(entries, accept))


def lines(record: CoordinatorRecord, *entries: Declaration, accept: Sequence[str] = ()) -> list[str]:
    found = changed(record, *entries, accept=accept)
    assert found.refusals == ()
    return list(found.lines)


def refusal(record: CoordinatorRecord, *entries: Declaration, accept: Sequence[str] = ()) -> str:
    found = changed(record, *entries, accept=accept)
    assert len(found.refusals) == 1
    return found.refusals[0]


def offered(text: str) -> str:
    found = re.search(r"TridentConfig\(accept=\['([a-z]+:.+:[0-9a-f]{8})'\]\)", text)
    assert found
    return found[1]
