"""`SQLQuery`: what is asked, and what is no question."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.unit.trident_py.sinks.sql.test_writer import Written
from tests.unit.trident_py.states.sql.everywhere import as_url, changed, select
from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.unit.trident_py.states.sql.test_sqlite import transaction
from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.states.sql.query import Question, SQLQuery


@pytest.mark.parametrize("query", ["", "DELETE FROM prices", "drop table prices", 5, None])
def test_what_is_no_select_is_refused_where_it_is_written(query: Any) -> None:
    with pytest.raises(TopologyError, match="takes a SELECT"):
        SQLQuery("sqlite:///prices.db", query)


def test_a_url_of_no_database_is_refused_where_it_is_written() -> None:
    with pytest.raises(TopologyError, match="begins with sqlite:///, postgresql:// or mysql://"):
        SQLQuery("redis://localhost", "SELECT 1")


def test_parameters_are_bound_in_their_order_and_quoted_texts_and_casts_stay() -> None:
    question = Question.of("SELECT ':a', x::int FROM t WHERE b = :b AND c LIKE 'x%' AND d = :b OR e = :e", "?")
    assert question.names == ("b", "b", "e")
    assert question.text == "SELECT ':a', x::int FROM t WHERE b = ? AND c LIKE 'x%' AND d = ? OR e = ?"


def asked(url: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    lookup = SQLQuery(url, query).make_state(TridentConfig(), Metrics(), 0, 1)
    try:
        return lookup.rows_for(values)
    finally:
        lookup.close()


def test_a_table_is_found_by_its_plain_name(url: str) -> None:
    """As in psql with the same URL: it was looked up in pg_catalog only."""
    changed(url, "CREATE TABLE prices (item varchar(9), price int)")
    changed(url, "INSERT INTO prices VALUES ('tea', 3), ('cup', 4)")
    assert asked(url, "SELECT price FROM prices WHERE item = :item", "tea") == [(3,)]


@pytest.mark.postgres
def test_a_table_is_found_by_the_search_path_of_the_url_and_of_the_role(postgres: str) -> None:
    select(postgres, "CREATE SCHEMA shop")
    select(postgres, "CREATE TABLE shop.prices AS SELECT 'tea' AS item, 3 AS price")
    url = f"{as_url(postgres)}?options=-csearch_path%3Dshop"
    assert asked(url, "SELECT price FROM prices WHERE item = :item", "tea") == [(3,)]
    with pytest.raises(StateError, match='relation "prices" does not exist'):
        asked(as_url(postgres), "SELECT price FROM prices")
    name = conninfo_to_dict(postgres)["dbname"]
    select(postgres, f"ALTER ROLE CURRENT_USER IN DATABASE {name} SET search_path = shop")
    assert asked(as_url(postgres), "SELECT price FROM prices WHERE item = :item", "tea") == [(3,)]


@pytest.mark.parametrize("query", ["SELECT price FROM prices", "SELECT x.price FROM (SELECT 1 AS n) AS x"])
def test_an_error_of_a_query_names_what_to_correct_and_never_advises_a_reset(url: str, query: str) -> None:
    changed(url, "CREATE TABLE things (item varchar(9), price int)")
    with pytest.raises(StateError, match=r"^SQLQuery of .*price.*; to fix this: correct the query") as refused:
        asked(url, query)
    assert "reset" not in str(refused.value)
    assert "table of the state" not in str(refused.value)


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("timestamp", datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
        ("timestamp_ntz", datetime(2026, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
        ("date", date(2026, 1, 2)),
        ("decimal(20,2)", Decimal("90071992547409.93")),
        ("bigint", 2**53 + 1),
        ("string", "a ' %s \\ ?"),
        ("binary", b"\x00\xff"),
        ("boolean", True),
    ],
)
def test_a_row_that_a_sink_has_written_is_found_by_any_of_its_values(url: str, ddl: str, value: Any) -> None:
    written = Written(url, fields=f"id bigint, v {ddl}", by_tasks=False)
    written.recover()
    written.write(transaction(1), [(1, value), (2, None)])
    written.writer.close()
    assert asked(url, "SELECT id FROM words WHERE v = :v", value) == [(1,)]
