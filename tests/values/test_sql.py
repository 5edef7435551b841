"""Rows and states in the tables of databases, by the driver and by tasks."""

from __future__ import annotations

import pytest

from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.values.odd import HUGE, ODD
from tests.values.sql import STORES
from tests.values.store import check_type

NAMES = {
    "sqlite": {"database": "SQLite", "state": "SQLiteState"},
    "postgresql": {"database": "PostgreSQL", "state": "PostgresState"},
    "mysql": {"database": "MySQL", "state": "MySQLState"},
}
WAYS = [
    pytest.param(kind, by_tasks, id=f"{kind}-{'tasks' if by_tasks else 'driver'}", marks=marks)
    for kind, marks in (("sqlite", ()), ("postgres", pytest.mark.postgres), ("mysql", pytest.mark.mysql))
    for by_tasks in (False, True)
    if not (by_tasks and kind == "sqlite")
]


@pytest.mark.parametrize(("url", "by_tasks"), WAYS, indirect=["url"])
@pytest.mark.parametrize("store", STORES)
def test_odd_values_are_equal_or_refused(url: str, by_tasks: bool, store: str) -> None:
    made = STORES[store](url, by_tasks)
    name = store.format(**NAMES[url.partition(":")[0]])
    for ddl in ODD:
        check_type(made, name, ddl)


@pytest.mark.parametrize(("url", "by_tasks"), WAYS, indirect=["url"])
@pytest.mark.parametrize("store", ["SQLSink {database}", "{state} values"])
def test_a_text_of_10_mb_is_kept(url: str, by_tasks: bool, store: str) -> None:
    made = STORES[store](url, by_tasks)
    made.write("string", [HUGE, "a"])
    assert made.read() == [HUGE, "a"]
