"""What `MySQLState` has beyond the contract of `test_fenced_state`: types, keys, what tasks stage, other sessions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import StructType

from coordinators.values.secret import Secret
from tests.servers.mariadb import PASSWORD, MariaDBServer
from tests.task_links import _no_links_left as _no_links_left
from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.postgres_rows import commit, merge, stage
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FencedError, StateError, StoreBusyException
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, TopologyKey
from trident_py.rows.schema import schema_of
from trident_py.states.sql.mysql import MySQLDatabase, MySQLState
from trident_py.states.sql.staging import StagingSQLMapState

pytestmark = pytest.mark.mysql


@contextmanager
def opened(
    url: str, keys: str | None = "word string", value: str = "count bigint", *, table: str = "counts"
) -> Iterator[StagingSQLMapState]:
    fields = schema_of(keys) if keys else StructType([])
    factory = MySQLState(url, table=table).for_fields(fields, schema_of(value).fields[0])
    state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, StagingSQLMapState)
    try:
        yield state
    finally:
        state.close()


@pytest.fixture
def select(mysql: str, mariadb_server: MariaDBServer) -> Any:
    """What another client sees, or does."""
    database = mysql.rpartition("/")[2]
    return lambda query: mariadb_server.run(query, database=database)


def tables(select: Any) -> list[str]:
    return sorted(name for (name,) in select("SHOW TABLES"))


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("x string", "größe 🙂 a\0b "),
        ("x tinyint", -128),
        ("x bigint", 2**63 - 1),
        ("x boolean", True),
        ("x double", -0.1),
        ("x decimal(38,10)", Decimal("1234567890123456789012345678.0123456789")),
        ("x date", date(31, 2, 28)),
        ("x timestamp", datetime(2124, 2, 29, 12, 0, 0, 7, tzinfo=UTC)),
        ("x timestamp_ntz", datetime(1024, 2, 29, 12, 0, 0, 7)),  # noqa: DTZ001
        ("x binary", b"\x00\xff'\\"),
        ("x array<struct<a: int, b: string>>", [(1, "x"), None]),
        ("x map<string, decimal(4,2)>", {"a": Decimal("1.50"), "b": None}),
        ("x map<int, date>", {1: date(2024, 1, 1)}),
    ],
)
def test_a_value_and_a_key_come_back(mysql: str, ddl: str, value: Any) -> None:
    keys = ddl.replace("x ", "k ") if "map" not in ddl else "k string"
    key = value if "map" not in ddl else "k"
    with opened(mysql, keys, ddl) as state:
        state.recover(TOPOLOGY, 1)
        begin(state, transaction(1))
        state.multi_put([(key,)], [value])
        state.commit_group()
        assert state.multi_get([(key,)]) == [value]
        assert state.get_tuples() == [(key, value)]


@pytest.mark.parametrize("merge_in_sql", ["sum", "min", "max"])
@pytest.mark.parametrize("ddl", ["x smallint", "x bigint", "x decimal(10,2)"])
def test_values_are_merged_in_sql_as_spark_would(mysql: str, ddl: str, merge_in_sql: Any) -> None:
    expected = {"sum": [5, 3, 2], "min": [2, 3, 2], "max": [3, 3, 2]}[merge_in_sql]
    with opened(mysql, value=ddl) as state:
        state.recover(TOPOLOGY, 1)
        for txid, values in ((1, [3, 3, None]), (2, [2, None, 2])):
            begin(state, transaction(txid))
            state.multi_merge([("a",), ("b",), ("c",)], values, Adding(merge_in_sql))
            state.commit_group()
        assert state.multi_get([("a",), ("b",), ("c",)]) == expected


def test_keys_that_a_collation_takes_for_equal_are_told_apart(mysql: str, select: Any) -> None:
    words = ["a", "A", "á", "a ", "", " ", None, "ss", "ß"]
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {word: number for number, word in enumerate(words)})
        commit(state, transaction(2), {word: 10 for word in words})
        assert state.multi_get([(word,) for word in words]) == [10 + number for number in range(len(words))]
    assert len(select("SELECT word, count FROM counts")) == len(words)


def test_what_tasks_stage_is_merged_and_undone_and_their_tables_go(mysql: str, select: Any) -> None:
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
        merge(state, transaction(1), stage(state, transaction(1), {"a": 1}, {"b": 2}))
        merge(state, transaction(2), stage(state, transaction(2), {"a": 1, "c": 1}), Adding(None))
        assert tables(select) == ["_counts_removed", "_trident", "counts"]
        state.recover(TOPOLOGY, 2)
        merge(state, transaction(2, 1, 2), stage(state, transaction(2, 1, 2), {"b": 1}))
        assert dict(state.get_tuples()) == {"a": 1, "b": 3}
        assert state.recover(TOPOLOGY, 3) == CommitToken(2, 2, 1)


@pytest.mark.parametrize("change", ["DELETE FROM _counts_1_1_0", "DROP TABLE _counts_1_1_0"])
def test_what_a_mysql_server_lacks_of_what_was_reported_fails_the_attempt(mysql: str, select: Any, change: str) -> None:
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
        reports = stage(state, transaction(1), {"a": 1})
        select(change)
        with pytest.raises(StoreBusyException, match=r"'wordcount', attempt 1:0: table 'counts'"):
            merge(state, transaction(1), reports)


def test_a_takeover_ends_a_transaction_that_an_older_leader_left_open_and_sweeps(mysql: str, select: Any) -> None:
    with opened(mysql) as old, opened(mysql) as new:
        old.recover(TOPOLOGY, 1)
        stage(old, transaction(1), {"a": 1})
        begin(old, transaction(1))
        old.multi_put([("a",)], [1])
        new.recover(TOPOLOGY, 2)
        assert tables(select) == ["_counts_removed", "_trident", "counts"]
        with pytest.raises(StoreBusyException, match="attempt 1:0"):
            old.commit_group()
        old.rollback()
        with pytest.raises(FencedError, match="epoch 2"):
            begin(old, transaction(1, 1))
        commit(new, transaction(1, 1, 2), {"b": 1})
    assert select("SELECT word, count FROM counts") == [("b", 1)]


def test_a_newer_incarnation_sets_the_table_aside(mysql: str, select: Any) -> None:
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1})
        again = TopologyKey(TOPOLOGY.name, TOPOLOGY.uuid, 2)
        assert state.recover(again, 2) is None
        assert state.get_tuples() == []
    assert tables(select) == ["_counts_incarnation_1", "_counts_removed", "_trident", "counts"]


def test_a_takeover_that_was_cut_off_after_the_table_was_set_aside_goes_on(mysql: str, select: Any) -> None:
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1})
        select("ALTER TABLE counts RENAME TO _counts_incarnation_1")
        assert state.recover(TopologyKey(TOPOLOGY.name, TOPOLOGY.uuid, 2), 2) is None
        assert state.get_tuples() == []


def test_a_table_of_somebody_else_is_refused(mysql: str, select: Any) -> None:
    select("CREATE TABLE theirs (a int)")
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
    with opened(mysql) as state, pytest.raises(StateError, match=r"belongs to topology 'wordcount' .uuid 8d1f."):
        state.recover(TopologyKey("other", "77", 1), 1)
    with opened(mysql, table="theirs") as state, pytest.raises(StateError, match="was not made by a topology"):
        state.recover(TOPOLOGY, 1)


def test_what_it_cannot_hold_is_told_with_the_way_out(mysql: str) -> None:
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
        for change, told in (
            ({"x" * 800: 1}, "group by something shorter"),
            ({"a": 2**63}, "beyond its field's type"),
            ({"\ud800": 1}, "is not Unicode text"),
        ):
            with pytest.raises(StateError, match=told):
                commit(state, transaction(1), change)
            state.rollback()
    with opened(mysql, value="x double", table="floats") as state:
        state.recover(TOPOLOGY, 1)
        with pytest.raises(StateError, match=r"field 'x' is double and cannot hold nan"):
            commit(state, transaction(1), {"a": float("nan")})


def test_a_value_beyond_the_largest_packet_is_told_and_not_tried_for_ever(mysql: str, select: Any) -> None:
    ((packet,),) = select("SELECT @@max_allowed_packet")
    with opened(mysql, value="x string") as state:
        state.recover(TOPOLOGY, 1)
        begin(state, transaction(1))
        with pytest.raises(StateError, match="raise max_allowed_packet"):
            state.multi_put([("a",)], ["x" * (packet + 1)])


def test_a_session_that_the_server_ended_fails_the_attempt_and_comes_back(mysql: str, select: Any) -> None:
    with opened(mysql) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1})
        begin(state, transaction(2))
        state.multi_put([("a",)], [5])
        for (session,) in select(
            "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
        ):
            select(f"KILL {session}")
        with pytest.raises(StoreBusyException, match="attempt 2:0"):
            state.commit_group()
        state.rollback()
        commit(state, transaction(2, 1), {"a": 1})
        assert state.get_tuples() == [("a", 2)]


def test_the_password_is_never_shown_and_a_url_that_is_none_is_refused(mysql: str) -> None:
    factory = MySQLState(mysql, table="counts")
    with opened(mysql.replace("/test_", "/gone_")) as state:
        with pytest.raises(StateError, match=r"check the server|make the database first") as raised:
            state.recover(TOPOLOGY, 1)
        seen = [repr(factory), repr(factory.database), repr(state), str(raised.value)]
    assert not [text for text in seen if "S3cret" in text or PASSWORD in text]
    for url in ("mysql://u:canary@[h/db", "canary", "mysql://u:canary@h", "postgresql://u:canary@h/db"):
        with pytest.raises(StateError, match="is not like 'mysql://") as raised:
            MySQLState(url, table="counts")
        assert "canary" not in str(raised.value)
    table: Any
    for table in ("Counts", None):
        with pytest.raises(StateError, match=f"table {table!r} cannot be a table's name in MySQL"):
            MySQLState(mysql, table=table)


def test_without_the_library_its_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['pymysql'] = None\nimport trident_py\n"
        "try:\n    trident_py.MySQLState('mysql://u@h/db', table='counts')\n"
        "except trident_py.ConfigError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'trident-py[mysql]'" in run.stdout


def test_a_table_is_read_by_others_as_it_is(mysql: str) -> None:
    with opened(mysql, "word string, n int") as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {("a", 1): 1, (None, 2): 2})
        reader: Any = MySQLState(mysql, table="counts").for_reading().make_state(TridentConfig(), Metrics(), 0, 1)
        assert reader.multi_get([(None, 2), ("x", 1)]) == [2, None]
        assert sorted(reader.get_tuples(), key=str) == [("a", 1, 1), (None, 2, 2)]
        reader.close()


def test_only_the_connection_for_commits_has_a_mark_since_the_server_makes_a_second_one_wait_for_it() -> None:
    database = MySQLDatabase(Secret("mysql://u@localhost/d"), owner="me")
    assert database.link().owners == ("me",)
    assert database.second_link().owners == database.beside().owners == ()


def test_a_connection_is_marked_also_if_an_older_one_of_the_same_leader_is_half_dead(mysql: str) -> None:
    """Without the mark the next leader could not end it."""
    database = MySQLDatabase(Secret(mysql), owner="one")
    half_dead, again, other = database.link(), database.link(), database.beside()
    connection = half_dead.begin()
    again.begin()
    held = other.begin().execute("SELECT IS_USED_LOCK('trident one')").fetchone()
    assert held == (again.begin().client.thread_id(),)
    with pytest.raises(database.library().Error):
        connection.execute("SELECT 1")
    for each in (half_dead, again, other):
        each.close()
