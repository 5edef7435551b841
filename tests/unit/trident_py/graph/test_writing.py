"""Which streams a sink may take; see `trident_py.graph.writing`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.trident_py.declared import Nowhere, Words
from trident_py.errors import TopologyError
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.sinks.delta.sink import DeltaSink
from trident_py.sinks.sql.sink import SQLSink
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


def upsert(keys: str = "word") -> TransactionalSink[Any]:
    return SQLSink("sqlite:///latest.db", "latest", mode="upsert", keys=keys)


def words(topology: TridentTopology, replay: Replay = Replay.OPAQUE) -> Stream:
    return topology.new_stream("words", Words(replay))


def new_values(stream: Stream, *keys: str, factory: StateFactory | None = None) -> Stream:
    state = stream.group_by(*keys).persistent_aggregate(
        factory or SQLiteState("s.db", table="counts"), Count(), "count"
    )
    return state.new_values_stream()


def test_a_sink_takes_one_stream() -> None:
    stream, sink = words(TridentTopology("one")), Nowhere()
    stream.name("first").write_to(sink)
    with pytest.raises(TopologyError, match="this sink is 'first' already; a sink takes one stream"):
        stream.write_to(sink)


@pytest.mark.parametrize("sink", [upsert(), DeltaSink("latest", mode="merge", keys="word")])
def test_what_replaces_rows_takes_the_new_values_of_a_state_with_its_keys_behind_an_opaque_spout(
    sink: TransactionalSink[Any],
) -> None:
    topology = TridentTopology("latest")
    new_values(words(topology), "word").name("latest").write_to(sink)
    [line] = [line.strip() for line in topology.explain().splitlines() if "a replay also brings the keys" in line]
    assert line.startswith("exactly-once: ")


@pytest.mark.parametrize(
    "declare",
    [
        lambda stream: stream.write_to(upsert()),
        lambda stream: stream.write_to(SQLSink("sqlite:///log.db", "log")),
        lambda stream: new_values(stream, "word").write_to(SQLSink("sqlite:///log.db", "log")),
        lambda stream: new_values(stream, "word").filter("count > 1").write_to(upsert()),
        lambda stream: new_values(stream, "word").write_to(upsert("count")),
        lambda stream: new_values(stream, "word", "n").write_to(upsert()),
        lambda stream: new_values(stream, "word", factory=MemoryMapState.factory()).write_to(upsert()),
        lambda stream: new_values(
            stream, "word", factory=SQLiteState("s.db", table="counts", ttl=timedelta(1))
        ).write_to(upsert()),
    ],
)
def test_everything_else_behind_an_opaque_spout_is_refused(declare: Any) -> None:
    with pytest.raises(TopologyError, match="spout 'words' is opaque: a replay may give other rows, and SQLSink keeps"):
        declare(words(TridentTopology("refused")))
    declare(words(TridentTopology("exact"), Replay.EXACT))


def test_a_sink_that_replaces_rows_says_where_it_is_offered() -> None:
    with pytest.raises(TopologyError, match=r"by its own keys, \['word'\], straight behind new_values_stream\(\)"):
        words(TridentTopology("refused")).write_to(upsert())


def test_a_spout_that_promises_nothing_is_refused_there_too() -> None:
    with pytest.raises(TopologyError, match="spout 'words' is non-transactional: a replay may give other rows"):
        new_values(words(TridentTopology("none"), Replay.NON_TRANSACTIONAL), "word").write_to(upsert())
