"""A history in PostgreSQL: what only a server can do to it."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
import pytest

from coordinators.values.secret import Secret
from tests.servers.postgresql import PASSWORD, PostgresServer
from tests.unit.trident_py.history.told import ALL_GOOD, LIFE, PROGRAM
from trident_py.errors import HistoryError
from trident_py.history.database import HistoryDatabase, history_at
from trident_py.history.entries import Entries


def write(database: HistoryDatabase) -> None:
    database.write(Entries(PROGRAM).take(ALL_GOOD))


@pytest.mark.postgres
def test_a_server_that_is_away_is_named_without_the_password_and_written_again_when_it_is_back(
    fresh_postgres: PostgresServer,
) -> None:
    with closing(history_at(Secret(fresh_postgres.dsn()))) as database:
        write(database)
        fresh_postgres.kill()
        with pytest.raises(HistoryError, match=r"the history in 127\.0\.0\.1/postgres") as caught:
            write(database)
        assert PASSWORD not in str(caught.value)
        fresh_postgres.start()
        write(database)
        assert len(database.attempts(LIFE, 1, 1)) == 1


@pytest.mark.postgres
def test_several_begin_at_once(postgres: str) -> None:
    databases = [history_at(Secret(postgres)) for _ in range(6)]
    threads = [threading.Thread(target=write, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(database.attempts(LIFE, 1, 1)) for database in databases] == [1] * 6
    for database in databases:
        database.close()


@pytest.mark.postgres
def test_its_tables_are_where_the_role_has_its_own(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "odd ""name"')
        connection.execute('ALTER ROLE CURRENT_USER SET search_path = "odd ""name"')
        try:
            with closing(history_at(Secret(postgres))) as database:
                write(database)
            (found,) = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'trident_attempts'")
        finally:
            connection.execute("ALTER ROLE CURRENT_USER RESET search_path")
    assert found == ('odd "name',)
