"""`PostgresState` under crashes: what is staged and not merged, answers that are lost, servers that stop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import psycopg
import pytest
from attrs import evolve

from tests.servers.postgresql import PostgresServer
from tests.servers.proxy import CommitProxy, commit_proxy, hang_up
from tests.task_links import _no_links_left as _no_links_left
from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.postgres_rows import (
    WORDS,
    commit,
    merge,
    opened,
    select,
    stage,
    staged_by,
    tables,
    wait_for_lock,
)
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FencedError, StateError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken
from trident_py.states.sql.staging import StagingSQLMapState

pytestmark = pytest.mark.postgres
BOOKS = ["_counts_removed", "_trident", "counts"]


@pytest.fixture
def state(postgres: str) -> Iterator[StagingSQLMapState]:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        yield state


def counts(dsn: str) -> dict[str, int]:
    return dict(select(dsn, "SELECT word, count FROM counts"))


# --- what tasks stage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ["sum", None])
def test_what_several_tasks_staged_is_merged_and_their_table_dropped(
    postgres: str, state: StagingSQLMapState, hint: Literal["sum"] | None
) -> None:
    commit(state, transaction(1), {"a": 1})
    reports = stage(state, transaction(2), {"a": 1, None: 5}, {}, {f"w{number}": 1 for number in range(6000)})
    assert [rows for _, rows in reports] == [2, 0, 6000]
    assert tables(postgres) == ["_counts_1_2_0", *BOOKS]
    merge(state, transaction(2), reports, Adding(hint))
    assert state.multi_get([("a",), (None,), ("w0",), ("w5999",)]) == [2, 5, 1, 1]
    assert tables(postgres) == BOOKS
    assert state.recover(TOPOLOGY, 2) == CommitToken(2, 1, 0)


def test_a_transaction_that_staged_nothing_moves_the_token(postgres: str, state: StagingSQLMapState) -> None:
    merge(state, transaction(1), stage(state, transaction(1), {}))
    merge(state, transaction(2), stage(state, transaction(2)))
    assert state.recover(TOPOLOGY, 2) == CommitToken(2, 1, 0)
    assert tables(postgres) == BOOKS


def test_what_is_staged_again_for_a_committed_transaction_is_dropped(postgres: str, state: StagingSQLMapState) -> None:
    for tx in state.begin_group([transaction(1), transaction(2)]):
        state.begin_member(tx)
    state.commit_group()
    assert state.recover(TOPOLOGY, 2) == CommitToken(2, 1, 0)
    again = transaction(1, attempt=1, epoch=2)
    stage(state, again, {"a": 1})
    assert tables(postgres) == ["_counts_2_1_1", *BOOKS]
    assert not state.begin_group([again])
    assert tables(postgres) == BOOKS
    assert counts(postgres) == {}


def test_rows_of_tasks_that_nobody_reported_are_never_merged(postgres: str, state: StagingSQLMapState) -> None:
    task = state.staging_task(transaction(1))
    staged_by(task, 7, [("a", 1), ("b", 2)], WORDS)  # a speculative duplicate
    staged_by(task, 8, [("a", 5), ("ghost", 1)], WORDS)  # a task that read something else before it was run again
    report = staged_by(task, 9, [("a", 1), ("b", 2)], WORDS)
    merge(state, transaction(1), [report])
    assert counts(postgres) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM _counts_1_1_0 WHERE word = 'a'",
        "INSERT INTO _counts_1_1_0 SELECT 'c', 1, '[\"c\"]', 100",
        "TRUNCATE _counts_1_1_0",
        "DROP TABLE _counts_1_1_0",
    ],
)
def test_what_is_not_there_as_reported_fails_the_attempt(postgres: str, state: StagingSQLMapState, change: str) -> None:
    reports = stage(state, transaction(1), {"a": 1}, {"b": 2})
    select(postgres, change)
    with pytest.raises(StoreBusyException, match=r"'wordcount', attempt 1:0: table 'counts'"):
        merge(state, transaction(1), reports)
    state.discard(transaction(1))
    assert counts(postgres) == {}
    assert tables(postgres) == BOOKS
    merge(state, transaction(1, 1), stage(state, transaction(1, 1), {"a": 1}, {"b": 2}))
    assert counts(postgres) == {"a": 1, "b": 2}


def test_an_attempt_whose_table_was_swept_fails_and_its_leader_with_the_next(
    postgres: str, state: StagingSQLMapState
) -> None:
    task = state.staging_task(transaction(1))
    with opened(postgres) as leader:
        leader.recover(TOPOLOGY, 2)
        with pytest.raises(StoreBusyException, match="attempt 1:0"):
            staged_by(task, 7, [("a", 1)], WORDS)
        with pytest.raises(FencedError, match="epoch 2"):
            state.staging_task(transaction(1, 1))
        with pytest.raises(FencedError, match="epoch 2"):
            merge(state, transaction(1), [])


def test_a_replay_replaces_what_an_older_attempt_merged(postgres: str, state: StagingSQLMapState) -> None:
    merge(state, transaction(1), stage(state, transaction(1), {"a": 1}))
    merge(state, transaction(2, 0), stage(state, transaction(2, 0), {"a": 10, "gone": 1}, {"born": 1}))
    merge(state, transaction(2, 1), stage(state, transaction(2, 1), {"a": 2, "born": 2}))
    assert counts(postgres) == {"a": 3, "born": 2}
    with pytest.raises(StateError, match="this one is late"):
        merge(state, transaction(2, 0), [])


def test_a_task_that_still_writes_delays_neither_the_commit_nor_the_clean_up(
    postgres: str, state: StagingSQLMapState
) -> None:
    for attempt in (0, 1):
        reports = stage(state, transaction(1, attempt), {"a": 1})
        with psycopg.connect(postgres) as duplicate:
            duplicate.execute(f"LOCK TABLE _counts_1_1_{attempt} IN ROW EXCLUSIVE MODE")
            if attempt == 0:
                state.discard(transaction(1, 0))
            else:
                merge(state, transaction(1, 1), reports)
            assert tables(postgres) == [f"_counts_1_1_{attempt}", *BOOKS]
    merge(state, transaction(2), stage(state, transaction(2), {"a": 1}))
    assert tables(postgres) == BOOKS


def test_a_state_that_closes_takes_what_it_staged_with_it(postgres: str, state: StagingSQLMapState) -> None:
    stage(state, transaction(1), {"a": 1})
    stage(state, transaction(2), {"a": 1})
    state.close()
    assert tables(postgres) == BOOKS


# --- answers that are lost --------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[CommitProxy]:
    with commit_proxy(postgres_server.port) as proxy:
        yield proxy


def cut_after(client: socket.socket, server: socket.socket, data: bytes) -> None:
    hang_up(client)
    server.sendall(data)


def cut_before(client: socket.socket, server: socket.socket, data: bytes) -> None:
    hang_up(client)
    hang_up(server)


def test_a_commit_whose_answer_is_lost_is_read_back_as_done(postgres: str, proxy: CommitProxy) -> None:
    with opened(psycopg.conninfo.make_conninfo(postgres, port=proxy.port)) as state:
        state.recover(TOPOLOGY, 1)
        reports = stage(state, transaction(1), {"a": 1})
        proxy.on_commit = cut_after
        merge(state, transaction(1), reports)
        merge(state, transaction(2), stage(state, transaction(2), {"a": 1}))
        assert counts(postgres) == {"a": 2}
        assert tables(postgres) == BOOKS


def test_a_commit_that_never_arrived_is_read_back_as_not_done(postgres: str, proxy: CommitProxy) -> None:
    with opened(psycopg.conninfo.make_conninfo(postgres, port=proxy.port)) as state:
        state.recover(TOPOLOGY, 1)
        reports = stage(state, transaction(1), {"a": 1})
        proxy.on_commit = cut_before
        with pytest.raises(StoreBusyException, match=r"attempt 1:0: .* nothing was committed"):
            merge(state, transaction(1), reports)
        state.discard(transaction(1))
        assert counts(postgres) == {}
        merge(state, transaction(1, 1), stage(state, transaction(1, 1), {"a": 1}))
        assert counts(postgres) == {"a": 1}
        assert tables(postgres) == BOOKS


def test_reading_back_waits_for_a_commit_that_is_still_on_its_way(postgres: str, proxy: CommitProxy) -> None:
    due = threading.Event()

    def delay(client: socket.socket, server: socket.socket, data: bytes) -> None:
        hang_up(client)
        assert due.wait(30)
        server.sendall(data)

    dsn = psycopg.conninfo.make_conninfo(postgres, port=proxy.port)
    with opened(dsn) as state, ThreadPoolExecutor(1) as other:
        state.recover(TOPOLOGY, 1)
        reports = stage(state, transaction(1), {"a": 1})
        proxy.on_commit = delay
        committing = other.submit(merge, state, transaction(1), reports)
        wait_for_lock(postgres)
        assert counts(postgres) == {}
        due.set()
        committing.result()
        assert counts(postgres) == {"a": 1}


def test_a_connection_that_is_terminated_in_mid_transaction_fails_the_attempt(
    postgres: str, state: StagingSQLMapState
) -> None:
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_b"
    reports = stage(state, transaction(1), {"a": 1})
    begin(state, transaction(1))
    state.merge_staged(reports, Adding())
    select(postgres, f"{others}ackend_pid()")
    with pytest.raises(StoreBusyException, match="attempt 1:0"):
        state.commit_group()
    state.rollback()
    state.discard(transaction(1))
    assert counts(postgres) == {}
    merge(state, transaction(1, 1), stage(state, transaction(1, 1), {"a": 1}))
    assert counts(postgres) == {"a": 1}
    assert tables(postgres) == BOOKS


# --- servers that stop ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crash", "found"),
    [("immediate", "1 rows were staged and 0 are there"), ("SIGKILL", "1 rows were staged and 0 are|does not exist")],
)
def test_a_crash_of_the_server_between_staging_and_commit_fails_the_attempt_and_loses_nothing(
    fresh_postgres: PostgresServer, crash: str, found: str
) -> None:
    server, dsn = fresh_postgres, fresh_postgres.dsn()
    with opened(dsn) as state:
        state.recover(TOPOLOGY, 1)
        merge(state, transaction(1), stage(state, transaction(1), {"a": 1}))
        reports = stage(state, transaction(2), {"a": 1})
        if crash == "SIGKILL":
            server.kill()
        else:
            select(dsn, "CHECKPOINT")  # so that the table is there again, without its rows
            server.stop("immediate")
        with pytest.raises(StoreBusyException, match="attempt 2:0"):
            merge(state, transaction(2), reports)
        state.discard(transaction(2))
        server.start()
        with pytest.raises(StoreBusyException, match=rf"attempt 2:0: .*({found})"):
            merge(state, transaction(2), reports)
        state.discard(transaction(2))
        merge(state, transaction(2, 1), stage(state, transaction(2, 1), {"a": 1}))
        assert counts(dsn) == {"a": 2}
        assert tables(dsn) == BOOKS


def test_a_server_that_is_away_at_the_start_is_named(fresh_postgres: PostgresServer) -> None:
    fresh_postgres.stop()
    with opened(fresh_postgres.dsn()) as state, pytest.raises(StateError) as error:
        state.recover(TOPOLOGY, 1)
    assert "'wordcount': table 'counts' of 127.0.0.1/postgres: connection failed" in str(error.value)
    assert "check the server, the DSN and the role" in str(error.value)


# --- servers that lose what they confirmed ----------------------------------------------------------------------------

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
LOST = {
    "the last commit": "UPDATE _trident SET txid = 1, epoch = 1",
    "every commit": "UPDATE _trident SET txid = NULL, epoch = NULL, attempt_id = NULL",
    "the takeover": "UPDATE _trident SET fence = 0",
}


@pytest.mark.parametrize("lost", LOST.values(), ids=list(LOST))
@pytest.mark.parametrize(
    "act",
    [
        lambda state: begin(state, transaction(3)),
        lambda state: state.staging_task(transaction(3)),
        lambda state: state.multi_get([("a",)]),
        lambda state: state.get_tuples(),
    ],
    ids=["commit", "stage", "get", "read all"],
)
def test_a_leader_knows_what_its_server_has_lost(
    postgres: str, state: StagingSQLMapState, lost: str, act: Callable[[StagingSQLMapState], object]
) -> None:
    commit(state, transaction(1), {"a": 1})
    commit(state, transaction(2), {"a": 1})
    assert state.multi_get([("a",)]) == [2]
    select(postgres, lost)
    # No server that has lost anything has kept a connection.
    select(postgres, f"SELECT pg_terminate_backend(pid, 60000) {OTHERS}")
    told = r"'wordcount'.* was at 2:0 of epoch 1 .*has lost commits .*restore data with"
    with pytest.raises(StateError, match=told):
        act(state)


def test_who_was_taken_over_is_told_so_and_not_that_something_is_lost(postgres: str, state: StagingSQLMapState) -> None:
    commit(state, transaction(1), {"a": 1})
    with opened(postgres) as leader:
        leader.recover(evolve(TOPOLOGY, incarnation=TOPOLOGY.incarnation + 1), 2)
        with pytest.raises(FencedError, match="epoch 2"):
            begin(state, transaction(2))
