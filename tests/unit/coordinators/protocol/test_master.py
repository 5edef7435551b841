"""The machine, told what happened and asked what follows."""

from __future__ import annotations

from typing import cast

import pytest

from coordinators.protocol.master import AttemptStatus, MasterBatchCoordinator
from coordinators.protocol.protocol import (
    AttemptFailed,
    CancelAttempt,
    EmitBatch,
    EmitCommit,
    EmitSuccess,
    Event,
    PhaseAcked,
    StoreRecord,
    StreamId,
    Ticked,
    Wished,
)
from coordinators.record.wishes import Action, Standing, Wish
from coordinators.values.attempt import TransactionAttempt


def at(name: str) -> TransactionAttempt:
    txid, attempt_id = name.split(":")
    return TransactionAttempt(int(txid), int(attempt_id))


def ticked(*ready: int) -> Ticked:
    return Ticked(frozenset(ready))


def batch_acked(name: str) -> PhaseAcked:
    return PhaseAcked(at(name), StreamId.BATCH)


def commit_acked(name: str) -> PhaseAcked:
    return PhaseAcked(at(name), StreamId.COMMIT)


def failed(name: str) -> AttemptFailed:
    return AttemptFailed(at(name))


def started(max_spout_pending: int, *events: Event, store_intents: bool = False) -> MasterBatchCoordinator:
    """A machine with its window full, after ``events``."""
    m = MasterBatchCoordinator(max_spout_pending=max_spout_pending, store_intents=store_intents)
    m.handle(ticked(*m.window))
    for event in events:
        m.handle(event)
    return m


def statuses(m: MasterBatchCoordinator) -> dict[str, AttemptStatus]:
    return {str(entry.attempt): entry.status for entry in m.active.values()}


# --- the life of a transaction ----------------------------------------------------------------------------------------


def test_a_transaction_is_stored_emitted_processed_committed_stored_and_announced() -> None:
    m = MasterBatchCoordinator()
    assert m.handle(ticked(1)) == [StoreRecord(1, {1: 0}), EmitBatch(at("1:0"))]
    assert m.handle(batch_acked("1:0")) == [EmitCommit(at("1:0"))]
    assert m.handle(commit_acked("1:0")) == [StoreRecord(2, {}), EmitSuccess(at("1:0"))]
    assert m.handle(ticked(2)) == [StoreRecord(2, {2: 0}), EmitBatch(at("2:0"))]


def test_a_tick_fills_the_window_with_one_write() -> None:
    m = MasterBatchCoordinator(max_spout_pending=3)
    assert m.handle(ticked(1, 2, 3, 4)) == [
        StoreRecord(1, {1: 0, 2: 0, 3: 0}),
        EmitBatch(at("1:0")),
        EmitBatch(at("2:0")),
        EmitBatch(at("3:0")),
    ]
    assert m.handle(ticked(1, 2, 3, 4)) == []


def test_a_processed_transaction_waits_until_it_is_the_lowest_and_keeps_its_place() -> None:
    m = started(2)
    assert m.handle(batch_acked("2:0")) == []
    assert statuses(m) == {"1:0": AttemptStatus.PROCESSING, "2:0": AttemptStatus.PROCESSED}
    assert m.handle(ticked(3)) == []
    assert m.handle(batch_acked("1:0")) == [EmitCommit(at("1:0"))]
    assert m.handle(commit_acked("1:0")) == [StoreRecord(2, {2: 0}), EmitSuccess(at("1:0")), EmitCommit(at("2:0"))]


def test_a_tick_with_nothing_ready_asks_for_nothing() -> None:
    assert MasterBatchCoordinator(max_spout_pending=3).handle(ticked()) == []


def test_emission_stops_at_the_first_txid_that_is_not_ready() -> None:
    """Storm goes on past it: trident-semantics.md b.1-8."""
    m = MasterBatchCoordinator(max_spout_pending=4)
    assert m.handle(ticked(1, 3, 4)) == [StoreRecord(1, {1: 0}), EmitBatch(at("1:0"))]
    assert m.handle(ticked(3, 4)) == []


