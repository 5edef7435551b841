"""What `PostgresState` has beyond the contract of `test_fenced_state`: tables, takeovers, bad values, secrets."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import evolve
from psycopg.conninfo import make_conninfo
from pyspark.sql.types import NullType, StringType, StructField

from tests.servers.postgresql import PASSWORD
from tests.task_links import _no_links_left as _no_links_left
from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.postgres_rows import (
    commit,
    merge,
    opened,
    select,
    stage,
    staged_by,
    tables,
    wait_for_lock,
    wait_until_idle,
)
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FencedError, StateError, StoreBusyException
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, TopologyKey
from trident_py.operations.builtin import Count
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.sql import postgres_client, staging
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.postgres_database import POSTGRESQL, check_table
from trident_py.states.sql.table import Table
from trident_py.topology import TridentTopology

pytestmark = pytest.mark.postgres


WITHIN_MS = 60_000
OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

PAUSED = """
import os, signal, sys
from tests.transactions import begin
from tests.unit.trident_py.states.sql.postgres_rows import commit, opened
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction

with opened(sys.argv[1]) as state:
    state.recover(TOPOLOGY, 1)
    commit(state, transaction(1), {"a": 1})
    begin(state, transaction(2))
    state.multi_update([("a",)], [lambda stored: os.kill(os.getpid(), signal.SIGSTOP)])
