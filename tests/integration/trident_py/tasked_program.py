"""States in PostgreSQL that tasks change, and one in SQLite, which kills its process in the middle of commits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.integration.trident_py.dying import main
from trident_py import FixedBatchSpout, PostgresState, SQLiteState, TridentTopology
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import RemovableMapState, StateUpdater
from trident_py.operations import ReducerAggregator
from trident_py.rows.schema import schema_of
from trident_py.states.sql.updating import TaskedSQLMapState

DSN = "TRIDENT_TEST_POSTGRES"
LARGE = 4_500  # rows: more than a shared job takes
ROWS = [(f"w{number % 97}", number) for number in range(4 * LARGE)]


class Joining(ReducerAggregator[str]):
    """The numbers of a word, in order."""

    def init(self) -> str:
        return ""

    def reduce(self, curr: str, row: Any) -> str:
        return f"{curr},{row.n}" if curr else str(row.n)


@frozen
class Summing(StateUpdater[RemovableMapState[int]]):
    """Adds up the numbers of each word; those that end on 7 remove it before."""

    dies: Callable[[], None] | None = None

    def update_state(self, state: RemovableMapState[int], tuples: Sequence[Any], collector: TridentCollector) -> None:
        if self.dies is not None:
            self.dies()
        for row in tuples:
            if row.n % 1000 == 7:
                state.multi_remove([[row.word]])
            state.multi_update([[row.word]], [lambda old, n=row.n: (old or 0) + n])  # type: ignore[misc]


def declare(topology: TridentTopology, directory: Path, dies: Callable[[], None]) -> None:
    """Declare the states; the process dies before they are merged, or after that and before SQLite has the batch."""
    sound = TaskedSQLMapState.replace_staged

    def replace_staged(state: TaskedSQLMapState, reports: Sequence[Sequence[Any]]) -> None:
        dies()
        sound(state, reports)

    TaskedSQLMapState.replace_staged = replace_staged  # type: ignore[assignment, method-assign]
    numbers = topology.new_stream("numbers", FixedBatchSpout("word string, n bigint", LARGE, *ROWS))
    joined = PostgresState(os.environ[DSN], table="joined", placement="tasks")
    numbers.group_by("word").persistent_aggregate(joined, Joining(), "numbers string")
    fields = schema_of("word string"), schema_of("total bigint").fields[0]
    summed = PostgresState(os.environ[DSN], table="summed", placement="tasks").for_fields(*fields)
    numbers.partition_by("word").parallelism_hint(2).partition_persist(summed, Summing(), ["word", "n"])
    here = SQLiteState(directory / "here.db", table="here").for_fields(*fields)
    numbers.name("here").partition_persist(here, Summing(dies), ["word", "n"])


if __name__ == "__main__":
    main(declare)
