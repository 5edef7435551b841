"""What `ForeachBatchSink` promises, and what it refuses."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from trident_py import FileSink, ForeachBatchSink, TopologyError, TridentTopology
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import IBatchSpout, Replay
from trident_py.planner.guarantees import warnings


class Words(IBatchSpout):
    output_schema = "word string"

    def __init__(self, replay: Replay) -> None:
        self.replay = replay

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...


def send(frame: Any, tx: Any) -> None: ...


@pytest.mark.parametrize(
    ("replay", "promise"),
    [(Replay.EXACT, "at-least-once"), (Replay.OPAQUE, "at-least-once"), (Replay.NON_TRANSACTIONAL, "no guarantee")],
)
def test_it_says_by_name_that_it_calls_at_least_once_and_that_no_leader_is_kept_out(
    replay: Replay, promise: str
) -> None:
    topology = TridentTopology("words")
    topology.new_stream("words", Words(replay)).write_to(ForeachBatchSink(send))
    (said,) = topology.explain().split("\n  words-sink: ")[1:]
    assert said.startswith(f"ForeachBatchSink\n      {promise}: ")
    assert "no fence" in said
    assert ("tx.key" in said) == (promise == "at-least-once")


def test_whoever_chose_it_is_not_warned_at_each_start() -> None:
    topology = TridentTopology("words")
    topology.new_stream("words", Words(Replay.EXACT)).write_to(ForeachBatchSink(send))
    assert list(warnings(topology._graph)) == []


@pytest.mark.parametrize("fn", ["send", lambda frame: None, lambda frame, tx, more: None, [].sort])
def test_what_can_not_be_called_with_rows_and_transaction_is_refused_where_it_is_declared(fn: Any) -> None:
    with pytest.raises(TopologyError, match="a function of a DataFrame and a SinkTransaction is needed, not "):
        ForeachBatchSink(fn)


@pytest.mark.parametrize("fn", [print, min, lambda *both: None, lambda frame, tx, more=1: None, partial(max, 1)])
def test_what_takes_rows_and_transaction_is_taken_however_it_says_so(fn: Any) -> None:
    ForeachBatchSink(fn)


def test_another_function_may_take_its_place_and_another_sink_may_not(tmp_path: Any) -> None:
    sink = ForeachBatchSink(send)
    assert sink.identity() == {}
    assert sink.details() == {"function": "send"}
    assert repr(sink) == "ForeachBatchSink(send)"
    assert FileSink(tmp_path).keeps_token
