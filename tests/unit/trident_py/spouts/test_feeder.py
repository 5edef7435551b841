from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import emitted, halves
from trident_py.errors import MetadataError, SpoutError
from trident_py.interfaces.spouts import Committing, ICommitterTridentSpout, Replay
from trident_py.spouts.feeder import FEED_BYTES_MAX, FeederBatchSpout, FeederCommitterBatchSpout


@pytest.fixture
def spout() -> FeederBatchSpout:
    return FeederBatchSpout("word string, n int")


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Future[None]]]:
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


def await_ready(coordinator: Any, txid: int) -> None:
    """Poll, as the driver does."""
    pause = threading.Event()
    while not coordinator.is_ready(txid):
        pause.wait(0.001)


def test_feed_returns_when_its_batch_succeeded(spout: FeederBatchSpout, in_thread: Callable[..., Any]) -> None:
    coordinator, emitter = halves(spout)
    fed = in_thread(spout.feed, [("a", 1), ("b", None)])
    await_ready(coordinator, 1)
    metadata = coordinator.initialize_transaction(1, None, None)
    assert metadata == [["a", 1], ["b", None]]
    assert not coordinator.is_ready(2)
    assert emitted(emitter, TransactionAttempt(1, 0), metadata) == [("a", 1), ("b", None)]
    assert not fed.done()
    coordinator.success(1)
    assert fed.result(10) is None


def test_batches_are_taken_in_the_order_they_were_fed(spout: FeederBatchSpout, in_thread: Callable[..., Any]) -> None:
    coordinator, _ = halves(spout)
    fed = []
    for number in (1, 2, 3):
        fed.append(in_thread(spout.feed, [("a", number)]))
        await_ready(coordinator, number)
        assert coordinator.initialize_transaction(number, None, None) == [["a", number]]
    for number in (1, 2, 3):
        coordinator.success(number)
        fed[number - 1].result(10)


def test_feeding_may_begin_before_the_query_does(spout: FeederBatchSpout, in_thread: Callable[..., Any]) -> None:
    fed = in_thread(spout.feed, [("a", 1)])
    coordinator, _ = halves(spout)
    await_ready(coordinator, 1)
    coordinator.initialize_transaction(1, None, None)
    coordinator.success(1)
    fed.result(10)


def test_a_replay_has_the_rows_it_had_before_also_after_a_crash(spout: FeederBatchSpout) -> None:
    coordinator, emitter = halves(spout)
    stored = coordinator.initialize_transaction(1, None, [["a", 1]])
    assert stored == [["a", 1]]
    assert emitted(emitter, TransactionAttempt(1, 5), stored) == [("a", 1)]
    coordinator.success(1)


def test_without_rows_a_transaction_that_others_need_is_empty(spout: FeederBatchSpout) -> None:
    coordinator, emitter = halves(spout)
    assert coordinator.initialize_transaction(1, None, None) == []
    assert emitted(emitter, TransactionAttempt(1, 0), []) == []


def test_empty_batches_are_given_endlessly_if_nobody_waits(spout: FeederBatchSpout) -> None:
    coordinator, _ = halves(spout)
    assert not coordinator.is_ready(1)
    spout.set_wait_to_emit(False)
    assert coordinator.is_ready(1)
    assert coordinator.initialize_transaction(1, None, None) == []
    spout.set_wait_to_emit(True)
    assert not coordinator.is_ready(2)


def test_every_feeder_is_told_when_the_query_stops(spout: FeederBatchSpout, in_thread: Callable[..., Any]) -> None:
    coordinator, _ = halves(spout)
    taken = in_thread(spout.feed, [("a", 1)])
    await_ready(coordinator, 1)
    coordinator.initialize_transaction(1, None, None)
    waiting = in_thread(spout.feed, [("b", 1)])
    await_ready(coordinator, 2)
    coordinator.close()
    with pytest.raises(SpoutError, match="'lines': the query stopped before transaction 1 succeeded"):
        taken.result(10)
    with pytest.raises(
        SpoutError, match="'lines': the query stopped before it took the rows; to fix this: feed them again"
    ):
        waiting.result(10)
    with pytest.raises(SpoutError, match=r"'lines': the query has stopped.*start the topology again"):
        spout.feed([("c", 1)])


def test_a_spout_can_be_started_again(spout: FeederBatchSpout, in_thread: Callable[..., Any]) -> None:
    halves(spout)[0].close()
    coordinator, _ = halves(spout)
    fed = in_thread(spout.feed, [("a", 1)])
    await_ready(coordinator, 5)
    assert coordinator.initialize_transaction(5, [["z", 0]], None) == [["a", 1]]
    coordinator.success(5)
    fed.result(10)


def test_a_timeout_says_whether_the_rows_were_taken(spout: FeederBatchSpout, in_thread: Callable[..., Any]) -> None:
    coordinator, _ = halves(spout)
    with pytest.raises(TimeoutError, match=r"no transaction took the rows within 0.01 s; they were not fed"):
        spout.feed([("a", 1)], timeout=0.01)
    assert not coordinator.is_ready(1)
    fed = in_thread(spout.feed, [("a", 1)], timeout=0.2)
    await_ready(coordinator, 1)
    coordinator.initialize_transaction(1, None, None)
    with pytest.raises(TimeoutError, match="transaction 1 has the rows and did not succeed within"):
        fed.result(10)
    coordinator.success(1)


@pytest.mark.parametrize("row", ["ab", ("a",), ("a", "b"), ("a", 2**40), None])
def test_a_row_that_does_not_fit_is_refused_at_once(spout: FeederBatchSpout, row: Any) -> None:
    with pytest.raises(MetadataError):
        spout.feed([("ok", 1), row])
    assert not halves(spout)[0].is_ready(1)


def test_text_that_json_cannot_hold_is_refused_at_once(spout: FeederBatchSpout) -> None:
    with pytest.raises(MetadataError):
        spout.feed([("\ud800", 1)])


def test_more_than_a_batch_can_store_is_refused_at_once(spout: FeederBatchSpout) -> None:
    with pytest.raises(MetadataError, match=rf"a batch may have {FEED_BYTES_MAX}; to fix this: feed fewer"):
        spout.feed([("x" * FEED_BYTES_MAX, 1)])


def test_values_that_json_has_no_type_for_come_back(in_thread: Callable[..., Any]) -> None:
    spout = FeederBatchSpout("at timestamp, price decimal(10,2), raw binary, x double")
    row = (datetime(2024, 2, 29, 12, tzinfo=UTC), Decimal("12.50"), b"\xff", float("inf"))
    coordinator, emitter = halves(spout)
    fed = in_thread(spout.feed, [row])
    await_ready(coordinator, 1)
    stored = json.loads(json.dumps(coordinator.initialize_transaction(1, None, None), allow_nan=False))
    assert emitted(emitter, TransactionAttempt(1, 0), stored) == [row]
    coordinator.success(1)
    fed.result(10)


def test_the_committer_kind_has_an_emitter_that_commits() -> None:
    spout = FeederCommitterBatchSpout("n int")
    _, emitter = halves(spout)
    assert isinstance(spout, ICommitterTridentSpout)
    assert isinstance(emitter, Committing)
    emitter.commit(TransactionAttempt(1, 0))
    assert not isinstance(halves(FeederBatchSpout("n int"))[1], Committing)
    assert spout.replay is Replay.EXACT
