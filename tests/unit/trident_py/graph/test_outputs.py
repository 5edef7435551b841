"""What outputs are given, and what they say of themselves; see `trident_py.graph.outputs`."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tests.unit.trident_py.worker.aggregators import Longest, Total
from trident_py.graph.graph import Graph
from trident_py.graph.output import OutputPlace
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.interfaces.states import StateUpdater
from trident_py.operations.builtin import Sum
from trident_py.participants.context import ParticipantContext
from trident_py.planner.plan import Plan, plan
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState, MemoryMapStateFactory
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Append(StateUpdater[Any]):
    def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None: ...


class Nowhere(TransactionalSink[None]):
    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        return None

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> None: ...

    def commit(self, tx: SinkTransaction, receipt: None) -> None: ...

    def abort(self, tx: SinkTransaction, receipt: None) -> None: ...


class Declared:
    """A topology with one stream, and the plan of what is declared on it."""

    def __init__(self) -> None:
        self.topology = TridentTopology("wordcount")
        self.words = self.stream("lines", "word string, n int")

    def stream(self, tx_id: str, schema: str) -> Stream:
        return self.topology.new_stream(tx_id, FixedBatchSpout(schema, 2))

    @property
    def graph(self) -> Graph:
        return self.topology._graph

    @property
    def plan(self) -> Plan:
        return plan(self.graph)

    @property
    def branches(self) -> list[tuple[str, type]]:
        return [(branch.name, type(branch.output and branch.output.output)) for branch in self.plan.branches]


@pytest.fixture
def declared() -> Declared:
    return Declared()


def memory() -> MemoryMapStateFactory:
    return MemoryMapState.factory()


CONTEXT = ParticipantContext(config=TridentConfig(), metrics=Metrics())


def participant(place: OutputPlace | None) -> Any:
    assert place is not None
    return place.participant(CONTEXT)


def fields(text: str) -> StructType:
    return schema_of(text)


def test_a_combiner_is_given_keys_and_a_partial_value(declared: Declared) -> None:
    factory = memory()
    declared.words.group_by("word").persistent_aggregate(factory, Sum("n"), "total")
    declared.words.persistent_aggregate(memory(), Longest(), "longest string")
    grouped, whole = (branch.output for branch in declared.plan.branches)
    assert grouped is not None
    assert whole is not None
    assert (grouped.output.factory, grouped.new_values) == (factory, None)
    assert grouped.fields == fields("word string, total bigint")
    assert whole.fields == fields("longest string")
    assert [(each.keys, each.inputs) for each in map(participant, (grouped, whole))] == [(1, []), (0, [])]


def test_a_reducer_is_given_keys_and_what_it_sees_of_every_row(declared: Declared) -> None:
    declared.words.group_by("word").persistent_aggregate(memory(), Total(), "total int", in_fields="n")
    declared.words.group_by("word").persistent_aggregate(memory(), Total(), "total int")
    declared.words.persistent_aggregate(memory(), Total(), "total int")
    places = [branch.output for branch in declared.plan.branches]
    assert [place and place.fields for place in places] == [
        fields("word string, n int"), fields("_key_word string, word string, n int"), fields("word string, n int"),
    ]  # fmt: skip
    assert [(each.keys, each.inputs) for each in map(participant, places)] == [
        (1, ["n"]), (1, ["word", "n"]), (0, ["word", "n"]),
    ]  # fmt: skip


def test_an_updater_is_given_its_fields_and_a_sink_all(declared: Declared) -> None:
    declared.words.partition_persist(memory(), Append(), ["n", "word"], "size int")
    sink = Nowhere()
    declared.words.write_to(sink)
    persist, write = (branch.output for branch in declared.plan.branches)
    assert persist is not None
    assert persist.fields == fields("n int, word string")
    assert participant(persist).outputs == ["size"]
    assert write is not None
    assert write.fields == fields("word string, n int")
    assert participant(write).sink is sink