def test_a_smaller_window_lets_what_is_active_finish() -> None:
    m = started(3)
    m.max_spout_pending = 1
    assert m.handle(ticked(1, 2, 3, 4)) == []
    m.handle(batch_acked("1:0"))
    m.handle(commit_acked("1:0"))
    assert m.handle(ticked(2, 3, 4)) == []
    assert m.handle(batch_acked("2:0")) == [EmitCommit(at("2:0"))]


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failure_cancels_the_transaction_and_every_later_one_and_no_earlier_one() -> None:
    m = started(4)
    assert m.handle(failed("2:0")) == [CancelAttempt(at("2:0")), CancelAttempt(at("3:0")), CancelAttempt(at("4:0"))]
    assert m.handle(ticked(1, 2, 3, 4)) == [
        StoreRecord(1, {1: 0, 2: 1, 3: 1, 4: 1}),
        EmitBatch(at("2:1")),
        EmitBatch(at("3:1")),
        EmitBatch(at("4:1")),
    ]


@pytest.mark.parametrize(
    "history",
    [[], [batch_acked("1:0")], [batch_acked("2:0")]],
    ids=["processing", "the lowest is committing", "processed"],
)
def test_a_failure_counts_in_every_status(history: list[Event]) -> None:
    m = started(2, *history)
    assert m.handle(failed("1:0")) == [CancelAttempt(at("1:0")), CancelAttempt(at("2:0"))]


def test_a_failure_of_a_processed_transaction_replays_it() -> None:
    m = started(2, batch_acked("2:0"))
    assert m.handle(failed("2:0")) == [CancelAttempt(at("2:0"))]
    assert m.handle(ticked(2)) == [StoreRecord(1, {1: 0, 2: 1}), EmitBatch(at("2:1"))]


def test_a_stale_failure_changes_nothing() -> None:
    """Storm drops the live attempt: trident-semantics.md b.1-13."""
    m = started(2, failed("1:0"), ticked(1, 2))
    before = statuses(m)
    for name in ("1:0", "2:0", "1:7", "9:0", "3:0"):
        assert m.handle(failed(name)) == []
    assert statuses(m) == before == {"1:1": AttemptStatus.PROCESSING, "2:1": AttemptStatus.PROCESSING}


def test_a_replay_waits_until_its_txid_is_ready() -> None:
    m = started(2, failed("1:0"))
    assert m.handle(ticked(2)) == []
    assert m.handle(ticked(1)) == [StoreRecord(1, {1: 1, 2: 0}), EmitBatch(at("1:1"))]


# --- late and stale acks ----------------------------------------------------------------------------------------------


def test_a_late_ack_of_the_batch_cannot_finish_the_commit() -> None:
    m = started(1, batch_acked("1:0"))
    assert m.handle(batch_acked("1:0")) == []
    assert m.handle(commit_acked("1:0")) == [StoreRecord(2, {}), EmitSuccess(at("1:0"))]


def test_an_early_ack_of_the_commit_finishes_nothing() -> None:
    m = started(2)
    assert m.handle(commit_acked("1:0")) == []
    m.handle(batch_acked("2:0"))
    assert m.handle(commit_acked("2:0")) == []


@pytest.mark.parametrize("stream", list(StreamId))
def test_an_ack_of_an_attempt_that_is_not_live_changes_nothing(stream: StreamId) -> None:
    m = started(1, failed("1:0"), ticked(1))
    for name in ("1:0", "1:2", "2:0"):
        assert m.handle(PhaseAcked(at(name), stream)) == []
    assert statuses(m) == {"1:1": AttemptStatus.PROCESSING}


