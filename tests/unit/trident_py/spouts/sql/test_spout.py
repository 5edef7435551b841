"""`SQLSpout` over real databases: which types it reads, which rows are new, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.secret import Secret
from tests.task_links import _no_links_left as _no_links_left
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, ListCollector
from trident_py.errors import StateError, TopologyError
from trident_py.spouts import SQLSpout
from trident_py.spouts.sql.spout import ROWS
from trident_py.states.sql.databases import database_of

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shop.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres), "mysql"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(request.param)
    return address


def run(url: str, *statements: str) -> None:
    database = database_of(Secret(url))
    with closing(database.link()) as link, link.transaction() as connection:
        for statement in statements:
            connection.execute(statement)


class Reader:
    """Reads batches one after the other, as committed ones."""

    def __init__(self, make: Callable[[], SQLSpout]) -> None:
        spout = make()
        self.coordinator, self.emitter = spout.get_coordinator(CONF, CONTEXT), spout.get_emitter(CONF, CONTEXT)
        self.position: dict[str, Any] = {}
        self.txid = 0

    def batch(self, *, commits: bool = True) -> list[tuple[Any, ...]]:
        self.txid += 1
        self.coordinator.emitted(self.position)
        is_ready = self.coordinator.is_ready(self.txid)
        collector = ListCollector()
        attempt = TransactionAttempt(self.txid, 0)
        found = self.emitter.emit_batch_new(attempt, collector, {ROWS}, self.position)
        assert is_ready == bool(collector.rows)
        self.position = dict(found) if commits else self.position
        return collector.rows

    def close(self) -> None:
        self.coordinator.close()


def test_ids_that_are_committed_late_are_read_with_the_next_batch(url: str) -> None:
    run(url, "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, item VARCHAR(20))")
    with closing(Reader(lambda: SQLSpout(url, "orders", "id", 10, max_records_per_batch=2))) as reader:
        assert reader.batch() == []
        run(url, "INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (4, 'd'), (5, NULL)")
        assert reader.batch() == [(1, "a"), (2, "b")]
        assert reader.batch(commits=False) == [(4, "d"), (5, None)]
        run(url, "INSERT INTO orders VALUES (3, 'c')")
        assert reader.batch() == [(3, "c"), (4, "d")], "a replay reads what is there then"
        assert reader.batch() == [(5, None)]
        run(url, "UPDATE orders SET item = 'new' WHERE id = 5", "DELETE FROM orders WHERE id = 4")
        assert reader.batch() == []


def test_each_version_of_a_row_is_read_by_the_time_of_its_change(url: str) -> None:
    kind = "TEXT" if url.startswith("sqlite") else "TIMESTAMP" if url.startswith("mysql") else "TIMESTAMPTZ"
    run(url, f"CREATE TABLE items (name VARCHAR(20) NOT NULL PRIMARY KEY, changed {kind})")
    run(url, "INSERT INTO items VALUES ('a', '2026-11-28 12:00:00'), ('b', '2026-11-28 12:00:30'), ('c', NULL)")
    with closing(Reader(lambda: SQLSpout(url, "items", "changed", timedelta(seconds=60)))) as reader:
        assert [name for name, _ in reader.batch()] == ["a", "b"]
        run(url, "UPDATE items SET changed = '2026-11-28 12:00:20' WHERE name = 'a'")
        run(url, "INSERT INTO items VALUES ('late', '2026-11-28 11:59:40'), ('too late', '2026-11-28 11:59:20')")
        rows = reader.batch()
        assert [name for name, _ in rows] == ["late", "a"]
        expected = "2026-11-28 11:59:40" if kind == "TEXT" else NOON - timedelta(seconds=20)
        assert rows[0][1] == expected
        assert reader.batch() == []


@pytest.mark.postgres
def test_columns_of_postgresql_have_the_types_of_their_values(postgres: str) -> None:
    run(
        postgres,
        "CREATE TABLE kinds (id smallint, n integer, large bigint, price numeric(10,2), part real, whole double "
        "precision, ok boolean, name varchar(5), raw bytea, day date, at timestamptz, clock timestamp, data jsonb, "
        "key uuid)",
        "INSERT INTO kinds VALUES (1, 2, 3, 4.50, 0.5, 0.25, true, 'x', '\\x00ff', '2026-11-28', "
        "'2026-11-28 13:00:00+01', '2026-11-28 12:00:00', '{\"a\": [1]}', '00000000-0000-0000-0000-000000000001')",
    )
    spout = SQLSpout(postgres, "public.kinds", "id")
    assert spout.output_schema.simpleString() == (  # type: ignore[union-attr]
        "struct<id:smallint,n:int,large:bigint,price:decimal(10,2),part:float,whole:double,ok:boolean,name:string,"
        "raw:binary,day:date,at:timestamp,clock:timestamp_ntz,data:string,key:string>"
    )
    with closing(Reader(lambda: spout)) as reader:
        ((*values,),) = reader.batch()
    clock = NOON.replace(tzinfo=None)
    texts = ['{"a": [1]}', "00000000-0000-0000-0000-000000000001"]
    first = [1, 2, 3, Decimal("4.50"), 0.5, 0.25, True, "x", b"\x00\xff", date(2026, 11, 28), NOON, clock]
    assert values == [*first, *texts]


def test_columns_of_mysql_have_the_types_of_their_values(mysql: str) -> None:
    run(
        mysql,
        "CREATE TABLE kinds (id bigint unsigned, n int unsigned, tiny tinyint, price decimal(10,2), whole double, "
        "name varchar(5), raw varbinary(4), day date, at timestamp(6) NULL, clock datetime(6), data json)",
        "INSERT INTO kinds VALUES (18446744073709551615, 4294967295, -1, 4.50, 0.25, 'x', 'ab', '2026-11-28', "
        "'2026-11-28 12:00:00', '2026-11-28 12:00:00', '[1]')",
    )
    spout = SQLSpout(mysql, "kinds", "n")
    assert spout.output_schema.simpleString().startswith(  # type: ignore[union-attr]
        "struct<id:decimal(20,0),n:bigint,tiny:smallint,price:decimal(10,2),whole:double,name:string,raw:binary,"
        "day:date,at:timestamp,clock:timestamp_ntz,data:string"
    )
    with closing(Reader(lambda: spout)) as reader:
        ((id, n, tiny, price, whole, name, raw, *times, data),) = reader.batch()
    assert (int(id), n, tiny, price, whole, name, raw) == (2**64 - 1, 2**32 - 1, -1, Decimal("4.50"), 0.25, "x", b"ab")
    assert times == [date(2026, 11, 28), NOON, NOON.replace(tzinfo=None)]
    assert data == "[1]"


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"cursor": "gone"}, r"there is no column 'gone'; there are id, name, price"),
        ({"cursor": "price"}, r"cursor 'price' is double; it must be a column of whole numbers or of times"),
        ({"cursor": "id", "lookback": timedelta(1)}, r"cursor 'id' is bigint, so lookback is a number of at least 0"),
        ({"cursor": "id", "lookback": -1}, r"lookback is a number of at least 0, not -1"),
        ({"cursor": "name", "lookback": 5}, r"cursor 'name' is string, so lookback is a timedelta of at least 0:00:00"),
        ({"cursor": "id", "max_records_per_batch": 0}, r"max_records_per_batch is at least 1, not 0"),
        ({"cursor": "id", "schema": "id date", "lookback": timedelta(hours=1)}, r"a timedelta of at least 1 day"),
    ],
)
def test_a_cursor_that_cannot_work_is_refused(options: dict[str, Any], refusal: str, sqlite: str) -> None:
    run(sqlite, "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    with pytest.raises(TopologyError, match=refusal):
        SQLSpout(sqlite, "orders", **options)


def test_a_table_that_cannot_be_read_is_refused(sqlite: str) -> None:
    run(sqlite, "CREATE TABLE odd (id INTEGER PRIMARY KEY, price DECIMAL(9,2))")
    with pytest.raises(TopologyError, match="there is no such table"):
        SQLSpout(sqlite, "orders", "id")
    with pytest.raises(TopologyError, match=r"column 'price' of table 'odd' is DECIMAL\(9,2\).*schema="):
        SQLSpout(sqlite, "odd", "id")
    chosen = SQLSpout(sqlite, "odd", "id", schema="id bigint")
    with closing(Reader(lambda: chosen)) as reader:
        run(sqlite, "INSERT INTO odd VALUES (1, 2)")
        assert reader.batch() == [(1,)]
    assert "shop.db" not in repr(chosen)
    gone = SQLSpout(sqlite, "gone", "id", schema="id bigint")
    with closing(Reader(lambda: gone)) as reader, pytest.raises(StateError, match="no such table"):
        reader.batch()
