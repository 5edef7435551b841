"""What a crash leaves between the commits of a group, and what the next start makes of it: real states, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, evolve, field
from pyspark.sql.types import LongType, StringType, StructField, StructType

from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import InMemoryCoordination, InMemoryRecordStore
from coordinators.takeover.takeover import Torn, recover
from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.given import Given
from trident_py.engine.wiring.assembly import check_fed
from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.operations.builtin import Count
from trident_py.participants.participant import Participant, everything
from trident_py.participants.states import AggregateParticipant
from trident_py.states.sql.sqlite import SQLiteState

WORDS = StructType([StructField("word", StringType())])
NEW_VALUES = StructType([*WORDS.fields, StructField("count", LongType())])


@define
class World:
    """A topology over a SQLite database: what outlives its processes, and the one that runs."""

    at: Path
    coordination: InMemoryCoordination = field(factory=InMemoryCoordination)
    store: InMemoryRecordStore = field(init=False)
    torn: list[Torn | None] = field(factory=list)
    participants: list[Participant] = field(factory=list)

    def start(self, *participants: Participant) -> CoordinatorRecord:
        """A leader with these participants; the one before is gone."""
        self.crash()
        self.participants, self.store = list(participants), self.coordination.acquire()
        return recover(self.store, everything(self.participants), adopt=self._adopt)

    def _adopt(self, record: CoordinatorRecord, torn: Torn | None) -> CoordinatorRecord:
        self.torn.append(torn)
        return check_fed("t", self.participants, record)

    def crash(self) -> None:
        for participant in self.participants:
            participant.close()

    def attempted(self, *txids: int) -> None:
        """What is durable before these are emitted."""
        record = self.store.read()
        assert record is not None
        attempts = {**record.attempt_ids, **dict.fromkeys(txids, 0)}
        metadata: dict[int, dict[str, Any]] = {txid: {"spout": txid} for txid in attempts}
        self.store.write(evolve(record, seq=record.seq + 1, attempt_ids=attempts, metadata=metadata))

    def counting(self, table: str, downstream: AggregateParticipant | None = None) -> AggregateParticipant:
        """A state in ``table``; ``downstream`` takes its new values."""
        factory = SQLiteState(self.at / "state.db", table=table).for_fields(WORDS, StructField("count", LongType()))
        return AggregateParticipant(
            name=table,
            state=factory.make_state(TridentConfig(), Metrics(), 0, 1),
            aggregator=Count(),
            keys=1,
            downstream=(lambda tx, rows, _: downstream.apply(tx, Given(rows, NEW_VALUES))) if downstream else None,
            downstream_outputs=(downstream,) if downstream else (),
        )

    def commit(self, participant: Participant, *txids: int, attempt_id: int = 0, group_first: int) -> None:
        """One step of a group: each transaction counts a word of its own."""
        identity = self.store.identity
        transactions = [
            SinkTransaction(
                TransactionKey(identity.uuid, identity.incarnation, txid),
                TransactionAttempt(txid, attempt_id),
                self.store.epoch,
                group_first=group_first,
            )
            for txid in txids
        ]
        changes = [pa.table({"word": [f"word {txid}"], "count": [1]}) for txid in txids]
        participant.commit_group(list(zip(transactions, changes, strict=True)))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.crash()


def counted(participant: AggregateParticipant) -> list[Any]:
    state: Any = participant.state
    return sorted(state.get_tuples())


@pytest.mark.parametrize("steps", [[[1, 2, 3]], [[1], [2], [3]], [[1], [2, 3]]], ids=str)
def test_a_group_that_was_not_recorded_is_closed_however_its_steps_were_cut(
    world: World, steps: list[list[int]]
) -> None:
    counts = world.counting("counts")
    world.start(counts)
    world.attempted(1, 2, 3, 4)
    for step in steps:
        world.commit(counts, *step, group_first=1)
    counts = world.counting("counts")
    record = world.start(counts)
    assert (record.current_txid, record.attempt_ids, world.torn[-1]) == (4, {1: 0, 2: 0, 3: 0, 4: 0}, None)
    world.commit(counts, 4, attempt_id=1, group_first=4)
    assert counted(counts) == [(f"word {txid}", 1) for txid in (1, 2, 3, 4)]


@pytest.mark.parametrize("told", [1, 3], ids=["steps know their group", "as the release at 230fe66 kept them"])
def test_a_state_that_is_ahead_by_steps_takes_what_the_others_lack(world: World, told: int) -> None:
    first, second = world.counting("first"), world.counting("second")
    world.start(first, second)
    world.attempted(1, 2, 3)
    for txid in (1, 2, 3):
        world.commit(first, txid, group_first=min(told, txid))
    for txid in (1, 2):
        world.commit(second, txid, group_first=min(told, txid))
    first, second = world.counting("first"), world.counting("second")
    assert world.start(first, second).current_txid == 3
    assert world.torn[-1] == Torn(range(3, 4), ("first",), ("second",))
    for participant in (first, second):
        world.commit(participant, 3, attempt_id=1, group_first=3)
    assert counted(first) == counted(second) == [(f"word {txid}", 1) for txid in (1, 2, 3)]


def test_a_torn_group_is_skipped_by_who_has_it_and_taken_by_who_lacks_it(world: World) -> None:
    first, second = world.counting("first"), world.counting("second")
    world.start(first, second)
    world.attempted(1, 2, 3)
    world.commit(first, 1, 2, 3, group_first=1)
    for _ in range(2):  # a start that crashes at once changes nothing
        first, second = world.counting("first"), world.counting("second")
        assert world.start(first, second).current_txid == 1
        assert world.torn[-1] == Torn(range(1, 4), ("first",), ("second",))
    for participant in (first, second):
        world.commit(participant, 1, attempt_id=1, group_first=1)
        world.commit(participant, 2, 3, attempt_id=1, group_first=2)
    assert counted(first) == counted(second) == [(f"word {txid}", 1) for txid in (1, 2, 3)]


def test_a_state_that_is_fed_joins_behind_what_its_parent_has(world: World) -> None:
    counts = world.counting("counts")
    world.start(counts)
    world.attempted(1, 2, 3)
    world.commit(counts, 1, 2, 3, group_first=1)
    audit = world.counting("audit")
    counts = world.counting("counts", downstream=audit)
    record = world.start(counts)
    assert (record.current_txid, record.states, world.torn[-1]) == (4, {"counts": 1, "audit": 4}, None)
    world.commit(counts, 4, attempt_id=1, group_first=4)
    assert counted(audit) == [("word 4", 1)]


def test_what_joins_behind_new_values_while_a_group_is_torn_is_refused(world: World) -> None:
    counts, totals = world.counting("counts"), world.counting("totals")
    world.start(counts, totals)
    world.attempted(1, 2, 3)
    world.commit(counts, 1, 2, 3, group_first=1)
    before = world.store.read()
    with pytest.raises(
        StateError, match=r"'audit' can't join .* 'counts' now: transactions 1 to 2 .* transaction 3 is"
    ):
        world.start(world.counting("counts", downstream=world.counting("audit")), world.counting("totals"))
    assert world.store.read() == before
    counts, totals = world.counting("counts"), world.counting("totals")
    assert world.start(counts, totals).current_txid == 1
    for participant in (counts, totals):
        world.commit(participant, 1, 2, 3, group_first=1)
    audit = world.counting("audit")
    counts = world.counting("counts", downstream=audit)
    assert world.start(counts, world.counting("totals")).current_txid == 4


def test_one_transaction_that_is_torn_is_no_reason_to_refuse_what_joins(world: World) -> None:
    counts, totals = world.counting("counts"), world.counting("totals")
    world.start(counts, totals)
    world.attempted(1)
    world.commit(counts, 1, group_first=1)
    audit = world.counting("audit")
    counts = world.counting("counts", downstream=audit)
    assert world.start(counts, world.counting("totals")).current_txid == 1
    world.commit(counts, 1, attempt_id=1, group_first=1)
    assert counted(counts) == counted(audit) == [("word 1", 1)]


def test_a_state_that_is_fed_takes_what_only_its_parent_has(world: World) -> None:
    audit = world.counting("audit")
    counts = world.counting("counts", downstream=audit)
    world.start(counts)
    world.attempted(1)
    counts.downstream = None  # the crash comes between the two
    world.commit(counts, 1, group_first=1)
    audit = world.counting("audit")
    counts = world.counting("counts", downstream=audit)
    assert world.start(counts).current_txid == 1
    assert world.torn[-1] == Torn(range(1, 2), ("counts",), ("audit",))
    world.commit(counts, 1, attempt_id=1, group_first=1)
    assert counted(counts) == counted(audit) == [("word 1", 1)]
