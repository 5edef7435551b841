"""Where a topology is, to processes other than its leader: by what is stored."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from coordinators.record.record import Bindings, CommitIntent, CoordinatorRecord, Failure
from coordinators.record.store import TopologyIdentity
from coordinators.record.wishes import Hold, Standing
from coordinators.status.candidate import Leader
from coordinators.status.description import TopologyDescription
from coordinators.status.status import SourceStatus, TopologyStatus
from coordinators.values.attempt import TransactionAttempt

LEADER = Leader("vm", 42, "1970-01-01T00:01:40+00:00")
BOOM = Failure(2, 1, "ValueError: boom", since=60.0, last=70.0, tries=3)


def status(leader: Leader | None = LEADER, record: CoordinatorRecord | None = None, **stored: Any) -> TopologyStatus:
    record = record or CoordinatorRecord(epoch=2, current_txid=5, **stored)
    identity = TopologyIdentity(name="wc", uuid="u", incarnation=1)
    return TopologyDescription(identity=identity, epoch=3, leader=leader, record=record).status(at=200.0)


def test_it_says_who_leads_since_when_and_what_is_committed() -> None:
    seen = status()
    assert (seen.topology, seen.at, seen.is_active, seen.is_leading) == ("wc", 200.0, True, False)
    assert (seen.leader, seen.leads_since) == ("pid 42 on host vm, since 1970-01-01T00:01:40+00:00", 100.0)
    assert (seen.epoch, seen.current_txid, seen.last_committed) == (3, 5, 4)
    assert seen.message == "waiting for data"


def test_where_nobody_leads_it_does_not_run() -> None:
    seen = status(leader=None)
    assert (seen.is_active, seen.leader, seen.leads_since, seen.message) == (False, None, None, "stopped")


def test_a_topology_without_a_record_has_committed_nothing() -> None:
    identity = TopologyIdentity(name="wc", uuid="u", incarnation=1)
    seen = TopologyDescription(identity=identity, epoch=0, leader=None, record=None).status(at=0.0)
    assert (seen.epoch, seen.last_committed, seen.transactions) == (0, 0, ())


def test_what_was_begun_and_is_not_committed_is_told_and_what_is_committed_is_not() -> None:
    seen = status(
        attempt_ids={4: 0, 5: 1, 6: 0},
        committing=(CommitIntent(TransactionAttempt(5, 1), "hash"),),
        times={5: 60_000, 6: 61_000},
        bindings=Bindings(empty=(6,)),
        failures={4: BOOM, 5: BOOM},
    )
    first, second = seen.transactions
    assert (str(first.attempt), first.number, first.phase, first.since, first.failures) == (
        "5:1",
        5,
        "committing",
        60.0,
        3,
    )
    assert (str(second.attempt), second.number, second.phase, second.failures) == ("6:0", None, "begun", 0)
    assert seen.failures == {5: BOOM}
    assert seen.message == "transaction 5 has failed and is tried again: ValueError: boom (3 tries, 140 s)"


def test_a_source_that_is_waited_for_is_no_failure_of_the_batch() -> None:
    away = evolve(BOOM, count=0, cause="OSError: away", spout="lines")
    seen = status(failures={5: away})
    assert seen.sources == (SourceStatus(spout="lines", txid=5, cause="OSError: away", tries=3, since=60.0, last=70.0),)
    assert (seen.failures, seen.message) == ({}, "waiting for spout 'lines': OSError: away (3 tries, 140 s)")


def test_what_operators_wished_stands() -> None:
    paused = status(standing=Standing(Hold.PAUSED))
    assert (paused.is_paused, paused.is_draining) == (True, False)
    assert paused.message == "paused, as an operator wishes; `trident resume wc` lifts that"
    assert status(standing=Standing(Hold.DRAINING)).is_draining


def test_the_time_of_transactions_may_be_ahead_of_the_clock() -> None:
    assert status(times={5: 230_000}).seconds_ahead == 30.0
    assert status(times={5: 130_000}).seconds_ahead == 0.0
