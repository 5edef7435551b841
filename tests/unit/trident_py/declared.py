"""Topologies as tests declare them, and what the planner makes of them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import StateError
from trident_py.graph.commit_rows import CommitWay, NodeRows
from trident_py.graph.graph import Graph
from trident_py.graph.output import CommitStream
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.interfaces.spouts import IBatchSpout, Replay
from trident_py.interfaces.states import State, StateFactory, StateUpdater
from trident_py.participants.context import ParticipantContext
from trident_py.planner.plan import Branch, Plan, plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState, MemoryMapStateFactory
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Ticks(IBatchSpout):
    output_schema = "n int"

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...


class Words(IBatchSpout):
    """One that says what its replays are."""

    output_schema = "word string, n bigint"

    def __init__(self, replay: Replay) -> None:
        self.replay = replay

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...


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


def memory() -> MemoryMapStateFactory:
    return MemoryMapState.factory()


def commit_stream(branch: Branch) -> CommitStream:
    assert branch.output is not None
    assert branch.output.new_values is not None
    return branch.output.new_values


CONTEXT = ParticipantContext(config=TridentConfig(), metrics=Metrics())


def made(stream: CommitStream, values: list[Any]) -> list[list[Any]]:
    """The rows in which each way ends."""
    way = CommitWay.of(stream.origins, stream.ends)
    attempt = TransactionAttempt(1, 0)
    rows = NodeRows(way=way, context=CONTEXT, session=None, attempt=attempt, tables=stream.tables(values))
    return [[tuple(row) for row in rows_of(rows.table(end))] for end in stream.ends]


def fields(text: str) -> StructType:
    return schema_of(text)


class NamedFactory(StateFactory):
    """Holds integers only, in something that has a name."""

    name = "totals"

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        raise AssertionError("nothing is started here")

    def for_fields(self, keys: StructType, value: StructField) -> StateFactory:
        if value.dataType.simpleString() != "bigint":
            raise StateError(f"{value.name!r} is {value.dataType.simpleString()}, only bigint can be held")
        return self
