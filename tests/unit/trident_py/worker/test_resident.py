"""What a resident task does with a request; see tests/unit/trident_py/engine/resident for the connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from attrs import define, evolve

from coordinators.protocol.messages import FailureKind
from tests.unit.trident_py.resident import SECONDS, Driver, begun, joined
from trident_py.worker import task_watch
from trident_py.worker.failures import TaskFailed, TaskFailure
from trident_py.worker.wire import Frame, packed, unpacked


@define
class Numbering:
    """A program that remembers: it numbers its calls."""

    calls: int = 0

    def __call__(self, rows: Sequence[pa.RecordBatch]) -> pa.Table:
        self.calls += 1
        table = joined(rows)
        return table.append_column("call", pa.repeat(pa.scalar(self.calls), table.num_rows))


def failing(rows: Sequence[pa.RecordBatch]) -> pa.Table:
    raise TaskFailed(TaskFailure(kind=FailureKind.USER_CODE, text="can't read it"))


go_on = threading.Event()


def slow(rows: Sequence[pa.RecordBatch]) -> pa.Table:
    assert rows  # without them, it is only warmed up
    go_on.wait(SECONDS)
    return joined(rows)


def broken(rows: Sequence[pa.RecordBatch]) -> pa.Table:
    raise SystemExit(3)


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.server.close()


def test_each_transaction_has_its_own_copy_of_what_remembers(driver: Driver) -> None:
    begun(driver.task({0: Numbering()}))
    what, link, task = driver.next()
    assert (what, task) == ("joined", 0)
    for _ in range(2):
        made = unpacked(driver.asked(link, 0, 1, 2).body)
        assert made.to_pylist() == [{"txid": 1, "word": "a", "call": 1}, {"txid": 2, "word": "a", "call": 1}]


def test_what_keeps_nothing_runs_all_transactions_at_once(driver: Driver) -> None:
    begun(driver.task({0: Numbering()}, keeps_nothing=True))
    _, link, _ = driver.next()
    calls = [unpacked(driver.asked(link, 0, 1, 2).body)["call"].to_pylist() for _ in range(2)]
    assert calls == [[1, 1], [2, 2]]


def test_a_failure_names_its_transaction_and_other_errors_are_for_a_job(driver: Driver) -> None:
    begun(driver.task({0: joined, 1: failing, 2: broken}))
    _, link, _ = driver.next()
    failure = TaskFailure.read(driver.asked(link, 1, 4, 5).head["failure"])
    assert (failure.txid, failure.text) == (4, "can't read it")
    assert driver.asked(link, 2, 4).head["undone"] == "SystemExit(3)"
    assert driver.asked(link, 0, 4).head["counts"] == []  # it goes on


def test_a_task_that_takes_long_tells_in_which_line_it_is(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_watch, "LOOK_SECONDS", 0.01)
    go_on.clear()
    begun(driver.task({0: slow}))
    _, link, _ = driver.next()
    rows = pa.table({"txid": pa.array([1], pa.int64())})
    driver.server.send(link, Frame({"number": 5, "branch": 0, "txids": [1]}, packed(rows)))
    _, _, frame = driver.next()
    assert frame.head["number"] == 5
    assert frame.head["place"].startswith(f"in slow, {__file__}, line ")
    go_on.set()
    while "counts" not in frame.head:  # it may tell again before it answers
        _, _, frame = driver.next()


def test_the_driver_ends_a_task(driver: Driver) -> None:
    thread = begun(driver.task({}))
    _, link, _ = driver.next()
    driver.server.end(link)
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert driver.next() == ("left", link)


def test_a_task_whose_connection_is_closed_connects_again(driver: Driver) -> None:
    begun(driver.task({0: joined}))
    _, link, _ = driver.next()
    driver.server.drop(link)
    assert driver.next() == ("left", link)
    assert driver.next() == ("joined", link + 1, 0)
    assert driver.asked(link + 1, 0, 1).head["counts"] == []


def test_a_task_ends_when_nobody_at_the_address_knows_the_secret(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as after another program has got the port of a driver that is gone; it accepts, and says nothing."""
    monkeypatch.setattr("trident_py.worker.resident.ALONE_SECONDS_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        thread = begun(evolve(driver.task({}), address=stranger.getsockname()))
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_a_branch_has_run_without_rows_before_the_task_connects(driver: Driver, tmp_path: Path) -> None:
    def marked(rows: Sequence[pa.RecordBatch]) -> pa.Table:
        assert [*rows] == []
        (tmp_path / "ran").touch()
        return pa.table({})

    begun(driver.task({0: marked}))
    assert driver.next()[0] == "joined"
    assert (tmp_path / "ran").exists()


def test_a_task_ends_when_the_driver_is_gone(driver: Driver) -> None:
    thread = begun(driver.task({}))
    driver.next()
    driver.server.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