"""


@contextmanager
def paused_leader(dsn: str) -> Iterator[None]:
    """A leader of epoch 1 in a process of its own, stopped in the middle of its second transaction."""
    leader = subprocess.Popen([sys.executable, "-c", PAUSED, dsn])
    try:
        _, status = os.waitpid(leader.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield
    finally:
        leader.kill()
        leader.wait()


# --- an ordinary table ------------------------------------------------------------------------------------------------


def test_any_client_reads_the_committed_values(postgres: str) -> None:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1, None: 2})
        begin(state, transaction(2))
        state.multi_merge([("a",)], [5], Adding())
        assert select(postgres, "SELECT word, count FROM counts ORDER BY word") == [("a", 1), (None, 2)]
        state.commit_group()
        assert select(postgres, "SELECT count FROM counts WHERE word = 'a'") == [(6,)]


def test_bookkeeping_begins_with_an_underscore(postgres: str) -> None:
    with opened(postgres, "word string, day date") as state:
        state.recover(TOPOLOGY, 1)
        names = [name for (name,) in select(postgres, "SELECT attname FROM pg_attribute WHERE attnum > 0 AND "
                                                      "attrelid = 'counts'::regclass ORDER BY attnum")]  # fmt: skip
        assert [name for name in names if not name.startswith("_")] == ["word", "day", "count"]
        assert tables(postgres) == ["_counts_removed", "_trident", "counts"]


def test_what_is_not_grouped_is_one_row_also_when_it_is_staged(postgres: str) -> None:
    with opened(postgres, None) as state:
        state.recover(TOPOLOGY, 1)
        for txid in (1, 2):
            commit(state, transaction(txid), {(): txid})
        report = staged_by(state.staging_task(transaction(3)), 7, [(3,)], "count bigint")
        merge(state, transaction(3), [report])
        assert select(postgres, "SELECT count, _key FROM counts") == [(6, "[]")]


def test_keys_of_every_type_and_their_nulls_are_rows_of_their_own_from_wherever_they_come(postgres: str) -> None:
    fields = "s string, i int, d double, n decimal(10,2), day date, at timestamp, b boolean, x binary"
    key = ("a", 1, 0.5, Decimal("1.50"), date(2024, 2, 29), datetime(2024, 2, 29, 12, tzinfo=UTC), True, b"\0")
    keys = [key, *(tuple(None if i == hole else value for i, value in enumerate(key)) for hole in range(len(key)))]
    with opened(postgres, fields) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), dict.fromkeys(keys, 1))
        rows = [(*each, 1) for each in keys]
        merge(
            state,
            transaction(2),
            [staged_by(state.staging_task(transaction(2)), 7, rows, f"{fields}, count bigint")],
        )
        assert state.multi_get(keys) == [2] * 9
        assert key in select(postgres, "SELECT s, i, d, n, day, at, b, x FROM counts")


@pytest.mark.parametrize(
    ("ddl", "value", "stored_as"),
    [
        ("x string", "00\\17\t\n'", "text"),
        ("x tinyint", -128, "smallint"),
        ("x smallint", 5, "smallint"),
        ("x int", 5, "integer"),
        ("x bigint", 2**63 - 1, "bigint"),
        ("x boolean", True, "boolean"),
        ("x float", 0.10000000149011612, "double precision"),
        ("x double", 0.1 + 0.2, "double precision"),
        ("x double", -math.inf, "double precision"),
        ("x double", math.nan, "double precision"),
        ("x decimal(10,2)", Decimal("12.50"), "numeric"),
        ("x decimal(38,0)", Decimal(10**37), "numeric"),
        ("x date", date(31, 2, 28), "date"),
        ("x timestamp", datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=UTC), "timestamp with time zone"),
        ("x timestamp_ntz", datetime(2024, 2, 29, 12, 0, 0, 7), "timestamp without time zone"),  # noqa: DTZ001
        ("x binary", b"\x00\xff\\", "bytea"),
    ],
)
def test_a_value_of_any_type_comes_back_from_the_driver_and_from_tasks(
    postgres: str, ddl: str, value: Any, stored_as: str
) -> None:
    with opened(postgres, value=ddl) as state:
        state.recover(TOPOLOGY, 1)
        tx = transaction(1)
        report = staged_by(state.staging_task(tx), 7, [("task", value), ("null", None)], f"word string, {ddl}")
        begin(state, tx)
        state.merge_staged([report], Adding(None))
        state.multi_put([("driver",)], [value])
        state.commit_group()
        found = state.multi_get([("task",), ("driver",), ("null",)])
        assert list(map(repr, found)) == list(map(repr, [value, value, None]))
        assert select(postgres, "SELECT DISTINCT pg_typeof(x)::text FROM counts") == [(stored_as,)]


@pytest.mark.parametrize("hint", ["min", "max"])
def test_the_least_and_the_greatest_are_sparks_own(postgres: str, hint: Any) -> None:
    numbers = [1.0, math.nan, -math.inf, None]
    words = ["ä", "z", "Z", "\U0001f600", "\uffee", None]
    for ddl, values, (least, most) in (("x double", numbers, (-math.inf, math.nan)), ("x string", words, ("Z", "😀"))):
        table = f"of_{ddl[2:]}"
        with opened(postgres, None, ddl, table=table) as state:
            state.recover(TOPOLOGY, 1)
            for txid, value in enumerate(values, 1):
                tx = transaction(txid)
                merge(state, tx, [staged_by(state.staging_task(tx), 7, [(value,)], ddl)], Adding(hint))
            assert repr(state.multi_get([()])[0]) == repr(least if hint == "min" else most)


def test_several_states_share_a_database(postgres: str) -> None:
    with opened(postgres) as counts, opened(postgres, None, "total double", table="totals") as totals:
        for state in (counts, totals):
            assert state.recover(TOPOLOGY, 1) is None
        commit(counts, transaction(1), {"a": 1})
        commit(totals, transaction(1), {(): 0.5})
        commit(counts, transaction(2), {"a": 1})
        assert counts.recover(TOPOLOGY, 2) == CommitToken(2, 1, 0)
        assert totals.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)


def test_the_tables_are_in_the_first_schema_of_the_search_path(postgres: str) -> None:
    select(postgres, 'CREATE SCHEMA "My Schema"')
    select(postgres, "CREATE TABLE counts AS SELECT 'mine' AS word")
    dsn = make_conninfo(postgres, options='-csearch_path="My\\ Schema",public')
    with opened(dsn) as state:
        state.recover(TOPOLOGY, 1)
        merge(state, transaction(1), stage(state, transaction(1), {"a": 1}))
    assert select(postgres, 'SELECT word, count FROM "My Schema".counts') == [("a", 1)]
    assert tables(postgres) == ["counts"]
    nowhere = make_conninfo(postgres, options="-csearch_path=nowhere")
    with opened(nowhere) as state, pytest.raises(StateError, match="no schema of its search_path exists"):
        state.recover(TOPOLOGY, 1)


# --- takeover ---------------------------------------------------------------------------------------------------------


def test_a_takeover_ends_a_transaction_that_an_older_leader_left_open(postgres: str) -> None:
    with opened(postgres) as zombie, opened(postgres) as leader:
        zombie.recover(TOPOLOGY, 1)
        commit(zombie, transaction(1), {"a": 1})
        begin(zombie, transaction(2))
        zombie.multi_merge([("a",)], [1], Adding())
        assert leader.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)
        with pytest.raises(StoreBusyException):
            zombie.commit_group()
        with pytest.raises(FencedError, match="epoch 2"):
            begin(zombie, transaction(2))
        assert select(postgres, "SELECT word, count FROM counts") == [("a", 1)]


def test_user_code_may_work_in_a_transaction_for_longer_than_the_server_lets_one_be_idle(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(stored: int | None) -> int:
        wait_until_idle(postgres, 200)
        return (stored or 0) + 1

    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        monkeypatch.setitem(postgres_client._SESSION, "idle_in_transaction_session_timeout", "10ms")
        select(postgres, f"SELECT pg_terminate_backend(pid, {WITHIN_MS}) {OTHERS}")  # it connects again
        assert begin(state, transaction(1))
        state.multi_update([("a",)], [slow])
        state.commit_group()
        assert select(postgres, "SELECT count FROM counts") == [(1,)]


def test_a_takeover_ends_what_a_paused_leader_holds_before_it_needs_a_lock_of_it(postgres: str) -> None:
    with opened(postgres) as leader, paused_leader(postgres):
        assert leader.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)
        commit(leader, transaction(2, epoch=2), {"a": 1})
        assert leader.multi_get([("a",)]) == [2]


def test_a_takeover_leaves_other_tables_and_topologies_alone(postgres: str) -> None:
    other = TopologyKey("other", "0a1b2c3d", 1)
    with opened(postgres) as first, opened(postgres, table="more") as second, opened(postgres, table="others") as third:
        second.recover(TOPOLOGY, 1)
        third.recover(other, 1)
        begin(second, transaction(1))
        begin(third, transaction(1, topology=other))
        first.recover(TOPOLOGY, 2)
        second.commit_group()
        third.commit_group()


def test_a_zombie_that_waits_behind_the_takeover_is_refused(postgres: str) -> None:
    with opened(postgres) as zombie, psycopg.connect(postgres) as raising, ThreadPoolExecutor(1) as other:
        zombie.recover(TOPOLOGY, 1)
        raising.execute("SELECT 1 FROM _trident WHERE state = 'counts' FOR UPDATE")
        committing = other.submit(commit, zombie, transaction(1), {"a": 1})
        wait_for_lock(postgres)
        raising.execute("UPDATE _trident SET fence = 2")
        raising.commit()
        with pytest.raises(FencedError, match=r"'wordcount', transaction 1.* epoch 2 .* this leader is of epoch 1"):
            committing.result()
        assert select(postgres, "SELECT * FROM counts") == []


def test_attempts_are_staged_while_another_one_commits_but_not_past_a_takeover(postgres: str) -> None:
    with opened(postgres) as zombie, psycopg.connect(postgres) as raising, ThreadPoolExecutor(1) as other:
        zombie.recover(TOPOLOGY, 1)
        begin(zombie, transaction(1))
        stage(zombie, transaction(2), {"a": 1})
        zombie.rollback()
        raising.execute("SELECT 1 FROM _trident WHERE state = 'counts' FOR UPDATE")
        staging = other.submit(stage, zombie, transaction(3), {"a": 1})
        wait_for_lock(postgres)
        raising.execute("UPDATE _trident SET fence = 2")
        raising.commit()
        with pytest.raises(FencedError, match=r"attempt 3:0: .* epoch 2"):
            staging.result()
        assert tables(postgres) == ["_counts_1_2_0", "_counts_removed", "_trident", "counts"]


def test_a_worker_has_one_connection_for_all_states_under_the_name_of_the_one_that_it_stages_for(postgres: str) -> None:
    names = "SELECT application_name FROM pg_stat_activity WHERE pid = %s"
    with opened(postgres) as one, opened(postgres, table="totals") as other:
        seen = []
        for number, state in enumerate((one, other, one)):
            state.recover(TOPOLOGY, number + 1)
            stage(state, transaction(1, epoch=number + 1), {"a": 1})
            (link,) = staging._links.values()
            with link.transaction() as opened_one:
                connection: Any = opened_one
                pid = connection.info.backend_pid
                seen.append((pid, *connection.execute(names, [pid]).fetchone()))
        assert len({pid for pid, _ in seen}) == 1
        assert len({name for _, name in seen}) == 3


def test_a_task_of_an_older_leader_is_ended_by_a_takeover_also_after_it_staged_for_another_state(postgres: str) -> None:
    with opened(postgres) as old, opened(postgres, table="totals") as other, opened(postgres) as new:
        old.recover(TOPOLOGY, 1)
        other.recover(TOPOLOGY, 1)
        stage(other, transaction(1), {"a": 1})
        stage(old, transaction(1), {"a": 1})
        (link,) = staging._links.values()
        connection = link.begin()
        new.recover(TOPOLOGY, 2)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_what_older_leaders_staged_is_swept_and_nothing_else(postgres: str) -> None:
    with opened(postgres) as old, opened(postgres, table="counts_1") as neighbour, opened(postgres) as new:
        old.recover(TOPOLOGY, 9)
        neighbour.recover(TOPOLOGY, 9)
        stage(old, transaction(1, 0, 9), {"a": 1})
        stage(old, transaction(2, 3, 9), {"a": 1})
        stage(neighbour, transaction(1, 0, 9), {"a": 1})
        for name in ("_counts_10_1_0", "_counts_1", "counts_1_2_3"):
            select(postgres, f"CREATE TABLE {name} ()")
        new.recover(TOPOLOGY, 10)
        kept = ["_counts_1", "_counts_10_1_0", "_counts_1_9_1_0", "_trident", "counts", "counts_1", "counts_1_2_3"]
        assert sorted(tables(postgres)) == sorted([*kept, "_counts_removed", "_counts_1_removed"])


def test_two_leaders_may_recover_an_empty_database_at_once(postgres: str) -> None:
    with opened(postgres) as one, opened(postgres, table="totals") as other, ThreadPoolExecutor(2) as threads:
        both = threading.Barrier(2)

        def recover(state: Any) -> Any:
            both.wait()
            return state.recover(TOPOLOGY, 1)

        assert list(threads.map(recover, (one, other))) == [None, None]


def test_a_table_used_twice_by_one_topology_is_refused(postgres: str) -> None:
    with opened(postgres) as one, opened(postgres) as other:
        one.recover(TOPOLOGY, 1)
        one.recover(TOPOLOGY, 1)
        with pytest.raises(StateError, match=r"'wordcount' uses table 'counts' of 127.0.0.1/test_\w+ twice"):
            other.recover(TOPOLOGY, 1)


def test_a_table_of_another_topology_is_refused_by_name(postgres: str) -> None:
    with opened(postgres) as state, opened(postgres) as foreign:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1})
        with pytest.raises(StateError, match=r"belongs to topology 'wordcount' .uuid 8d1f."):
            foreign.recover(TopologyKey("other", "77aa", 1), 9)
        assert select(postgres, "SELECT word, count FROM counts") == [("a", 1)]


@pytest.mark.parametrize("made", ["TABLE counts AS SELECT 'a' AS word", "VIEW counts AS SELECT 1", "SEQUENCE counts"])
def test_a_table_that_no_topology_made_is_refused_and_left_alone(postgres: str, made: str) -> None:
    select(postgres, f"CREATE {made}")
    with (
        opened(postgres) as state,
        pytest.raises(StateError, match="exists and was not made by a topology"),
    ):
        state.recover(TOPOLOGY, 1)
    assert select(postgres, "SELECT count(*) FROM counts") == [(1,)]


def test_a_table_with_other_fields_is_refused(postgres: str) -> None:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
    with opened(postgres, value="count double") as state, pytest.raises(StateError) as error:
        state.recover(TOPOLOGY, 2)
    assert "has the fields word string, count bigint, declared are word string, count double" in str(error.value)


def test_a_new_incarnation_sets_the_old_table_aside(postgres: str) -> None:
    newer = evolve(TOPOLOGY, incarnation=2)
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(7), {"a": 1})
    with opened(postgres, "word string, day date") as state:
        assert state.recover(newer, 2) is None
        commit(state, transaction(1, epoch=2, topology=newer), {("b", None): 1})
    assert select(postgres, "SELECT word, count FROM _counts_incarnation_1") == [("a", 1)]
    assert select(postgres, "SELECT word, count FROM counts") == [("b", 1)]


def test_a_table_that_was_dropped_is_missed_until_the_topology_is_reset(postgres: str) -> None:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        select(postgres, "DROP TABLE counts")
        assert state.recover(TOPOLOGY, 2) is None
        commit(state, transaction(1, epoch=2), {"a": 1})
        select(postgres, "DROP TABLE counts")
        with pytest.raises(
            StateError, match=r"'wordcount', attempt 2:0: .*: it is gone; to fix this: restore it from a backup"
        ):
            commit(state, transaction(2, epoch=2), {"a": 1})
        with pytest.raises(
            StateError, match=r"counts.* is gone, it was at 1:0 of epoch 2; to fix this: restore it, or `tri"
        ):
            state.recover(TOPOLOGY, 3)
        assert state.recover(evolve(TOPOLOGY, incarnation=2), 3) is None


def test_a_row_of_the_books_that_is_gone_is_missed(postgres: str) -> None:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        select(postgres, "DELETE FROM _trident")
        with pytest.raises(StateError, match="has lost its row in _trident"):
            begin(state, transaction(1))


# --- bad values, bad names, bad servers -------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ["sum", None])
def test_a_sum_beyond_64_bits_is_an_error_and_changes_nothing(postgres: str, hint: Any) -> None:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 2**63 - 1, "b": -(2**63)})
        for word, more in (("a", 1), ("b", -1)):
            reports = stage(state, transaction(2), {word: more})
            with pytest.raises(
                StateError, match=r"'wordcount', attempt 2:0: .*bigint out of range; .* a value is beyond"
            ):
                merge(state, transaction(2), reports, Adding(hint))
            state.discard(transaction(2))
        assert state.multi_get([("a",), ("b",)]) == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("a\0b", "PostgreSQL's texts don't hold NUL, in the row"),
        ("".join(map(chr, range(0x4E00, 0x6E00))), "to fix this: group by something shorter, as a hash"),
    ],
)
def test_text_that_postgresql_cannot_hold_is_explained(postgres: str, word: str, message: str) -> None:
    with opened(postgres) as state:
        state.recover(TOPOLOGY, 1)
        with pytest.raises(StateError, match=message):
            merge(state, transaction(1), stage(state, transaction(1), {word: 1}))
        with pytest.raises(StateError, match="counts"):
            commit(state, transaction(1, 1), {word: 1})
        state.rollback()
        with pytest.raises(StateError, match="is not Unicode text"):
            commit(state, transaction(1, 2), {"\ud800": 1})


@pytest.mark.parametrize(
    "name",
    ["", "_x", "_trident", "1x", "Counts", "a b", 'a"b', "größe", "x" * 41, "x\n", 'x"; drop table s; --', "a.b", None],
)
def test_a_table_name_that_could_do_harm_is_refused_where_it_is_written(name: Any) -> None:
    with pytest.raises(StateError, match="cannot be a state's table in PostgreSQL"):
        check_table(name)
    with pytest.raises(StateError, match="cannot be a state's table"):
        PostgresState("dbname=x", table=name)


@pytest.mark.parametrize("name", ["_txid", "a b", 'a"b', "x" * 64, "ctid", "1x", 'x"; drop table st; --', "%s"])
def test_a_field_name_that_could_do_harm_is_refused(name: str) -> None:
    field = StructField(name, StringType())
    with pytest.raises(StateError, match="cannot be a column in PostgreSQL"):
        POSTGRESQL.column_of(field)


def test_types_and_names_that_have_no_place_are_refused() -> None:
    with pytest.raises(StateError, match=r"field 'x' is void, which a column in PostgreSQL cannot hold"):
        POSTGRESQL.column_of(StructField("x", NullType()))
    with pytest.raises(StateError, match="field 'Word' appears twice"):
        Table.of(POSTGRESQL, "counts", schema_of("Word string"), schema_of("word bigint").fields[0])
    with pytest.raises(StateError, match="longer than PostgreSQL's names"):
        Table.of(POSTGRESQL, "x" * 40, schema_of("a int"), schema_of("b int").fields[0]).staging(10**6, 10**12, 10**6)


def test_names_that_sql_reserves_do(postgres: str) -> None:
    with opened(postgres, "`select` string, `Group` int", "`order` bigint", table="table") as state:
        state.recover(TOPOLOGY, 1)
        for attempt in (0, 1):
            tx = transaction(1, attempt)
            task = state.staging_task(tx)
            merge(state, tx, [staged_by(task, 7, [("a", 1, 5)], "`select` string, `Group` int, `order` bigint")])
    assert select(postgres, 'SELECT "select", "Group", "order" FROM "table"') == [("a", 1, 5)]


def test_a_lock_that_somebody_else_holds_fails_the_attempt_and_not_the_state(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_client._SESSION, "lock_timeout", "50ms")
    with opened(postgres) as state, psycopg.connect(postgres) as other:
        state.recover(TOPOLOGY, 1)
        other.execute("LOCK TABLE _trident")
        with pytest.raises(StoreBusyException, match=r"'wordcount', attempt 1:0: table 'counts'.* lock timeout"):
            begin(state, transaction(1))
        other.rollback()
        commit(state, transaction(1, 1), {"a": 1})


def test_a_role_without_rights_is_told_what_it_lacks(postgres: str) -> None:
    name = f"reader_{os.getpid()}"
    select(postgres, f"CREATE ROLE {name} LOGIN PASSWORD 'pass of it'")
    dsn = make_conninfo(postgres, user=name, password="pass of it")  # noqa: S106
    with (
        opened(dsn) as state,
        pytest.raises(StateError, match=r"denied for schema public .*; to fix this: grant the role what it "),
    ):
        state.recover(TOPOLOGY, 1)
    select(postgres, f"DROP ROLE {name}")


# --- secrets ----------------------------------------------------------------------------------------------------------


def shown(error: BaseException | None) -> str:
    return f"{error!s} {error!r} {shown(error.__cause__)}" if error else ""


def test_no_password_is_ever_shown(
    postgres: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    wrong = PASSWORD + "x"
    dead = make_conninfo(postgres, port=1)
    for dsn in (postgres, dead, make_conninfo(postgres, password=wrong), make_conninfo(postgres, dbname="nowhere")):
        factory = PostgresState(dsn, table="counts").for_fields(schema_of("a int"), schema_of("b int").fields[0])
        state: Any = factory.make_state(TridentConfig(), Metrics(), 0, 1)
        seen += [repr(factory), str(factory), repr(state), repr(state._database)]
        try:
            state.recover(TOPOLOGY, 1)
            task = state.staging_task(transaction(1))
            seen += [repr(task), repr(state.commit_link.session)]
            begin(state, transaction(1))
            state.multi_put([(1,)], [2**40])
        except StateError as error:
            seen.append(shown(error))
            logging.getLogger("test").debug("failed", exc_info=error)
        state.close()
    topology = TridentTopology("secrets")
    rows = topology.new_stream("rows", FixedBatchSpout("word string", 1, ("a",)))
    rows.group_by("word").persistent_aggregate(PostgresState(postgres, table="counts"), Count(), "count")
    seen += [topology.explain(), caplog.text, *capfd.readouterr()]
    assert "PostgresState(dsn=***, table='counts')" in topology.explain()
    assert sum("127.0.0.1/" in text for text in seen) >= 4
    assert not [text for text in seen if "S3cret" in text]


@pytest.mark.parametrize(
    "dsn",
    [
        "host=db passwrd=canary",
        "canary",
        "host=db password='canary",
        "postgresql://u:canary@[h/db",
        "host=h canary",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_where_it_is_written_and_not_shown(dsn: str) -> None:
    with pytest.raises(StateError, match="the DSN is not one that libpq reads") as raised:
        PostgresState(dsn, table="counts")
    assert "canary" not in shown(raised.value)


def test_what_libpq_says_of_a_password_is_taken_out(postgres: str) -> None:
    target = postgres_client.Target(PostgresState(postgres, table="x").dsn)
    assert target.redacted(f'it is "{PASSWORD}"\n  or canary-S3cret%25%2F%40%C3%BC') == 'it is "***" or ***'


def test_without_psycopg_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import trident_py\n"
        "try: trident_py.PostgresState('dbname=x', table='counts')\n"
        "except trident_py.ConfigError as error: print(error)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[5])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert "pip install 'trident-py[postgres]'" in done.stdout


def test_a_state_that_does_not_know_its_types_says_where_it_is_used() -> None:
    with pytest.raises(StateError, match=r"table 'counts' of db/x: .*gets their types only from persistent_aggregate"):
        PostgresState("host=db dbname=x", table="counts").make_state(TridentConfig(), Metrics(), 0, 1)
