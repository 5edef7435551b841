"""What each event adds to which instrument."""

from __future__ import annotations

from typing import Any

from coordinators.record.parking import Parked
from coordinators.status.listener import (
    EmittedEvent,
    ParkedEvent,
    ResidentTasksEvent,
    StandstillEvent,
    TopologyEvent,
    Work,
    WorkEvent,
)
from coordinators.status.status import Wait
from tests.unit.trident_py.history.told import attempt, committed, emitted, ended, failed, leading
from trident_py.telemetry.instruments import INSTRUMENTS, Measured


def measured(*events: TopologyEvent) -> list[tuple[Any, ...]]:
    measures = Measured()
    return [(each.instrument.name, *each.attributes, each.value) for event in events for each in measures.take(event)]


def test_a_name_is_there_once_and_says_its_unit_apart() -> None:
    names = [each.name for each in INSTRUMENTS]
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.endswith(("seconds", "total", ".count"))]
    assert all(each.unit == "s" or each.unit[0] + each.unit[-1] == "{}" for each in INSTRUMENTS)


def test_before_there_are_events_nobody_leads() -> None:
    assert {each.instrument.name: each.value for each in Measured().begin()} == {
        "trident.leader": 0,
        "trident.standstill": 0,
        "trident.transactions.active": 0,
    }


def test_a_parked_transaction_has_an_outcome_of_its_own() -> None:
    assert ("trident.transactions", "parked", 1) in measured(emitted("1:1"), committed("1:1", is_parked=True))


def test_a_commit_adds_rows_counts_and_how_long_each_phase_took() -> None:
    known = {"rows": 5, "written": {"counts": 3}, "counts": {"bad": 2, "undone": -1}}
    told = measured(emitted("1:0"), committed("1:0", processing=2.0, committing=1.5, waiting=0.5, **known))
    assert told == [
        ("trident.transactions.active", 1),
        ("trident.transactions", "committed", 1),
        ("trident.transactions.active", 0),
        ("trident.txid.committed", 1),
        ("trident.rows", 5),
        ("trident.rows.written", "counts", 3),
        ("trident.counted", "bad", 2),
        ("trident.transaction.duration", "process", 2.0),
        ("trident.transaction.duration", "wait", 0.5),
        ("trident.transaction.duration", "commit", 1.0),
    ]


def test_an_attempt_that_is_given_up_with_an_earlier_one_is_replayed() -> None:
    error = ValueError("no")
    told = measured(emitted("1:0"), emitted("2:0"), failed("1:0", error), failed("2:0", error, by="1:0"))
    assert told[2:] == [
        ("trident.transactions", "failed", 1),
        ("trident.transactions.active", 1),
        ("trident.transactions", "replayed", 1),
        ("trident.transactions.active", 0),
    ]


def test_the_lag_is_told_by_spout_and_part() -> None:
    event = EmittedEvent(topology="wc", at=1.0, attempt=attempt("1:0"), lag={"orders": {"orders/0": 12, "orders/1": 0}})
    assert measured(event)[1:] == [
        ("trident.source.lag", "orders", "orders/0", 12),
        ("trident.source.lag", "orders", "orders/1", 0),
    ]


def test_work_is_measured_by_who_did_it_and_for_how_many() -> None:
    def worked(work: Work, *parts: str) -> WorkEvent:
        attempts = (attempt("1:0"), attempt("2:0"))
        return WorkEvent(topology="wc", at=9.0, work=work, parts=parts, attempts=attempts, seconds=0.5)

    assert measured(worked(Work.EMIT, "lines"), worked(Work.JOB, "counts"), worked(Work.COMMIT, "a", "b")) == [
        ("trident.emit.duration", "lines", 0.5),
        ("trident.job.duration", "counts", 0.5),
        ("trident.job.transactions", "counts", 2),
        ("trident.state.commit.duration", "a+b", 0.5),
        ("trident.state.commit.transactions", "a+b", 2),
    ]


def test_leading_and_standing_still_begin_and_end() -> None:
    told = measured(
        leading(current_txid=7),
        StandstillEvent(topology="wc", at=1.0, waits_for=(Wait("spout 'lines' emits 7:0"),)),
        StandstillEvent(topology="wc", at=2.0),
        emitted("7:0"),
        ended(),
    )
    assert told == [
        ("trident.leader", 1),
        ("trident.txid.committed", 6),
        ("trident.standstill", 1),
        ("trident.standstill", 0),
        ("trident.transactions.active", 1),
        ("trident.leader", 0),
        ("trident.standstill", 0),
        ("trident.transactions.active", 0),
    ]


def test_requests_to_resident_tasks_are_counted_by_what_became_of_them() -> None:
    def residents(*numbers: int) -> ResidentTasksEvent:
        names = ("there", "answered", "given_back", "dropped")
        return ResidentTasksEvent(topology="wc", at=1.0, numbers=dict(zip(names, numbers, strict=True)))

    told = measured(residents(1, 0, 0, 0), residents(1, 7, 0, 1), residents(0, 7, 2, 1))
    assert told == [
        ("trident.resident.tasks", 1),
        ("trident.resident.tasks", 1),
        ("trident.resident.requests", "answered", 7),
        ("trident.resident.requests", "dropped", 1),
        ("trident.resident.tasks", 0),
        ("trident.resident.requests", "given_back", 2),
    ]
    assert measured(residents(2, 0, 0, 0), ended())[-1] == ("trident.resident.tasks", 0)


def test_how_many_are_parked_and_since_when() -> None:
    parked = tuple(Parked(txid=txid, number=txid, definition={}, since=10.0 + txid) for txid in (3, 5))
    found = measured(ParkedEvent(topology="wc", at=1.0, parked=parked), ParkedEvent(topology="wc", at=2.0, parked=()))
    assert found == [
        ("trident.transactions.parked", 2),
        ("trident.transactions.parked.since", 13.0),
        ("trident.transactions.parked", 0),
        ("trident.transactions.parked.since", 0.0),
    ]
