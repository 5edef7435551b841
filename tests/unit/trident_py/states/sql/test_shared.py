"""One contract for the transaction that several tables share, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from attrs import define

from coordinators.values.secret import Secret
from tests.transactions import begin
from tests.unit.trident_py.sinks.sql.test_writer import Written
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.everywhere import select
from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FencedError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken, SinkTransaction
from trident_py.rows.schema import schema_of
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.dialect import AnswerLostError, Database
from trident_py.states.sql.mysql import MySQLDatabase
from trident_py.states.sql.postgres_client import Target
from trident_py.states.sql.postgres_database import PostgresDatabase
from trident_py.states.sql.shared import SharedTransaction
from trident_py.states.sql.staging import StagingSQLMapState
from trident_py.states.sql.state import SQLMapState
from trident_py.states.sql.table import Table


@define(eq=False)
class Leader:
    """Two states and a sink of one database, recovered, in one transaction."""

    epoch: int
    counts: SQLMapState
    totals: SQLMapState
    words: Written
    shared: SharedTransaction

    @classmethod
    def of(cls, url: str, epoch: int) -> Leader:
        counts, totals, words = state(url, "counts"), state(url, "totals"), Written(url)
        for each in (totals, counts, words.writer):
            each.recover(TOPOLOGY, epoch)
        words.writer.table(words.wanted)
        assert counts.identity == totals.identity == words.writer.identity
        shared = SharedTransaction([words.writer, totals, counts])
        shared.join()
        return cls(epoch, counts, totals, words, shared)

    def commit(self, txid: int, attempt: int = 0) -> None:
        tx = transaction(txid, attempt, self.epoch)
        prepared = self.words.prepare(tx, [(txid, "a")])
        with self.shared.committing(tx):
            self.write(tx)
            self.words.writer.commit(tx, prepared)

    def write(self, tx: SinkTransaction) -> None:
        for each in (self.counts, self.totals):
            if begin(each, tx):
                each.multi_merge([("a",)], [1], Adding())
                each.commit_group()

    def close(self) -> None:
        for each in (self.counts, self.totals, self.words.writer):
            each.close()


def state(url: str, name: str) -> SQLMapState:
    database = database_of(Secret(url))
    table = Table.of(database.dialect, name, schema_of("word string"), schema_of("count bigint").fields[0])
    return (StagingSQLMapState if database.dialect.stages else SQLMapState)(database, table)


@contextmanager
def leading(url: str, epoch: int = 1) -> Iterator[Leader]:
    leader = Leader.of(url, epoch)
    try:
        yield leader
    finally:
        leader.close()


def seen(url: str) -> Any:
    """What a reader sees in one look."""
    query = (
        "SELECT coalesce((SELECT count FROM counts WHERE word = 'a'), 0), "
        "coalesce((SELECT count FROM totals WHERE word = 'a'), 0), (SELECT count(*) FROM words)"
    )
    return select(url, query)[0]


def test_all_of_a_transaction_is_seen_or_none_of_it(url: str) -> None:
    with leading(url) as leader:
        leader.commit(1)
        tx = transaction(2)
        with leader.shared.committing(tx):
            leader.write(tx)
            assert leader.counts.multi_get([("a",)]) == [2]
            assert seen(url) == (1, 1, 1)
        assert seen(url) == (2, 2, 1)


def test_each_decides_by_its_own_token(url: str) -> None:
    with leading(url) as leader:
        leader.commit(1)
        tx = transaction(2)
        with leader.shared.committing(tx):
            assert begin(leader.totals, tx)
            leader.totals.multi_merge([("a",)], [7], Adding())
            leader.totals.commit_group()
    with leading(url, 2) as leader:
        leader.commit(2, 1)
        assert seen(url) == (2, 2, 2)
        leader.commit(3)
        leader.commit(3)
    assert seen(url) == (3, 3, 3)


def test_what_raises_leaves_nothing_and_the_leader_goes_on(url: str) -> None:
    with leading(url) as leader:
        leader.commit(1)
        with pytest.raises(ValueError, match="no"):
            fail(leader, transaction(2))
        assert seen(url) == (1, 1, 1)
        leader.commit(2, 1)
    assert seen(url) == (2, 2, 2)


def fail(leader: Leader, tx: SinkTransaction) -> None:
    prepared = leader.words.prepare(tx, [(9, "a")])
    with leader.shared.committing(tx):
        leader.write(tx)
        leader.words.writer.commit(tx, prepared)
        raise ValueError("no")


def test_a_newer_leader_of_any_of_the_tables_ends_the_commit_of_all(url: str) -> None:
    with leading(url) as old:
        old.commit(1)
        newer = state(url, "totals")
        newer.recover(TOPOLOGY, 2)
        with pytest.raises(FencedError):
            old.commit(2)
        newer.close()
        assert seen(url) == (1, 1, 1)


def test_a_newer_leader_does_not_wait_for_one_that_is_paused_in_mid_commit(url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("whoever is paused in SQLite holds its file")
    with leading(url) as old:
        old.commit(1)
        with pytest.raises(StoreBusyException):
            commit_around_a_takeover(old, url)
        assert seen(url) == (2, 2, 2)


def commit_around_a_takeover(old: Leader, url: str) -> None:
    tx = transaction(2)
    with old.shared.committing(tx):
        old.write(tx)
        with leading(url, 2) as new:
            new.commit(2, 1)


@pytest.mark.parametrize("landed", [True, False])
def test_when_the_answer_to_commit_is_lost_the_tokens_are_read_back(
    url: str, landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leading(url) as leader:
        leader.commit(1)
        link: Any = leader.counts.commit_link
        commit = type(link._link).commit

        def lost(link: Any) -> None:
            monkeypatch.undo()
            if landed:
                commit(link)
            link.close()
            raise AnswerLostError("the connection broke")

        monkeypatch.setattr(type(link._link), "commit", lost)
        if landed:
            lost_in_shared(leader, 2)
        else:
            with pytest.raises(StoreBusyException, match="nothing was committed"):
                lost_in_shared(leader, 2)
            lost_in_shared(leader, 2, 1)
        leader.commit(3)
        assert leader.counts.known is not None
        assert leader.counts.known.token == CommitToken(3, 1, 0)
    assert seen(url) == (3, 3, 2)


def test_an_attempt_stages_while_another_one_is_written_and_not_committed(url: str) -> None:
    with leading(url) as leader:
        leader.commit(1)
        tx = transaction(2)
        prepared = leader.words.prepare(tx, [(2, "a")])
        with leader.shared.committing(tx):
            leader.write(tx)
            leader.words.writer.commit(tx, prepared)
            later = leader.words.prepare(transaction(3), [(3, "a")])
        with leader.shared.committing(transaction(3)):
            leader.write(transaction(3))
            leader.words.writer.commit(transaction(3), later)
    assert seen(url) == (3, 3, 3)


def lost_in_shared(leader: Leader, txid: int, attempt: int = 0) -> None:
    tx = transaction(txid, attempt, leader.epoch)
    with leader.shared.committing(tx):
        leader.write(tx)


@pytest.mark.postgres
def test_a_postgresql_is_itself_by_any_name(postgres: str) -> None:
    def identity(dsn: str) -> object:
        return asked(PostgresDatabase(Target(Secret(dsn))))

    own = psycopg.conninfo.conninfo_to_dict(postgres)
    assert identity(postgres) == identity(psycopg.conninfo.make_conninfo(postgres, host="localhost"))
    other = psycopg.conninfo.make_conninfo(postgres, dbname="template1" if own["dbname"] == "postgres" else "postgres")
    assert identity(postgres) != identity(other)


@pytest.mark.mysql
def test_a_mysql_is_itself_by_any_name(mysql: str) -> None:
    assert asked(MySQLDatabase(Secret(mysql))) == asked(MySQLDatabase(Secret(mysql.replace("127.0.0.1", "localhost"))))
    parts = mysql.rpartition("/")
    assert asked(MySQLDatabase(Secret(mysql))) != asked(MySQLDatabase(Secret(f"{parts[0]}/mysql")))


def asked(database: Database) -> object:
    link = database.beside()
    try:
        return database.identity(link)
    finally:
        link.close()
