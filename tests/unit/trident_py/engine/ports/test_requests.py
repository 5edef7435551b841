"""Requests that run beside batches: who answers, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from coordinators.backends.local import LocalCoordination
from coordinators.protocol.messages import Diagnosis
from coordinators.record.store import RecordStore
from coordinators.values.errors import CoordinationLost
from tests.unit.trident_py.engine.driving import driven
from tests.unit.trident_py.graph.asking import Lengths, LengthsFactory
from trident_py.engine.ports.reads import StateReads
from trident_py.engine.ports.requests import RequestAnswer, Requests
from trident_py.errors import RequestError, TridentError, UnknownFunctionError
from trident_py.graph.queries import requests
from trident_py.operations.queries import MapGet
from trident_py.spark.asking import Life
from trident_py.spark.failures import Place, diagnosed
from trident_py.topology import TridentTopology


def leading() -> RecordStore:
    return LocalCoordination().lead("wordcount")


def diagnosed_alive(error: BaseException, place: Place, doing: str) -> Diagnosis:
    return diagnosed(error, place, doing, lambda: Life.ALIVE)


def test_t7_a_request_whose_caller_has_given_up_lets_commits_go_on_after_the_step_that_it_is_in(
    topology: TridentTopology,
) -> None:
    given_up, later = threading.Event(), list[Any]()

    class Slow(Lengths):
        def multi_get(self, keys: Sequence[Any]) -> list[int | None]:
            given_up.wait()
            return super().multi_get(keys)

    state = topology.new_static_state(LengthsFactory())
    words = topology.new_drpc_stream("lengths").state_query(state, "args", MapGet(), "n int").peek(later.append)
    words.state_query(state, "args", MapGet(), "again int")
    asking = Requests("wordcount", {each.function: each for each in requests(topology._graph)})
    with driven(states={state.name: Slow()}) as running:
        reads = running.streams.workers.reads
        asking.serve(reads, lambda *_: pytest.fail("no Spark here"), diagnosed_alive, leading())
        with pytest.raises(TimeoutError):
            asking.execute("lengths", "to be", 0.01)
        given_up.set()
        assert reads.now(lambda _: "committed") == "committed"
    assert later == []


def test_t7_a_request_of_row_operations_needs_no_spark_and_its_errors_come_back(topology: TridentTopology) -> None:
    words = topology.new_drpc_stream("upper").flat_map(lambda row: [(w.upper(),) for w in row.args.split()], "w string")
    words.map(lambda row: (row.w, 60 // (len(row.w) - 1)), "w string, n int")
    asking = Requests("wordcount", {each.function: each for each in requests(topology._graph)})
    with pytest.raises(TridentError, match="this process is a standby"):
        asking.execute("upper", "a", None)
    store = leading()
    asking.serve(StateReads("wordcount", {}), lambda *_: pytest.fail("no Spark here"), diagnosed_alive, store)
    answer = asking.execute("upper", "to be", None)
    assert answer == RequestAnswer([["TO", 60], ["BE", 60]], epoch=store.epoch, txid=None)
    assert asking.execute("upper", "", None).rows == []
    with pytest.raises(RequestError, match=r"function 'upper': ZeroDivisionError: .*; in map\(.* at Row\(w='A'\)"):
        asking.execute("upper", "a", None)
    with pytest.raises(UnknownFunctionError, match="has no function 'lower'; there are: 'upper'"):
        asking.execute("lower", "a", None)
    with pytest.raises(RequestError, match=r"args is a string, not 7 \(int\)"):
        asking.execute("upper", 7, None)  # type: ignore[arg-type]


def test_t7_an_answer_is_given_only_by_who_leads_when_it_is_there(topology: TridentTopology) -> None:
    coordination = LocalCoordination()

    def overtaken(_: object) -> tuple[int]:
        coordination.expire("wordcount")
        return (1,)

    topology.new_drpc_stream("late").map(overtaken, "n int")
    asking = Requests("wordcount", {each.function: each for each in requests(topology._graph)})
    store = coordination.lead("wordcount")
    asking.serve(StateReads("wordcount", {}), lambda *_: pytest.fail("no Spark here"), diagnosed_alive, store)
    with pytest.raises(CoordinationLost):
        asking.execute("late", "", None)
