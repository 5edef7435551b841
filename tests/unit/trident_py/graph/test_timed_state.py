"""A window as a participant: it goes by the times of transactions, and knows whether rows wait for time to pass."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from attrs import evolve

from coordinators.takeover.changes import changed_words
from coordinators.values.attempt import TransactionAttempt
from trident_py.graph.event_time import EventTimeArguments
from trident_py.graph.timed_participants import TimedParticipant
from trident_py.graph.timed_updater import KeyGroups
from trident_py.graph.windowing import WindowState, window_state
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey, TransactionKey
from trident_py.operations.builtin import Count
from trident_py.rows.schema import schema_of
from trident_py.states.sql.postgres import PostgresState
from trident_py.windows.window_store import LocalWindows
from trident_py.windows.windows import TumblingCount, TumblingDuration, Window

TOPOLOGY = TopologyKey("windows", "8d1f", 1)
SOURCE = schema_of("n bigint")


def windowed(window: Window, keys: tuple[str, ...] = ()) -> WindowState:
    factory = LocalWindows("windows", "some")
    return window_state("window", "some", factory, window, keys, False, "n", Count(), "count", EventTimeArguments())


class Emitted:
    """What a window has given."""

    def __init__(self, directory: Path, window: Window, epoch: int = 1) -> None:
        self.epoch = epoch
        operation = windowed(window)
        self.rows: list[tuple[object, ...]] = []
        self.participant = TimedParticipant(
            name="some",
            state=operation.typed(SOURCE).make_state(TridentConfig(state_dir=directory), Metrics(), 0, 1),
            groups=KeyGroups(operation.updater(SOURCE), SOURCE),
            outputs=["count", "window_start", "window_end"][: 3 if window.is_timed else 1],
            kind=operation.kind,
            downstream=lambda _, rows, __: self.rows.extend(rows),
        )

    def commit(self, txid: int, rows: int, time: int) -> None:
        tx = SinkTransaction(TransactionKey(TOPOLOGY.uuid, 1, txid), TransactionAttempt(txid, 0), self.epoch, time)
        self.participant.commit_group([(tx, pa.table({"n": pa.array(range(rows), pa.int64())}))])


def test_a_window_by_time_tells_when_it_ends_while_rows_wait_also_after_a_takeover(tmp_path: Path) -> None:
    first = Emitted(tmp_path, TumblingDuration(1))
    first.participant.recover(TOPOLOGY, 1)
    assert first.participant.next_window_at() is None
    first.commit(1, 3, time=5_200)
    assert first.participant.next_window_at() == 6_000
    first.participant.close()

    second = Emitted(tmp_path, TumblingDuration(1), epoch=2)
    second.participant.recover(TOPOLOGY, 2)
    assert second.participant.next_window_at() == 6_000
    second.commit(2, 0, time=6_000)
    start, end = (datetime.fromtimestamp(each, UTC) for each in (5, 6))
    assert second.rows == [(3, start, end)]
    assert not second.participant.next_window_at()
    second.participant.close()


@pytest.mark.parametrize("rows", [0, 2])
def test_a_window_by_count_never_waits_for_time(tmp_path: Path, rows: int) -> None:
    window = Emitted(tmp_path, TumblingCount(5))
    window.participant.recover(TOPOLOGY, 1)
    window.commit(1, rows, time=5_000)
    assert window.participant.next_window_at() is None
    window.participant.close()


@pytest.mark.parametrize("keys", [(), ("n",)])
def test_data_in_groups_of_keys_is_another_state_than_data_of_all_keys(keys: tuple[str, ...]) -> None:
    """A window for all rows has no groups."""
    driver, tasks = (
        evolve(windowed(TumblingCount(5), keys), factory=PostgresState("host=here", table="kept", placement=placement))
        for placement in ("driver", "tasks")
    )
    words = (each.identity(SOURCE, 1) for each in (driver, tasks))
    assert changed_words(*words) == ["groups"] * len(keys)
    assert "groups" in tasks.fixed
    assert (driver.typed(SOURCE) == tasks.typed(SOURCE)) == (not keys)
