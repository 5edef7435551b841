"""Another program changes a state's or a sink's table: it goes on right, or stops by name before it commits."""

# ruff: noqa: S608 - names of columns

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql.types import StructType

from coordinators.values.secret import Secret
from tests.task_links import _no_links_left as _no_links_left
from tests.transactions import begin
from tests.unit.trident_py.sinks.sql.test_writer import Written
from tests.unit.trident_py.sinks.sql.test_writer import by_tasks as by_tasks
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.everywhere import changed, select
from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FailedException, SinkError, StateError, StoreBusyException
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.rows.schema import schema_of
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.mysql import MySQLState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState


@pytest.fixture
def state(url: str) -> Iterator[Any]:
    """A state that has committed ``{"a": 1}`` in transaction 1."""
    factory: Any
    if url.startswith("sqlite"):
        factory = SQLiteState(url.removeprefix("sqlite:///"), table="counts")
    else:
        factory = (PostgresState if url.startswith("postgres") else MySQLState)(url, table="counts")
    told = factory.for_fields(StructType(schema_of("word string").fields), schema_of("count bigint").fields[0])
    made = told.make_state(TridentConfig(), Metrics(), 0, 1)
    made.recover(TOPOLOGY, 1)
    added(made, 1)
    yield made
    made.close()


def added(state: Any, txid: int, epoch: int = 1) -> None:
    tx = transaction(txid, epoch=epoch)
    begin(state, tx)
    try:
        state.multi_merge([("a",)], [1], Adding())
        state.commit_group()
    except BaseException:
        state.rollback()
        raise


def names(url: str, *columns: str) -> str:
    quote = "`" if url.startswith("mysql") else '"'
    return ", ".join(f"{quote}{name}{quote}" for name in columns)


def made_anew(url: str) -> list[str]:
    """Copy the values into a table of the same columns, and put it in the place of the state's."""
    columns = names(url, "word", "count", "_key", "_txid", "_prev", "_born")
    if url.startswith("sqlite"):
        return [
            'CREATE TABLE "copy" (word TEXT, "count" INTEGER, "_key" TEXT PRIMARY KEY, "_txid" INTEGER, '
            '"_prev" INTEGER, "_born" INTEGER) WITHOUT ROWID',
            f'INSERT INTO "copy" SELECT {columns} FROM counts',
            "DROP TABLE counts",
            'ALTER TABLE "copy" RENAME TO counts',
        ]
    like = "(LIKE counts INCLUDING ALL)" if url.startswith("postgres") else "LIKE counts"
    forget = ["ALTER TABLE copy MODIFY _key varchar(768) NOT NULL"] if url.startswith("mysql") else []
    copied = f"INSERT INTO copy SELECT {columns} FROM counts"
    return [f"CREATE TABLE copy {like}", *forget, copied, "DROP TABLE counts", "ALTER TABLE copy RENAME TO counts"]


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
def test_a_state_goes_on_with_columns_and_indexes_that_others_add(url: str, state: Any, is_down: bool) -> None:
    changed(url, "ALTER TABLE counts ADD COLUMN note varchar(9)")
    changed(url, f"CREATE INDEX by_count ON counts ({names(url, 'count')})")
    if is_down:
        state.recover(TOPOLOGY, 2)
    added(state, 2, epoch=2 if is_down else 1)
    assert state.multi_get([("a",)]) == [2]


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("ALTER TABLE counts RENAME COLUMN word TO w", "its column 'word' was made as .* and is gone; to fix this"),
        ("ALTER TABLE counts RENAME TO theirs", "gone"),
        ("DROP TABLE counts", "gone"),
    ],
)
def test_a_state_stops_by_name_where_its_columns_are_gone(
    url: str, state: Any, statement: str, told: str, is_down: bool
) -> None:
    changed(url, statement)
    with pytest.raises(StateError, match=rf"topology 'wordcount'.*: table 'counts' of .*{told}"):
        added_after(state, is_down)