def test_success_is_not_acked() -> None:
    m = started(1, batch_acked("1:0"))
    assert m.handle(PhaseAcked(at("1:0"), StreamId.SUCCESS)) == []


def test_a_closed_transaction_stays_closed() -> None:
    m = started(1, batch_acked("1:0"), commit_acked("1:0"))
    assert m.handle(commit_acked("1:0")) == []
    assert m.handle(failed("1:0")) == []
    assert m.handle(ticked(1)) == []


# --- pause ------------------------------------------------------------------------------------------------------------


OWN_PAUSE, OWN_RESUME = Wish("", Action.PAUSE, epoch=1), Wish("", Action.RESUME, epoch=1)


def test_a_pause_stops_new_batches_and_replays_but_not_commits() -> None:
    m = started(2, Wished(OWN_PAUSE))
    assert m.handle(batch_acked("1:0")) == [EmitCommit(at("1:0"))]
    closed = StoreRecord(2, {2: 0}, standing=Standing(paused_by=1))
    assert m.handle(commit_acked("1:0")) == [closed, EmitSuccess(at("1:0"))]
    assert m.handle(failed("2:0")) == [CancelAttempt(at("2:0"))]
    assert m.handle(ticked(2, 3)) == []
    assert m.handle(Wished(OWN_RESUME)) == [StoreRecord(2, {2: 0})]
    assert m.handle(ticked(2, 3)) == [StoreRecord(2, {2: 1, 3: 0}), EmitBatch(at("2:1")), EmitBatch(at("3:0"))]


# --- restart ----------------------------------------------------------------------------------------------------------


def test_a_restart_goes_on_with_the_next_attempt_ids_of_the_whole_window() -> None:
    """Storm forgets the last of the window: trident-semantics.md b.1-15."""
    m = MasterBatchCoordinator(max_spout_pending=3, current_txid=4, attempt_ids={4: 3, 5: 2, 6: 0})
    assert m.handle(ticked(4, 5, 6))[1:] == [EmitBatch(at("4:4")), EmitBatch(at("5:3")), EmitBatch(at("6:1"))]


def test_a_restart_with_a_smaller_window_keeps_the_attempt_ids_outside_it() -> None:
    m = MasterBatchCoordinator(max_spout_pending=1, current_txid=4, attempt_ids={4: 3, 5: 2})
    assert m.handle(ticked(4, 5)) == [StoreRecord(4, {4: 4, 5: 2}), EmitBatch(at("4:4"))]


# --- pins -------------------------------------------------------------------------------------------------------------


def test_a_pinned_commit_is_stored_before_it_is_announced() -> None:
    m = started(1, store_intents=True)
    assert m.handle(batch_acked("1:0")) == [StoreRecord(1, {1: 0}, (at("1:0"),)), EmitCommit(at("1:0"))]
    assert m.handle(commit_acked("1:0")) == [StoreRecord(2, {}), EmitSuccess(at("1:0"))]


def test_a_failure_does_not_unpin_since_a_late_task_may_still_apply_it() -> None:
    m = started(2, batch_acked("1:0"), failed("1:0"), store_intents=True)
    assert m.handle(ticked(1))[0] == StoreRecord(1, {1: 1, 2: 0}, (at("1:0"),))
    assert m.handle(batch_acked("1:1"))[0] == StoreRecord(1, {1: 1, 2: 0}, (at("1:1"),))


# --- values -----------------------------------------------------------------------------------------------------------


def test_what_is_stored_does_not_change_afterwards() -> None:
    m = MasterBatchCoordinator()
    stored = m.handle(ticked(1))[0]
    m.handle(batch_acked("1:0"))
    m.handle(commit_acked("1:0"))
    assert stored == StoreRecord(1, {1: 0})


def test_something_that_is_no_event_is_our_bug() -> None:
    with pytest.raises(TypeError, match="not an event of the master batch coordinator: 'tick'"):
        MasterBatchCoordinator().handle(cast(Event, "tick"))
