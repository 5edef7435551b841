"""One contract for `SQLSink` on every database: rows once, whole transactions, older leaders refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import psycopg
import pymysql
import pytest
from attrs import evolve

from coordinators.values.secret import Secret
from tests.task_links import _no_links_left as _no_links_left
from tests.unit.trident_py.states.sql.everywhere import changed, select
from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.unit.trident_py.states.sql.postgres_rows import staged_by
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FencedError, SinkError, StateError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.sql.rows_table import RowsTable
from trident_py.sinks.sql.sink import SQLSink
from trident_py.sinks.sql.writer import Prepared, RowsWriter
from trident_py.states.sql import staging
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.dialect import AnswerLostError
from trident_py.states.sql.staging import StagingTask

FIELDS = "id bigint, word string"
Rows = list[tuple[Any, ...]]


class Written:
    """A writer, given rows as `SQLSink` gives them, without Spark."""

    def __init__(self, url: str, keys: tuple[str, ...] = (), fields: str = FIELDS, *, by_tasks: bool = True) -> None:
        self.by_tasks = by_tasks
        database = database_of(Secret(url))
        self.writer = RowsWriter(database, "words", by_key=bool(keys))
        self.wanted = RowsTable.of(database.dialect, "words", schema_of(fields), keys)
        self.fields = fields

    def recover(self, epoch: int = 1, topology: TopologyKey = TOPOLOGY) -> CommitToken | None:
        token = self.writer.recover(topology, epoch)
        self.writer.sweep(self.wanted, epoch)
        return token

    def prepare(self, tx: SinkTransaction, rows: Rows) -> Prepared:
        table = self.writer.table(self.wanted)
        if not self.by_tasks or not table.dialect.stages:
            return Prepared(arrow_table(rows, schema_of(self.fields)), staged=False)
        task: StagingTask = self.writer.staging_task(tx, table)
        report = staged_by(task, 7, rows, self.fields)
        return Prepared(arrow_table([report], schema_of(staging.REPORTS)), staged=True, storages=table.storages)

    def write(self, tx: SinkTransaction, rows: Rows) -> None:
        self.writer.commit(tx, self.prepare(tx, rows))


@pytest.fixture(params=[True, False], ids=["large", "small"])
def by_tasks(request: pytest.FixtureRequest) -> bool:
    """Rows of small batches, and all for SQLite, are on the driver."""
    return bool(request.param)


@pytest.fixture
def written(url: str, by_tasks: bool) -> Iterator[Written]:
    made = Written(url, by_tasks=by_tasks)
    yield made
    made.writer.close()


def test_rows_are_added_once_also_where_a_transaction_comes_again(url: str, written: Written) -> None:
    """The repros of apache/paimon#9666 and delta-io/delta#1813."""
    assert written.recover() is None
    written.write(transaction(1), [(1, "a"), (1, "a"), (None, None)])
    written.write(transaction(2), [])
    written.write(transaction(3), [(3, "c")])
    assert written.recover(2) == CommitToken(3, 1, 0)
    written.write(transaction(3, 1, 2), [(3, "c")])
    assert written.recover(3) == CommitToken(3, 1, 0)
    assert select(url, "SELECT id, word FROM words WHERE id IS NOT NULL") == [(1, "a"), (1, "a"), (3, "c")]
    assert select(url, "SELECT count(*) FROM words") == [(4,)]


def test_nothing_is_seen_before_the_commit_nor_of_what_was_given_up(url: str, written: Written) -> None:
    written.recover()
    prepared = written.prepare(transaction(1), [(1, "a")])
    assert select(url, "SELECT * FROM words") == []
    written.writer.discard(transaction(1))
    written.write(transaction(1, 1), [(2, "b")])
    assert select(url, "SELECT id, word FROM words") == [(2, "b")]
    assert prepared


def test_an_older_leader_is_refused_and_what_it_staged_is_gone(url: str, written: Written) -> None:
    written.recover(1)
    prepared = written.prepare(transaction(1), [(1, "a")])
    newer = Written(url)
    newer.recover(2)
    with pytest.raises(FencedError, match="epoch 2"):
        written.writer.commit(transaction(1), prepared)
    newer.write(transaction(1, 1, 2), [(2, "b")])
    assert select(url, "SELECT id, word FROM words") == [(2, "b")]
    newer.writer.close()


def test_rows_of_one_key_replace_each_other(url: str, by_tasks: bool) -> None:
    written = Written(url, ("id",), by_tasks=by_tasks)
    written.recover()
    written.write(transaction(1), [(1, "a"), (2, "b"), (None, "n")])
    written.write(transaction(2), [(1, "A"), (3, "c"), (None, "N")])
    assert select(url, "SELECT id, word FROM words WHERE id IS NOT NULL") == [(1, "A"), (2, "b"), (3, "c")]
    assert select(url, "SELECT word FROM words WHERE id IS NULL") == [("N",)]
    prepared = written.prepare(transaction(3), [(1, "x"), (1, "y")])
    with pytest.raises(SinkError, match=r"attempt 3:0: .*several rows of the batch have the key \[1\]"):
        written.writer.commit(transaction(3), prepared)
    assert select(url, "SELECT count(*) FROM words") == [(4,)]
    written.writer.close()


