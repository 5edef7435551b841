"""A state that tasks change in the commit: when they do, and what is left of an attempt that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from attrs import define

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.participants.test_staged import TX, Staging
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.test_changes import Noting
from tests.unit.trident_py.windows.driven import begun
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import StateChange, TaskedState
from trident_py.participants.capabilities import Capabilities
from trident_py.participants.context import CommitSpark
from trident_py.participants.states import Staged
from trident_py.participants.tasked import KeptRows, NumberedParts, TaskedAggregateParticipant
from trident_py.rows.schema import schema_of
from trident_py.states.changes import Aggregated, Updated
from trident_py.states.memory import MemoryMapState
from trident_py.states.shards import shard_numbers


class Reports:
    """A frame whose rows are the reports of two tasks."""

    def toArrow(self) -> pa.Table:  # noqa: N802 - as Spark's
        return pa.table({"task": [0, 1], "rows": [3, 0], "removed": [0, 1], "token": ["", ""], "emitted": [None, []]})


class Changing(Staging, TaskedState[int]):
    """Keeps what it was told."""

    is_committed = False
    task_reader = None

    def update(self, tx: SinkTransaction, change: StateChange, frame: Any) -> Any:
        self.told.append(("update", str(tx.attempt), frame))
        return None if self.is_committed else Reports()

    def replace_staged(self, reports: Sequence[Sequence[Any]]) -> None:
        self.told.append(("replace", list(map(tuple, reports))))


@define
class Tagging(CommitSpark):
    attempts: list[TransactionAttempt | None]

    @contextmanager
    def running(self, attempt: TransactionAttempt | None = None) -> Iterator[Any]:
        self.attempts.append(attempt)
        yield None


ROWS: Any = KeptRows("rows", Aggregated(aggregator=Adding(None), keys=1))  # type: ignore[arg-type]


def made() -> tuple[Changing, TaskedAggregateParticipant, Tagging]:
    state, spark = Changing(), Tagging([])
    return (
        state,
        TaskedAggregateParticipant(name="last", state=state, spark=spark, aggregator=Adding(None), keys=1),
        spark,
    )


def test_tasks_change_a_state_before_its_transaction_and_their_reports_are_committed() -> None:
    state, last, spark = made()
    receipt = last.before_commit(TX, ROWS)
    last.commit_group([(TX, receipt)])
    assert state.told == [("update", "1:0", "rows"), ("replace", [(0, 3, 0, ""), (1, 0, 1, "")])]
    assert spark.attempts == [TX.attempt]


def test_no_task_runs_for_a_transaction_that_the_state_has() -> None:
    state, last, _ = made()
    state.is_committed = True
    assert last.before_commit(TX, ROWS) == Staged(pa.table({}))


def test_a_small_batch_changes_the_state_on_the_driver() -> None:
    state, last, spark = made()
    rows = pa.table({"word": ["a"], "last": [1]})
    assert last.before_commit(TX, rows) is rows
    last.abort(TX, rows)
    assert (state.told, spark.attempts) == ([], [])


def test_what_tasks_have_staged_is_discarded_with_the_attempt() -> None:
    state, last, _ = made()
    last.abort(TX, ROWS)
    assert state.told == ["discard"]


def test_a_state_that_tasks_change_commits_alone_and_shares_its_commit_step_with_that_fact() -> None:
    _, last, _ = made()
    assert not last.takes_groups
    assert Capabilities(takes_groups=True).committing_with([last.capabilities]).stages_in_commit


def by(*places: int) -> Updated:
    return Updated(updater=Noting(), where="here", inputs=["n", "word"], places=places)


def test_rows_are_numbered_by_their_partitions_as_on_the_driver() -> None:
    batch = pa.record_batch({"n": [1, 2, 3], "word": ["a", None, "c"]})
    (numbered,) = NumberedParts(by(1), 7)(iter([batch]))
    assert numbered.column("_part").to_pylist() == shard_numbers([["a"], [None], ["c"]], 7)
    (whole,) = NumberedParts(by(), 7)(iter([batch]))
    assert len(set(whole.column("_part").to_pylist())) == 1


def test_new_values_of_tasks_are_in_the_order_of_their_keys() -> None:
    _, last, _ = made()
    last.output = schema_of("word string, last int")
    last.downstream = lambda tx, values, rolled_back: None
    change = last.change_of(TX, 2)
    emitted = [
        each
        for partition, words in enumerate((["c", "a"], ["b"], []))
        for each in change.apply(begun(MemoryMapState()), pa.table({"word": words, "n": [1] * len(words)}), partition)
    ]
    assert last.emitted(TX, emitted) == [("a", 1), ("b", 1), ("c", 1)]