def added_after(state: Any, is_down: bool) -> None:
    if is_down:
        state.recover(TOPOLOGY, 2)
    added(state, 2, epoch=2 if is_down else 1)


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
def test_a_state_stops_by_name_where_a_column_has_another_type(url: str, state: Any, is_down: bool) -> None:
    if url.startswith("sqlite"):
        pytest.skip("SQLite alters no types")
    is_mysql = url.startswith("mysql")
    changed(url, "ALTER TABLE counts " + ("MODIFY `count` int" if is_mysql else 'ALTER "count" TYPE numeric'))
    now = "int" if is_mysql else "numeric"
    told = f"its column 'count' was made as bigint and is {now}; to fix this: alter the table back"
    with pytest.raises(StateError, match=told):
        added_after(state, is_down)


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
def test_a_state_stops_by_name_where_its_table_was_made_anew_and_says_how_to_take_it(
    url: str, state: Any, is_down: bool
) -> None:
    for statement in made_anew(url):
        changed(url, statement)
    with pytest.raises(StateError, match="it was dropped and made again by another program") as stopped:
        added_after(state, is_down)
    way = re.search(r"run: (UPDATE .*)$", str(stopped.value))
    assert way is not None
    changed(url, way[1])
    state.recover(TOPOLOGY, 3)
    added(state, 2, epoch=3)
    assert state.multi_get([("a",)]) == [2]


@pytest.mark.mysql
def test_a_state_stops_by_name_where_mysql_would_take_another_key_for_its_own(mysql: str) -> None:
    state = MySQLState(mysql, table="counts").for_fields(
        StructType(schema_of("word string").fields), schema_of("count bigint").fields[0]
    )
    made = state.make_state(TridentConfig(), Metrics(), 0, 1)
    made.recover(TOPOLOGY, 1)
    added(made, 1)
    changed(mysql, "ALTER TABLE counts ADD UNIQUE KEY by_count (`count`)")
    with pytest.raises(StateError, match="its only unique key was _key, and there are by_count:count,PRIMARY:_key"):
        added(made, 2)
    changed(mysql, "ALTER TABLE counts DROP KEY by_count")
    changed(mysql, "ALTER TABLE counts CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    with pytest.raises(StateError, match=r"its column '(word|_key)' was made as .*utf8mb4_bin and is .*general_ci"):
        added(made, 2)
    made.close()


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DROP TABLE words", "gone"),
        ("ALTER TABLE words RENAME COLUMN word TO w", "no column for the field 'word'.*; to fix this: add the column"),
    ],
)
def test_a_sink_stops_by_name_where_its_columns_are_gone(
    url: str, by_tasks: bool, statement: str, told: str, is_down: bool
) -> None:
    written = Written(url, by_tasks=by_tasks)
    written.recover()
    written.write(transaction(1), [(1, "a")])
    prepared = written.prepare(transaction(2), [(2, "b")])
    changed(url, statement)

    def go_on() -> None:
        if is_down:
            written.recover(2)
            written.write(transaction(2, epoch=2), [(2, "b")])
        else:
            written.writer.commit(transaction(2), prepared)

    with pytest.raises((SinkError, StateError), match=rf"topology 'wordcount'.*: table 'words' of .*{told}"):
        go_on()
    written.writer.close()


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE words ADD COLUMN more int"],
        ["DELETE FROM words"],
        ["DROP TABLE words", "CREATE TABLE words (more int, word varchar(10), id bigint)"],
        ["ALTER TABLE words RENAME TO old", "CREATE TABLE words (word varchar(10), id bigint)"],
    ],
)
def test_a_sink_goes_on_into_a_table_that_takes_its_fields(url: str, by_tasks: bool, statements: list[str]) -> None:
    written = Written(url, by_tasks=by_tasks)
    written.recover()
    written.write(transaction(1), [(1, "a")])
    prepared = written.prepare(transaction(2), [(2, "b")])
    for statement in statements:
        changed(url, statement)
    try:
        written.writer.commit(transaction(2), prepared)
    except StoreBusyException as error:
        assert "they are staged again" in str(error)  # noqa: PT017 - one of two ends
        written.write(transaction(2, 1), [(2, "b")])
    assert select(url, "SELECT id, word FROM words WHERE id = 2") == [(2, "b")]
    written.writer.close()


def test_a_row_that_a_new_constraint_refuses_counts_as_a_failure_of_the_batch(url: str, by_tasks: bool) -> None:
    changed(url, "CREATE TABLE words (id bigint, word varchar(10), CONSTRAINT positive CHECK (id > 0))")
    written = Written(url, by_tasks=by_tasks)
    written.recover()
    with pytest.raises(FailedException, match=r"attempt 1:0: table 'words' of .*(positive|words\.id)") as refused:
        written.write(transaction(1), [(1, "a"), (-3, "b")])
    assert not isinstance(refused.value, StoreBusyException)
    assert select(url, "SELECT id FROM words") == []
    written.write(transaction(1, 1), [(1, "a")])
    assert select(url, "SELECT id FROM words") == [(1,)]
    written.writer.close()


