"""Which ranges a `DataFrameSpout` defines, and what it refuses; `read` and its rows are tried with Spark."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import ListCollector
from trident_py import (
    DataFrameSpout,
    MetadataError,
    SpoutError,
    TopologyContext,
    TopologyError,
    TridentConfig,
)
from trident_py.spouts.dataframe import DataFrameCoordinator


def no_rows(spark: Any, start: Any, end: Any) -> Any:
    return None


class Source:
    """Something with an offset that grows."""

    def __init__(self, latest: Any = None) -> None:
        self.latest = latest
        self.now, self.takes, self.calls = 0.0, 0.0, 0

    def __call__(self, spark: Any) -> Any:
        self.now += self.takes
        self.calls += 1
        return self.latest

    def coordinator(self, **options: Any) -> DataFrameCoordinator:
        spout = DataFrameSpout("n int", self, no_rows, **options)
        coordinator = spout.get_coordinator("numbers", TridentConfig(), TopologyContext("topology", "numbers"))
        return evolve(coordinator, clock=lambda: self.now)


def test_a_batch_goes_from_where_the_last_one_ended_to_where_the_rows_end() -> None:
    source = Source(3)
    coordinator = source.coordinator(start=0)
    assert coordinator.is_ready(1)
    first = coordinator.initialize_transaction(1, None, None)
    assert first == {"start": 0, "end": 3}
    assert not coordinator.is_ready(2)
    source.latest = 7
    assert coordinator.is_ready(2)
    assert coordinator.initialize_transaction(2, first, None) == {"start": 3, "end": 7}
    assert coordinator.initialize_transaction(1, None, first) == first
    assert not coordinator.is_ready(3)


def test_without_a_start_the_first_batch_begins_before_all_rows() -> None:
    source = Source()
    coordinator = source.coordinator()
    assert not coordinator.is_ready(1)
    source.latest = {"day": "2026-11-22"}
    assert coordinator.is_ready(1)
    assert coordinator.initialize_transaction(1, None, None) == {"start": None, "end": {"day": "2026-11-22"}}


def test_a_source_that_has_no_offset_any_more_has_nothing_new() -> None:
    source = Source(3)
    coordinator = source.coordinator()
    first = coordinator.initialize_transaction(1, None, None)
    source.latest = None
    assert not coordinator.is_ready(2)
    assert coordinator.initialize_transaction(2, first, None) == {"start": 3, "end": 3}


def test_a_new_leader_goes_on_behind_the_last_definition_and_asks_for_nothing_empty() -> None:
    source = Source(3)
    before = source.coordinator(start=0)
    first = before.initialize_transaction(1, None, None)
    after = source.coordinator(start=0)
    after.restore(before.moved(first))
    assert not after.is_ready(2)
    source.latest = 4
    assert after.is_ready(2)
    assert after.initialize_transaction(2, first, None) == {"start": 3, "end": 4}


def test_a_large_range_is_cut_where_upto_says() -> None:
    coordinator = Source(25).coordinator(start=0, upto=lambda spark, start, latest: min(start + 10, latest))
    ranges: list[Any] = []
    while coordinator.is_ready(len(ranges) + 1):
        last = ranges[-1] if ranges else None
        ranges.append(coordinator.initialize_transaction(len(ranges) + 1, last, None))
    assert [(each["start"], each["end"]) for each in ranges] == [(0, 10), (10, 20), (20, 25)]


def test_a_cut_that_leaves_nothing_is_an_error_with_its_name() -> None:
    coordinator = Source(25).coordinator(start=5, upto=lambda spark, start, latest: start)
    with pytest.raises(SpoutError, match=r"spout 'numbers', transaction 1: upto returned 5 \(int\), where the batch"):
        coordinator.initialize_transaction(1, None, None)


def test_what_is_asked_for_readiness_is_asked_once_for_the_definition() -> None:
    source = Source(1)
    coordinator = source.coordinator()
    assert coordinator.is_ready(1)
    assert coordinator.initialize_transaction(1, None, None) == {"start": None, "end": 1}
    assert source.calls == 1


def test_a_slow_source_is_asked_a_tenth_of_the_time_and_waited_for_meanwhile() -> None:
    source = Source(1)
    coordinator = source.coordinator(start=1)
    source.takes = 0.5
    assert not coordinator.is_ready(1)
    assert not coordinator.has_pending_input()
    source.latest = 2
    source.now += 4.9
    assert not coordinator.is_ready(1)
    assert coordinator.has_pending_input()
    source.now += 0.2
    assert coordinator.is_ready(1)
    assert source.calls == 2


def test_its_coordinator_is_given_the_session_of_the_topology() -> None:
    session: Any = object()
    spout = DataFrameSpout("n int", lambda spark: id(spark), no_rows)
    assert spout.coordinator_needs_spark
    context = TopologyContext("topology", "numbers", session)
    coordinator = spout.get_coordinator("numbers", TridentConfig(), context)
    assert coordinator.initialize_transaction(1, None, None)["end"] == id(session)


def test_what_is_no_frame_is_named() -> None:
    emitter = DataFrameSpout("n int", Source(3), no_rows).get_emitter(
        "numbers", TridentConfig(), TopologyContext("topology", "numbers")
    )
    collector = ListCollector()
    with pytest.raises(SpoutError, match=r"spout 'numbers', attempt 1:0: read\(None, 3\) returned None"):
        emitter.emit_batch(TransactionAttempt(1, 0), {"start": None, "end": 3}, collector)
    emitter.emit_batch(TransactionAttempt(1, 0), {"start": 3, "end": 3}, collector)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("n int", 3, no_rows), {}, "latest must be a function, not 3"),
        (("n int", Source(), "table"), {}, "read must be a function"),
        (("n int", Source(), no_rows), {"upto": 10}, "upto must be a function"),
        (("n", Source(), no_rows), {}, "n"),
    ],
)
def test_what_can_not_work_is_refused_where_it_is_declared(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        DataFrameSpout(*arguments, **options)


def test_a_start_that_json_can_not_hold_is_refused_where_it_is_declared() -> None:
    with pytest.raises(MetadataError):
        DataFrameSpout("n int", Source(), no_rows, start={1, 2})  # type: ignore[arg-type]
