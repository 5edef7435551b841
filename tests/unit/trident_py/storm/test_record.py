"""Imports of a model of Storm that is stopped after each of its writes; a count of the lines is the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import pytest
from attrs import evolve

from coordinators.record.declarations import Declarations
from coordinators.record.record import CoordinatorRecord
from tests.storm_data.dumps import ExactLines, FullLines, OpaqueLines
from tests.storm_data.model import EXACT, FULL, OPAQUE, StateModel, StormModel, counted, stored_nodes
from trident_py.errors import StateError
from trident_py.spouts.adapting import as_trident_spout
from trident_py.storm import record as records
from trident_py.storm.record import Verdict, imported_record, verdict
from trident_py.storm.snapshot import StormSnapshot, StormSpout
from trident_py.storm.spouts import DefiningSpout, ImportedSpout, PartitionedSpout, imported_spout
from trident_py.storm.states import StormKind, StormState, StormValues

SPOUTS = {
    EXACT: as_trident_spout(ExactLines()),
    OPAQUE: as_trident_spout(OpaqueLines()),
    FULL: as_trident_spout(FullLines()),
}
ONE_OPAQUE, MORE_OPAQUE = StateModel(StormKind.OPAQUE, 1), StateModel(StormKind.OPAQUE, 2)
ONE_TRANSACTIONAL, MORE_TRANSACTIONAL = StateModel(StormKind.TRANSACTIONAL, 1), StateModel(StormKind.TRANSACTIONAL, 2)
STATES: Sequence[Sequence[StateModel]] = (
    [ONE_OPAQUE],
    [MORE_OPAQUE],
    [ONE_TRANSACTIONAL],
    [MORE_TRANSACTIONAL],
    [MORE_OPAQUE, ONE_TRANSACTIONAL],
    [ONE_OPAQUE, ONE_TRANSACTIONAL],
    [ONE_TRANSACTIONAL, ONE_TRANSACTIONAL],
)


def models() -> Iterator[StormModel]:
    """Yield every model, stopped at every moment."""
    for spout, states, spout_first, cleans_first in product(SPOUTS, STATES, (False, True), (False, True)):
        model = StormModel(spout, states, spout_first, cleans_first)
        for _ in model.run():
            yield model


def snapshot_of(model: StormModel) -> StormSnapshot:
    return StormSnapshot("storm", True, {"lines": StormSpout.of("lines", stored_nodes(model))})


def values_of(model: StormModel) -> list[StormValues]:
    return [
        StormValues.of(str(number), StormState(kind=state.kind, hash=str(number), has_one_task=state.tasks == 1), texts)
        for number, (state, texts) in enumerate(zip(model.states, model.values, strict=True))
    ]


def imported(model: StormModel, others: Sequence[str] = ()) -> tuple[Verdict, CoordinatorRecord]:
    """Return what an import makes of a stopped topology.

    Raises:
        StateError: it is refused.
    """
    snapshot, states = snapshot_of(model), values_of(model)

    def spouts(current: int) -> dict[str, ImportedSpout]:
        return {"lines": imported_spout(SPOUTS[model.spout], snapshot.spouts["lines"], current, "storm")}

    found = verdict("ours", snapshot, states, others, spouts(snapshot.current))
    record = imported_record(
        epoch=1,
        verdict=found,
        attempts=snapshot.attempts,
        spouts=spouts(found.txid + 1),
        states=[each.name for each in states],
        declarations=Declarations(),
        mark="imported:storm:1",
    )
    return found, record


def position_of(model: StormModel, record: CoordinatorRecord) -> int:
    """Return the number of the line that follows the last committed transaction."""
    if model.spout == FULL:
        before: Any = record.metadata.get(record.current_txid - 1, {}).get("lines", {"to": 0})
        return int(before["to"])
    cursors: Any = dict(record.cursors["lines"].items()) if "lines" in record.cursors else {}
    return int(cursors.get("p", {"to": 0})["to"])


def check(model: StormModel) -> bool:
    """Check one import; return whether it was refused.

    Every line up to the position is in each state, once, and the pending batches follow without a gap.
    """
    try:
        found, record = imported(model)
    except StateError:
        last = max(int(path.rpartition("/")[2]) for path in model.nodes if path.startswith("coordinator/meta"))
        unsure = [each for each in model.states if each.kind is StormKind.TRANSACTIONAL]
        assert unsure, f"refused at {last}, and every state can be brought back: {model}"
        return True
    at = position_of(model, record)
    for values in values_of(model):
        assert dict(values.at(found.txid)) == dict(counted(at)), f"{values.name} is not at line {at}: {model}"
    pending = [ends for txid in record.attempt_ids if (ends := batch_of(model, record, txid))]
    for before, after in pairwise([(0, at), *pending]):
        assert before[1] == after[0], f"there is a gap between {before} and {after}: {model}"
    return False


def batch_of(model: StormModel, record: CoordinatorRecord, txid: int) -> tuple[int, int] | None:
    definition: Any = record.metadata[txid]["lines"]
    lines = definition if model.spout == FULL else definition.get("extents", {}).get("p")
    return lines and (lines["from"], lines["to"])


def test_every_import_of_a_storm_that_stops_anywhere_counts_each_line_once() -> None:
    refused = [check(model) for model in models()]
    assert len(refused) > 2_000
    assert 0 < sum(refused) < len(refused) / 5


def mutated(place: object, name: str, mutant: object) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patched: patched.setattr(place, name, mutant)


def never_whole(self: StormValues, current: int) -> frozenset[int]:
    return frozenset({current - 1})


def always_whole(self: StormValues, current: int) -> frozenset[int]:
    return POSSIBLE(StormValues(self.name, evolve(self.state, has_one_task=True), self.by_key), current)


def never_refused(*given: Any) -> Verdict:
    """Bring everything to the transaction that one state has."""
    _, snapshot, states, *_ = given
    txids = {snapshot.current - 1}.union(*(each.possible(snapshot.current) for each in states))
    return Verdict(txid=max(txids), is_recorded=False)


POSSIBLE = StormValues.possible

PARTITIONED: Any = PartitionedSpout.cursors
DEFINING: Any = DefiningSpout.definition

MUTANTS = {
    "the values of an uncommitted transaction stay": mutated(
        StormValues, "at", lambda self, _: ((key, each.value) for key, each in self.by_key.items())
    ),
    "a transactional state never has an uncommitted transaction": mutated(StormValues, "possible", never_whole),
    "all tasks have what one has": mutated(StormValues, "possible", always_whole),
    "other states have what one has": mutated(records, "verdict", never_refused),
    "an opaque batch is what it was": mutated(PartitionedSpout, "knows_batch", property(lambda _: True)),
    "an announced success is none": mutated(StormSpout, "is_announced", property(lambda _: False)),
    "cursors move when a batch is emitted": mutated(
        PartitionedSpout,
        "cursors",
        lambda self, last: PARTITIONED(evolve(self, current=last + 1), last),
    ),
    "the batch before the first is forgotten": mutated(
        DefiningSpout, "definition", lambda self, txid: DEFINING(self, txid) if txid >= self.current else None
    ),
}


@pytest.mark.parametrize("rule", MUTANTS)
def test_an_import_without_one_of_its_rules_is_found_out(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[rule](monkeypatch)
    monkeypatch.setattr(f"{__name__}.verdict", records.verdict)
    with pytest.raises(AssertionError):
        list(map(check, models()))


def exact(name: str, metadata: dict[int, int], current: int | None = None, **more: Any) -> StormSpout:
    return StormSpout(tx_id=name, current=current, metadata=metadata, **more)


def record_of(spouts: dict[str, StormSpout]) -> CoordinatorRecord:
    snapshot = StormSnapshot("storm", True, spouts)
    current = snapshot.current
    taken = {name: DefiningSpout(stored=each, current=current, is_exact=True) for name, each in snapshot.spouts.items()}
    return imported_record(
        epoch=7,
        verdict=verdict("ours", snapshot, [], [], taken),
        attempts=snapshot.attempts,
        spouts=taken,
        states=[],
        declarations=Declarations(),
        mark="mark",
    )


def test_pending_transactions_end_where_one_of_the_spouts_has_defined_none() -> None:
    a = exact("a", {4: 40, 5: 50, 6: 60, 8: 80}, 5, attempts={3: 9, 5: 2, 6: 0, 8: 0})
    record = record_of({"a": a, "b": exact("b", {4: 41, 5: 51, 6: 61, 7: 71, 8: 81}, 5)})
    assert record.current_txid == 5
    assert record.attempt_ids == {5: 2, 6: 0}
    assert record.metadata == {4: {"a": 40, "b": 41}, 5: {"a": 50, "b": 51}, 6: {"a": 60, "b": 61}}
    assert (record.success_upto, record.epoch, record.accepted) == (4, 7, ("mark",))


def test_a_topology_that_has_committed_nothing_begins_with_its_first_transaction() -> None:
    record = record_of({"a": exact("a", {1: 10}, attempts={1: 4})})
    assert (record.current_txid, record.attempt_ids, record.metadata) == (1, {1: 4}, {1: {"a": 10}})


def test_an_output_that_is_not_imported_needs_the_transaction_again() -> None:
    model = StormModel(EXACT, [ONE_TRANSACTIONAL], spout_first=False, cleans_first=False)
    has_unrecorded = 0
    for _ in model.run():
        try:
            found, _ = imported(model)
        except StateError:
            continue
        if not found.is_recorded:
            has_unrecorded += 1
            with pytest.raises(StateError, match="state '0' has it, and 'topic' may lack it; nothing was imported"):
                imported(model, ["topic"])
    assert has_unrecorded
