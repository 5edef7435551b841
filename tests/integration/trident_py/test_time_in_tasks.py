"""Windows, joins over time and functions with timers that Spark's tasks change: what they give on the driver, too."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_query import PATIENCE_SECONDS
from tests.integration.trident_py.test_windows import select
from trident_py import (
    Aggregator,
    FixedBatchSpout,
    PostgresState,
    SQLSink,
    StateFactory,
    Sum,
    TridentCollector,
    TridentConfig,
    TridentTopology,
)
from trident_py.operations import KeyedFunction
from trident_py.windows import SessionWindow, TumblingDuration

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.zookeeper]

LARGE = 5_000  # rows: more than a shared job takes
START = datetime(2024, 5, 1, tzinfo=UTC)
BATCHES = 2
ROWS = [
    (f"w{number * 7 % 97}", number, START + timedelta(seconds=number // 50 - (200 if number % 501 == 0 else 0)))
    for number in range(BATCHES * LARGE + 10)  # the last batch is small
]
TIMES: Any = {"timestamp": "at", "watermark": timedelta(seconds=20)}


@frozen
class Numbers(Aggregator[list[int]]):
    """The numbers of a window's rows, and the process that has made them."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[int]:
        return []

    def aggregate(self, value: list[int], row: Any, collector: TridentCollector) -> None:
        value.append(row.n)

    def complete(self, value: list[int], collector: TridentCollector) -> None:
        collector.emit((" ".join(map(str, value)), os.getpid()))


class Counted(KeyedFunction):
    """Tells how many rows a word had, a while after the last of a batch."""

    output_schema = "word string, rows bigint"
    state_schema = "rows bigint"

    def on_rows(self, key: Any, rows: Sequence[Any], state: Any, timers: Any) -> Iterator[Any]:
        state.update(((state.get() or (0,))[0] + len(rows),))
        timers.set(max(row.at for row in rows) + timedelta(seconds=1))
        yield from ()

    def on_timer(self, key: Any, at: datetime, state: Any, timers: Any) -> Iterator[Any]:
        yield key.word, (state.get() or (0,))[0]
        state.clear()


def declare(topology: TridentTopology, placement: str, stores: dict[str, StateFactory], path: Path) -> None:
    """Windows with late rows, sums, a join and a function, whose results go to tables named after the placement."""
    rows = topology.new_stream(
        f"rows-{placement}", FixedBatchSpout("word string, n bigint, at timestamp", LARGE, *ROWS)
    )
    others = rows.project("word", "n", "at")
    words = rows.group_by("word")
    sessions = words.window(
        SessionWindow(1), ["n"], Numbers(), "numbers string, pid bigint", store=stores["sessions"], **TIMES
    )
    sums = words.window(TumblingDuration(5), ["n"], Sum("n"), "total", store=stores["sums"], **TIMES)
    joined = topology.join(
        rows,
        "word",
        others,
        "word",
        ["word", "n", "at", "m", "then"],
        within=timedelta(seconds=1),
        timestamps=("at", "at"),
        watermark=timedelta(seconds=20),
        store=stores["joined"],
    )
    results = {
        "sessions": sessions,
        "late": sessions.late_rows().project("n", "late_reason"),
        "sums": sums,
        "joined": joined.project("n", "m"),
        "counted": words.process(Counted(), store=stores["counted"], **TIMES),
    }
    for name, stream in results.items():
        stream.name(f"{name}-{placement}").write_to(SQLSink(f"sqlite:///{path}", f"{name}_{placement}"))


def test_windows_joins_and_timers_in_tasks_give_what_they_give_on_the_driver(
    spark: SparkSession, config: TridentConfig, postgres: str, tmp_path: Path
) -> None:
    path, names = tmp_path / "results.db", ("sessions", "sums", "joined", "counted")
    topology = TridentTopology("time-in-tasks")
    for placement in ("driver", "tasks"):
        stores = {name: PostgresState(postgres, table=f"{name}_{placement}", placement=placement) for name in names}
        declare(topology, placement, dict(stores), path)
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    for name, columns in {
        "sessions": "word, numbers, window_start, window_end",
        "late": "n, late_reason",
        "sums": "word, total, window_start",
        "joined": "n, m",
        "counted": "word, rows",
    }.items():
        driver, tasks = (
            sorted(select(path, f"SELECT {columns} FROM {name}_{placement}"))  # noqa: S608 - ours
            for placement in ("driver", "tasks")
        )
        assert len(driver) > 5, name
        assert tasks == driver, name
    pids = {pid for (pid,) in select(path, "SELECT pid FROM sessions_tasks")}
    assert pids > {os.getpid()}, "only the last batch was small"
    assert {pid for (pid,) in select(path, "SELECT pid FROM sessions_driver")} == {os.getpid()}