def test_a_table_that_has_lost_its_only_column_is_not_taken_for_one_that_is_gone(url: str, by_tasks: bool) -> None:
    if not url.startswith("postgres"):
        pytest.skip("only PostgreSQL has tables without columns")
    changed(url, "CREATE TABLE words (id bigint)")
    written = Written(url, fields="id bigint", by_tasks=by_tasks)
    written.recover()
    written.write(transaction(1), [(1,)])
    prepared = written.prepare(transaction(2), [(2,)])
    changed(url, "ALTER TABLE words DROP COLUMN id")
    told = "column 'id' is gone: it has no column for the field 'id', its columns are none; to fix this: add the column"
    with pytest.raises(SinkError, match=told):
        written.writer.commit(transaction(2), prepared)
    written.writer.close()


def test_a_sink_stops_by_name_where_a_column_would_round_from_now_on(url: str, by_tasks: bool) -> None:
    if url.startswith("sqlite"):
        pytest.skip("SQLite alters no types")
    written = Written(url, fields="id bigint, x double", by_tasks=by_tasks)
    written.recover()
    written.write(transaction(1), [(1, 0.5)])
    prepared = written.prepare(transaction(2), [(2, 2.5)])
    changed(url, "ALTER TABLE words " + ("MODIFY x int" if url.startswith("mysql") else "ALTER x TYPE int"))
    told = "attempt 2:0: .* was changed while the topology ran: column 'x' was double.* and is int.*; to fix this"
    with pytest.raises(SinkError, match=told):
        written.writer.commit(transaction(2), prepared)
    written.writer.close()


@pytest.mark.mysql
def test_keys_that_another_collation_would_take_for_one_stop_the_sink(mysql: str) -> None:
    written = Written(mysql, ("word",))
    written.recover()
    written.write(transaction(1), [(1, "a")])
    changed(mysql, "ALTER TABLE words CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    with pytest.raises(SinkError, match=r"its column _key was made as .*utf8mb4_bin and is .*general_ci; to fix this"):
        written.write(transaction(2), [(2, "A")])
    written.writer.close()


@pytest.mark.parametrize("keys", ["PRIMARY KEY (_key)", None])
def test_rows_that_replace_each_other_need_their_key(url: str, by_tasks: bool, keys: str | None) -> None:
    if url.startswith("sqlite"):
        pytest.skip("SQLite drops no keys")
    written = Written(url, ("id",), by_tasks=by_tasks)
    written.recover()
    written.write(transaction(1), [(1, "a")])
    if keys is None:
        drop = "DROP PRIMARY KEY" if url.startswith("mysql") else "DROP CONSTRAINT words_pkey"
        changed(url, f"ALTER TABLE words {drop}")
        with pytest.raises((SinkError, StateError), match="primary key"):
            written.write(transaction(2), [(1, "b")])
    else:
        changed(url, "CREATE INDEX by_word ON words (id)")
        written.write(transaction(2), [(1, "b")])
        assert select(url, "SELECT id, word FROM words") == [(1, "b")]
    written.writer.close()


def test_a_reset_is_no_change_by_another_program(url: str, state: Any) -> None:
    assert state.recover(evolve(TOPOLOGY, incarnation=2), 2) is None
    tx = evolve(transaction(1, epoch=2), key=evolve(transaction(1).key, incarnation=2))
    begin(state, tx)
    state.multi_merge([("a",)], [1], Adding())
    state.commit_group()
    assert state.multi_get([("a",)]) == [1]


def test_a_table_can_not_be_altered_between_the_check_and_the_end_of_a_commit(url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("a commit has the lock of the file")
    changed(url, "CREATE TABLE words (id bigint)")
    database = database_of(Secret(url))
    committing, altering = database.link(), database.beside()
    schema = database.schema(committing, "test")
    database.find_table(committing.begin(), schema, "words")
    alter = "ALTER TABLE words ADD COLUMN more int"
    with pytest.raises(StoreBusyException), database.explained("test"), altering.transaction(1) as connection:
        connection.execute(alter)
    committing.rollback()
    with altering.transaction(1) as connection:
        connection.execute(alter)
    found = database.find_table(committing.begin(), schema, "words")
    assert [each.name for each in found.columns] == ["id", "more"]
    committing.close()
    altering.close()
