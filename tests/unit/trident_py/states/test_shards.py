"""States in several parts: each key in one of them, every part in every transaction, and queries where the key is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.given import Given
from trident_py.engine.wiring.assembly import participant_of
from trident_py.errors import TopologyError
from trident_py.graph.queries import state_queries
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import QueryFunction, State, StateFactory, StateUpdater
from trident_py.operations.builtin import Count
from trident_py.operations.queries import MapGet
from trident_py.participants.context import ParticipantContext
from trident_py.participants.states import StateParticipant
from trident_py.planner.plan import plan
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.maps import BackedMap, IBackingMap, OpaqueMap, TransactionalMap
from trident_py.states.memory import MemoryMapState
from trident_py.states.shards import PartitionedState, gathered, spread
from trident_py.states.values import OpaqueValue
from trident_py.streams.stream import Stream, TridentState
from trident_py.topology import TridentTopology


def transaction(txid: int) -> SinkTransaction:
    return SinkTransaction(TransactionKey("uuid", 0, txid), TransactionAttempt(txid, 0), 1)


@define(eq=False)
class Shard(State):
    """Writes down what it is told."""

    index: int
    heard: list[Any] = field(factory=list)

    def begin_commit(self, txid: int) -> None:
        self.heard.append(f"begin {txid}")

    def commit(self, txid: int) -> None:
        self.heard.append(f"commit {txid}")


@define(eq=False)
class Shards(StateFactory, StateUpdater[Shard]):
    """Makes shards, and hands them rows."""

    made: list[Shard] = field(factory=list)

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        assert partition_index == len(self.made) < num_partitions
        self.made.append(Shard(partition_index))
        return self.made[-1]

    def update_state(self, state: Shard, tuples: Sequence[Any], collector: Any) -> None:
        state.heard.append([tuple(row) for row in tuples])


@define
class Store(IBackingMap[Any]):
    values: dict[tuple[Any, ...], Any]

    def multi_get(self, keys: Sequence[Sequence[Any]]) -> list[Any]:
        return [self.values.get(tuple(key)) for key in keys]

    def multi_put(self, keys: Sequence[Sequence[Any]], values: Sequence[Any]) -> None:
        self.values.update(zip(map(tuple, keys), values, strict=True))


def stream() -> tuple[TridentTopology, Stream]:
    topology = TridentTopology("parts")
    return topology, topology.new_stream("words", FixedBatchSpout("word string, n int", 1, ("a", 1)))


def participant(topology: TridentTopology) -> StateParticipant:
    (branch,) = plan(topology._graph).branches
    found = participant_of(branch, ParticipantContext(config=TridentConfig(), metrics=Metrics()))
    assert isinstance(found, StateParticipant)
    return found


ROWS: list[Any] = [("a", 1), ("b", 2), ("c", 3), ("a", 4), (None, 5)]
COUNTED = "word string, count bigint"


@pytest.mark.parametrize(
    "declare",
    [
        lambda words, shards: (
            words.partition_by("word").parallelism_hint(3).partition_persist(shards, shards, ("word", "n"))
        ),
        lambda words, shards: (
            words.partition_by("word").partition_persist(shards, shards, ("word", "n")).parallelism_hint(3)
        ),
    ],
)
def test_ts2_st3_rows_with_the_same_key_go_to_one_part_and_every_part_commits(declare: Any) -> None:
    shards = Shards()
    topology, words = stream()
    declare(words, shards)
    participant(topology).apply(transaction(7), Given(ROWS, "word string, n int"))
    assert [each.index for each in shards.made] == [0, 1, 2]
    rows: dict[str | None, set[int]] = {}
    for shard in shards.made:
        begin, its, commit = shard.heard
        assert (begin, commit) == ("begin 7", "commit 7")
        for word, _ in its:
            rows.setdefault(word, set()).add(shard.index)
    assert all(len(parts) == 1 for parts in rows.values())
    assert set(rows) == {"a", "b", "c", None}
    given_rows = [row for shard in shards.made for row in shard.heard[1]]
    assert sorted(given_rows, key=lambda row: row[1]) == ROWS


def test_ts2_values_by_key_are_kept_and_found_in_their_parts() -> None:
    stores: list[dict[Any, Any]] = []

    def store() -> Store:
        stores.append({})
        return Store(stores[-1])

    topology, words = stream()
    counts = words.group_by("word").persistent_aggregate(OpaqueMap.factory(store), Count(), "count")
    assert isinstance(counts.parallelism_hint(4), TridentState)
    words.state_query(counts, "word", MapGet(), "count bigint")
    counting = next(
        participant_of(branch, ParticipantContext(config=TridentConfig(), metrics=Metrics()))
        for branch in plan(topology._graph).branches
        if branch.output is not None
    )
    assert isinstance(counting, StateParticipant)
    for txid in (1, 2):
        counting.apply(transaction(txid), Given([("a", 1), ("b", 2), ("c", 3), (None, 4)], COUNTED))
    assert len(stores) == 4
    assert sorted(len(each) for each in stores) != [0, 0, 0, 4]
    ((query, _),) = state_queries(topology._graph)
    answers = query.answered(counting.state, [("c", 0), ("x", 0), ("a", 0), (None, 0)], schema_of("word string, n int"))
    assert [row[-1] for row in answers] == [6, None, 2, 8]


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("kind", [OpaqueMap, TransactionalMap])
def test_st16_keys_that_move_to_other_parts_over_the_same_store_count_once_also_after_a_crash_in_mid_commit(
    kind: type[BackedMap[Any, Any]], parts: int
) -> None:
    values: dict[Any, Any] = {}
    words = [f"w{number}" for number in range(20)]

    def counting(parts: int, store: type[Store] = Store) -> StateParticipant:
        topology, rows = stream()
        counts = rows.group_by("word").persistent_aggregate(kind.factory(lambda: store(values)), Count(), "count")
        counts.parallelism_hint(parts)
        return participant(topology)

    class Dying(Store):
        def multi_put(self, keys: Sequence[Sequence[Any]], values: Sequence[Any]) -> None:
            if len(self.values) > len(words) // 2:
                raise OSError("it has half of the keys")
            super().multi_put(keys, values)

    with pytest.raises(OSError, match="half"):
        counting(3, Dying).apply(transaction(1), Given([(word, 1) for word in words], COUNTED))
    assert 0 < len(values) < len(words)
    moved = counting(parts)
    for txid in (1, 2):
        moved.apply(transaction(txid), Given([(word, txid) for word in words], COUNTED))
    found = [each.curr if isinstance(each, OpaqueValue) else each.value for each in values.values()]
    assert found == [3] * len(words)


def test_ts2_a_shipped_state_is_one_whatever_is_said_and_so_is_what_is_not_grouped() -> None:
    topology, words = stream()
    words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count").parallelism_hint(4)
    assert not isinstance(participant(topology).state, PartitionedState)
    topology, words = stream()
    words.persistent_aggregate(OpaqueMap.factory(lambda: Store({})), Count(), "count").parallelism_hint(4)
    assert not isinstance(participant(topology).state, PartitionedState)


def test_ts2_a_number_of_parts_is_from_one_on() -> None:
    _, words = stream()
    counts = words.persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    with pytest.raises(TopologyError, match="a number of partitions is an int from 1, not 0"):
        counts.parallelism_hint(0)


@given(st.lists(st.tuples(st.text() | st.none(), st.integers())), st.integers(1, 5))
def test_every_key_is_in_one_part_and_comes_back_in_its_place(keys: list[Any], count: int) -> None:
    parts = [Shard(number) for number in range(count)]
    state: State = PartitionedState(parts) if count > 1 else parts[0]
    found = [(positions, [keys[each] for each in positions]) for _, positions in spread(state, keys)]
    assert len(found) == count
    assert gathered(found, len(keys)) == keys


def test_s15_a_state_of_one_part_is_asked_once_a_batch_also_an_empty_one() -> None:
    asked: list[int] = []

    class Asking(QueryFunction[State, int]):
        def batch_retrieve(self, state: State, args: Sequence[Any]) -> Sequence[int]:
            asked.append(len(args))
            return [0] * len(args)

        def execute(self, row: Any, result: int, collector: Any) -> None:
            collector.emit((result,))

    topology, words = stream()
    counts = words.group_by("word").persistent_aggregate(OpaqueMap.factory(lambda: Store({})), Count(), "count")
    words.state_query(counts, "word", Asking(), "found bigint")
    ((query, _),) = state_queries(topology._graph)
    for rows in ([], [("a", 1), ("b", 2)]):
        query.answered(Shard(0), rows, schema_of("word string, n int"))
    assert asked == [0, 2]
