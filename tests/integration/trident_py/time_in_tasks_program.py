"""Windows, a join over time and a function with timers, on the driver or in tasks, over PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.integration.trident_py.dying import main
from trident_py import (
    Aggregator,
    FixedBatchSpout,
    PostgresState,
    SQLSink,
    Sum,
    TridentCollector,
    TridentTopology,
)
from trident_py.operations import KeyedFunction
from trident_py.states.sql.updating import TaskedSQLMapState
from trident_py.windows import SessionWindow, TumblingDuration

DSN = "TRIDENT_TEST_POSTGRES"
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


def declare(topology: TridentTopology, placement: str, dsn: str, path: Path) -> None:
    """Windows with late rows, sums, a join and a function, whose results go to tables named after the placement."""
    stores = {
        name: PostgresState(dsn, table=f"{name}_{placement}", placement=placement)
        for name in ("sessions", "sums", "joined", "counted")
    }
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


def declare_both(topology: TridentTopology, dsn: str, path: Path) -> None:
    """Declare all of it twice, by tasks and by the driver."""
    for placement in ("driver", "tasks"):
        declare(topology, placement, dsn, path)


def dying(topology: TridentTopology, directory: Path, dies: Callable[[], None]) -> None:
    """Declare both; the process dies before a state takes what tasks have staged, or after it did."""
    sound, commit = TaskedSQLMapState.replace_staged, TaskedSQLMapState.commit_group

    def replace_staged(state: TaskedSQLMapState, reports: Sequence[Sequence[Any]]) -> None:
        dies()
        sound(state, reports)

    def commit_group(state: TaskedSQLMapState) -> None:
        commit(state)
        dies()

    TaskedSQLMapState.replace_staged = replace_staged  # type: ignore[assignment, method-assign]
    TaskedSQLMapState.commit_group = commit_group  # type: ignore[assignment, method-assign]
    declare_both(topology, os.environ[DSN], directory / "results.db")


if __name__ == "__main__":
    main(dying)
