"""A state that tasks change: each replay starts from the values before its transaction, in every database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import product
from typing import Any, TypeAlias

import pytest
from attrs import evolve, frozen

from tests.task_links import close_task_links
from tests.transactions import begin
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FencedError, StateError, StoreBusyException
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, SinkTransaction
from trident_py.interfaces.states import RemovableMapState, StateUpdater
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.states.changes import Updated
from trident_py.states.sql.mysql import MySQLState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.updating import TaskedSQLMapState, ValuesBefore

pytestmark = pytest.mark.postgres

OPERATIONS = ("nothing", "add", "remove", "remove, add")
ROWS = schema_of("word string, operation string")


@frozen
class Operations(StateUpdater[RemovableMapState[int]]):
    """Does to each key what its row says."""

    def update_state(self, state: RemovableMapState[int], tuples: Sequence[Any], collector: TridentCollector) -> None:
        for row in tuples:
            for operation in row.operation.split(", "):
                match operation:
                    case "add":
                        state.multi_update([[row.word]], [lambda old: (old or 0) + 1])
                    case "put":
                        state.multi_put([[row.word]], [10])
                    case "remove":
                        state.multi_remove([[row.word]])


CHANGE = Updated(updater=Operations(), where="here", inputs=ROWS.names, places=(0,))


def after(value: int | None, operations: str) -> int | None:
    """What the operations make of a value."""
    for operation in operations.split(", "):
        match operation:
            case "add":
                value = (value or 0) + 1
            case "put":
                value = 10
            case "remove":
                value = None
    return value


Open: TypeAlias = Callable[..., TaskedSQLMapState]


@contextmanager
def opening(factory: type[PostgresState] | type[MySQLState], address: str) -> Iterator[Open]:
    with ExitStack() as opened:

        def opens(table: str = "counts", ttl: timedelta | None = None) -> TaskedSQLMapState:
            typed = factory(address, table=table, ttl=ttl, placement="tasks").for_fields(
                schema_of("word string"), schema_of("count bigint").fields[0]
            )
            state = typed.make_state(TridentConfig(), Metrics(), 0, 1)
            assert isinstance(state, TaskedSQLMapState)
            opened.callback(state.close)
            return state

        yield opens
    close_task_links()


@pytest.fixture(params=[PostgresState, MySQLState])
def opens(request: pytest.FixtureRequest) -> Iterator[Open]:
    address = request.getfixturevalue("postgres" if request.param is PostgresState else "mysql")
    with opening(request.param, address) as opens:
        yield opens


def commit(state: TaskedSQLMapState, tx: SinkTransaction, *parts: dict[str, str]) -> None:
    """Commit what one task for each part has made of it."""
    task = state.update_task(tx, CHANGE)
    reports: list[Any] = []
    for number, part in enumerate(parts if task else (), 100):
        assert task
        reports += task.updated(number, iter(arrow_table(list(part.items()), ROWS).to_batches())).to_pylist()
    merge(state, tx, reports)


def merge(state: TaskedSQLMapState, tx: SinkTransaction, reports: Sequence[dict[str, Any]]) -> None:
    if begin(state, tx):
        try:
            state.replace_staged([tuple(report.values())[:-1] for report in reports])
            state.commit_group()
        except BaseException:
            state.rollback()
            raise


def values(state: TaskedSQLMapState) -> dict[str, int]:
    return dict(state.get_tuples())


HISTORIES = {", then ".join(each): each for each in product(OPERATIONS, repeat=4)}
"""For each key: its operations in transaction 1, in two attempts of transaction 2, and in transaction 3."""


def test_a_replay_replaces_an_attempt_whatever_each_did_to_a_key(opens: Open) -> None:
    state = opens()
    first, lost, second, third = ({key: each[place] for key, each in HISTORIES.items()} for place in range(4))
    state.recover(TOPOLOGY, 1)
    commit(state, transaction(1), first)
    commit(state, transaction(2), lost)
    assert state.recover(TOPOLOGY, 2) == CommitToken(2, 1, 0)
    commit(state, transaction(2, 1, epoch=2), second)
    commit(state, transaction(2, 1, epoch=2), second)  # it comes again, and is skipped
    expected = {key: after(after(None, first[key]), second[key]) for key in HISTORIES}
    assert values(state) == {key: value for key, value in expected.items() if value is not None}
    commit(state, transaction(3, 0, epoch=2), third)
    expected = {key: after(value, third[key]) for key, value in expected.items()}
    assert values(state) == {key: value for key, value in expected.items() if value is not None}


def test_keys_that_have_expired_start_anew_in_tasks_as_on_the_driver(opens: Open) -> None:
    made = {place: opens(place, timedelta(seconds=1)) for place in ("tasks", "driver")}
    for state in made.values():
        state.recover(TOPOLOGY, 1)
    first, lost, second, third = ({key: each[place] for key, each in HISTORIES.items()} for place in range(4))
    for txid, attempt, time, part in (
        (1, 0, 500, first),
        (2, 0, 1400, lost),
        (2, 1, 1400, second),
        (3, 0, 1700, third),
    ):
        tx = evolve(transaction(txid, attempt), time=time)
        commit(made["tasks"], tx, part)
        begin(made["driver"], tx)
        CHANGE.apply(made["driver"], arrow_table(list(part.items()), ROWS), 0)
        made["driver"].commit_group()
        assert values(made["tasks"]) == values(made["driver"])


def test_the_keys_of_several_tasks_are_replaced_together(opens: Open) -> None:
    state = opens()
    state.recover(TOPOLOGY, 1)
    commit(state, transaction(1), {"a": "add", "b": "put"}, {}, {"c": "add", "gone": "put"})
    commit(state, transaction(2), {"a": "add", "b": "remove"}, {"c": "add"}, {"gone": "remove"})
    assert values(state) == {"a": 2, "c": 2}


def test_a_key_that_two_tasks_have_changed_is_refused(opens: Open) -> None:
    state = opens()
    state.recover(TOPOLOGY, 1)
    with pytest.raises(StateError, match=r"attempt 1:0: .*two partitions have changed the key \[\"a\"\].*partition_by"):
        commit(state, transaction(1), {"a": "add"}, {"a": "remove"})
    assert values(state) == {}


def test_tasks_that_have_read_other_values_than_the_last_commit_fail_the_attempt(opens: Open) -> None:
    state = opens()
    state.recover(TOPOLOGY, 1)
    early = state.update_task(transaction(1), CHANGE)
    assert early
    rows = arrow_table([("a", "add")], ROWS).to_batches()
    (report,) = early.updated(7, iter(rows)).to_pylist()
    commit(state, transaction(1, 1), {"a": "add"})
    task = state.update_task(transaction(2), CHANGE)
    assert task
    (other,) = task.updated(8, iter(rows)).to_pylist()
    assert (report["token"], other["token"]) == ("", "1:1:1")
    with pytest.raises(StoreBusyException, match="has read the values of no transaction, and the table is at 1:1:1"):
        merge(state, transaction(2), [{**other, "token": ""}])
    assert values(state) == {"a": 1}


def test_what_nobody_reported_or_what_is_gone_is_never_merged_from_tasks(opens: Open) -> None:
    state = opens()
    state.recover(TOPOLOGY, 1)
    task = state.update_task(transaction(1), CHANGE)
    assert task
    rows = arrow_table([("a", "add"), ("b", "remove")], ROWS).to_batches()
    task.updated(7, iter(rows))  # a speculative duplicate
    (report,) = task.updated(8, iter(rows)).to_pylist()
    with pytest.raises(StoreBusyException, match="3 rows were staged and 2 are there"):
        merge(state, transaction(1), [{**report, "rows": 2}])
    merge(state, transaction(1), [report])
    assert values(state) == {"a": 1}


def test_a_leader_that_was_replaced_starts_no_tasks(opens: Open) -> None:
    state, newer = (opens() for _ in range(2))
    state.recover(TOPOLOGY, 1)
    newer.recover(TOPOLOGY, 2)
    with pytest.raises(FencedError):
        state.update_task(transaction(1), CHANGE)


@pytest.mark.parametrize("rule", ["values before", "removed by it"])
def test_each_rule_of_reading_before_a_transaction_is_needed(
    rule: str, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = ValuesBefore._statement.fget  # type: ignore[attr-defined]
    old, new = {
        "values before": ('CASE WHEN "_txid" = %s THEN "_prev"', 'CASE WHEN %s < 0 THEN "_prev"'),
        "removed by it": ('"_txid" = %s AND "_born" <> "_txid"', '"_txid" = -1 - %s AND "_born" <> "_txid"'),
    }[rule]

    def broken(reader: ValuesBefore) -> str:
        statement: str = sound(reader)
        assert old in statement
        return statement.replace(old, new)

    monkeypatch.setattr(ValuesBefore, "_statement", property(broken))
    with opening(PostgresState, postgres) as opens, pytest.raises(AssertionError, match="=="):
        test_a_replay_replaces_an_attempt_whatever_each_did_to_a_key(opens)
