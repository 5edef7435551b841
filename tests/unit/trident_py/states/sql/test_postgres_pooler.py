"""`PostgresState` behind a real PgBouncer: right where that keeps sessions, refused by name where it doesn't."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.servers.missing import lacks
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgresql import NoServerError, PostgresServer
from tests.task_links import close_task_links
from tests.unit.trident_py.states.sql.postgres_rows import commit, merge, opened, select, stage, tables
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import StateError
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.postgres_client import Link, PooledError, Target

pytestmark = pytest.mark.postgres

Pooled = Callable[..., str]


@pytest.fixture
def pooled(postgres_server: PostgresServer, postgres: str) -> Iterator[Pooled]:
    """The test's database, behind a pooler of this mode and these settings."""
    with ExitStack() as stack:

        def start(mode: str, **options: str) -> str:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trident-pgbouncer-")))
            directory.chmod(0o755)
            pooler = PgBouncer(directory, postgres_server, mode, options=options)
            stack.callback(pooler.stop)
            try:
                pooler.start()
            except NoServerError as error:
                lacks("PgBouncer", error)
            return pooler.dsn(str(conninfo_to_dict(postgres)["dbname"]))

        yield start
        close_task_links()


NOT_KEPT = [("transaction", {}), ("transaction", {"server_round_robin": "1", "min_pool_size": "3"}), ("statement", {})]


@pytest.mark.parametrize(("mode", "options"), NOT_KEPT)
def test_a_pooler_that_keeps_no_session_is_refused_before_anything_is_made(
    mode: str, options: dict[str, str], pooled: Pooled, postgres: str
) -> None:
    dsn = pooled(mode, **options)
    with pytest.raises(StateError, match=r"a pooler in between .*name the server itself .*pool_mode=session"):
        PostgresState(dsn, table="counts").ensure_usable()
    with opened(dsn) as state, pytest.raises(StateError, match=r"topology 'wordcount': table 'counts' .*a pooler"):
        state.recover(TOPOLOGY, 1)
    assert tables(postgres) == []


def test_what_is_refused_leaves_no_setting_to_others(pooled: Pooled) -> None:
    dsn = pooled("transaction")
    before = select(dsn, "SHOW search_path")
    with pytest.raises(StateError, match=r"a pooler"):
        PostgresState(dsn, table="counts").ensure_usable()
    assert select(dsn, "SHOW search_path") == before


def test_a_transaction_that_comes_to_another_connection_than_its_session_is_refused(pooled: Pooled) -> None:
    target = Target(PostgresState(pooled("transaction"), table="counts").dsn)
    one, other = Link(target), Link(target)
    try:
        with one.transaction():
            pass
        with other.transaction(), pytest.raises(PooledError), one.transaction():
            pytest.fail("it has none of its settings there")
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("reset", ["DISCARD ALL", ""])
def test_a_pooler_that_keeps_sessions_is_as_good_as_the_server(pooled: Pooled, postgres: str, reset: str) -> None:
    with opened(pooled("session", server_reset_query=reset)) as state:
        state.recover(TOPOLOGY, 1)
        for txid in range(1, 13, 2):
            commit(state, transaction(txid), {"a": 1})
            merge(state, transaction(txid + 1), stage(state, transaction(txid + 1), {"a": 1}, {"b": 1}))
        state.recover(TOPOLOGY, 2)
    assert dict(select(postgres, "SELECT word, count FROM counts")) == {"a": 12, "b": 6}