def test_rows_that_replace_those_of_an_older_attempt_are_taken_once(url: str, by_tasks: bool) -> None:
    written = Written(url, ("id",), by_tasks=by_tasks)
    written.recover()
    written.write(transaction(1), [(1, "a"), (2, "b")])
    written.write(transaction(2), [(1, "A"), (3, "c")])
    newer = evolve(transaction(2, 1), replaces=True)
    written.write(newer, [(1, "a"), (3, None), (4, "d")])
    replaced = [(1, "a"), (2, "b"), (4, "d")]
    query = "SELECT id, word FROM words WHERE word IS NOT NULL"
    assert select(url, query) == replaced
    changed(url, "UPDATE words SET word = 'theirs' WHERE id = 1")
    written.write(newer, [(1, "a"), (3, None), (4, "d")])
    written.write(evolve(transaction(1, 1), replaces=True), [(2, "late")])
    assert select(url, query) == [(1, "theirs"), *replaced[1:]]
    assert written.recover(2) == CommitToken(2, 1, 1)
    written.writer.close()


def test_a_transaction_that_comes_again_replaces_nothing_even_where_others_wrote_since(url: str) -> None:
    """The repro of apache/paimon#9666 with keys: a batch that is merged again undoes what came after it."""
    written = Written(url, ("id",))
    written.recover()
    written.write(transaction(1), [(1, "a"), (2, "b")])
    changed(url, "UPDATE words SET word = 'theirs' WHERE id = 1")
    assert written.recover(2) == CommitToken(1, 1, 0)
    written.write(transaction(1, 1, 2), [(1, "a"), (2, "b")])
    assert select(url, "SELECT id, word FROM words") == [(1, "theirs"), (2, "b")]
    written.writer.close()


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "upsert"])
@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_whose_answer_was_lost_is_read_back_and_its_rows_are_there_once(
    url: str, landed: bool, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Written(url, keys)
    written.recover()
    written.write(transaction(1), [(1, "a")])
    link: Any = written.writer.commit_link
    commit, tx = type(link).commit, transaction(2)
    prepared = written.prepare(tx, [(2, "b"), (3, "c")])

    def lost(link: Any) -> None:
        monkeypatch.undo()
        if landed:
            commit(link)
        link.close()
        raise AnswerLostError("the connection broke")

    monkeypatch.setattr(type(link), "commit", lost)
    with nullcontext() if landed else pytest.raises(StoreBusyException, match="nothing was committed"):
        written.writer.commit(tx, prepared)
    written.write(transaction(2, 1), [(2, "b"), (3, "c")])
    written.write(transaction(3), [(4, "d")])
    assert select(url, "SELECT id, word FROM words") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    written.writer.close()


def test_a_table_of_others_takes_rows_but_is_not_taken_for_one_with_keys(url: str, written: Written) -> None:
    select_nothing = "CREATE TABLE words (word varchar(10), id bigint, more int)"
    with suppress(psycopg.Error, pymysql.Error):
        select(url, select_nothing)
    by_key = Written(url, ("id",))
    with pytest.raises(SinkError, match="was not made by a topology"):
        by_key.recover()
    by_key.writer.close()
    written.recover()
    written.write(transaction(1), [(1, "a")])
    assert select(url, "SELECT id, word, more FROM words") == [(1, "a", None)]


def test_a_table_of_another_topology_or_other_fields_or_an_older_life_is_refused(url: str, written: Written) -> None:
    written.recover()
    written.write(transaction(1), [(1, "a")])
    theirs = Written(url)
    with pytest.raises(StateError, match=r"belongs to topology 'wordcount'"):
        theirs.recover(topology=TopologyKey("other", "77", 1))
    theirs.writer.close()
    other = Written(url, fields="id bigint, word binary")
    other.recover(2)
    with pytest.raises(SinkError, match="has the fields id bigint, word string, declared are id bigint, word binary"):
        other.prepare(transaction(2, 0, 2), [])
    other.writer.close()
    with pytest.raises(SinkError, match="has rows from before the topology was reset"):
        written.recover(3, TopologyKey(TOPOLOGY.name, TOPOLOGY.uuid, 2))
    changed(url, "DELETE FROM words")
    assert written.recover(3, TopologyKey(TOPOLOGY.name, TOPOLOGY.uuid, 2)) is None


@pytest.mark.parametrize(
    ("url", "more", "told"),
    [
        ("oracle://x", {}, "begins with sqlite:///"),
        ("sqlite://words.db", {}, "is a file"),
        ("sqlite:///:memory:", {}, "is a file"),
        ("sqlite:///w.db", {"mode": "replace"}, "'append', 'upsert' or 'merge'"),
        ("sqlite:///w.db", {"mode": "upsert"}, "needs keys="),
        ("sqlite:///w.db", {"keys": "id"}, "needs keys="),
        ("sqlite:///w.db", {"mode": "upsert", "keys": 5}, "a name or a list of names"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(url: str, more: dict[str, Any], told: str) -> None:
    with pytest.raises(SinkError.__mro__[1], match=told):
        SQLSink(url, "words", **more)
