"""`PostgresChangesSpout` over a real server: the snapshot, each kind of change, and what stops it by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import evolve

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, ListCollector
from trident_py.errors import SpoutError, TopologyError
from trident_py.spouts import PostgresChangesSpout
from trident_py.spouts.postgres import coordinator

pytestmark = pytest.mark.postgres

MAKE = "CREATE TABLE orders (id int PRIMARY KEY, item text)"
PUBLISH = "CREATE PUBLICATION shop FOR TABLE orders"


class Reader:
    """Reads batches as a driver does that stores each definition, and may restart."""

    def __init__(self, dsn: str, directory: Path, **options: Any) -> None:
        self.dsn, self.options, self.conf = dsn, options, evolve(CONF, state_dir=directory)
        self.cursors: dict[str, Any] = {}
        self.definitions: list[Any] = []
        self.start()

    def start(self) -> None:
        self.spout = PostgresChangesSpout(self.dsn, "shop", **self.options)
        self.coordinator = self.spout.get_coordinator("lines", self.conf, CONTEXT)
        self.emitter = self.spout.get_emitter("lines", self.conf, CONTEXT)
        self.coordinator.restore(json_copy(self.cursors))  # type: ignore[arg-type]

    def close(self) -> None:
        self.coordinator.close()
        self.emitter.close()

    def restart(self) -> None:
        self.close()
        self.start()

    def define(self) -> int:
        txid = len(self.definitions) + 1
        while not self.coordinator.is_ready(txid):
            if not self.coordinator.has_pending_input():
                return 0
        self.definitions.append(json_copy(self.coordinator.initialize_transaction(txid, None, None)))  # type: ignore
        self.cursors |= self.coordinator.moved(self.definitions[-1])
        return txid

    def emitted(self, txid: int) -> list[dict[str, Any]]:
        collector = ListCollector()
        self.emitter.emit_batch(TransactionAttempt(txid, 0), self.definitions[txid - 1], collector)
        return [dict(zip(self.spout.output_schema.names, row, strict=True)) for row in collector.rows]  # type: ignore

    def batch(self) -> list[dict[str, Any]]:
        txid = self.define()
        if not txid:
            return []
        rows = self.emitted(txid)
        self.coordinator.success(txid)
        return rows


@pytest.fixture
def run(postgres: str) -> Iterator[Callable[..., list[Any]]]:
    with psycopg.connect(postgres, autocommit=True) as connection:

        def execute(*statements: str) -> list[Any]:
            found = [connection.execute(statement) for statement in statements]
            return found[-1].fetchall() if found[-1].description else []

        yield execute
        for (slot,) in execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"):
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])


@pytest.fixture
def read(postgres: str, tmp_path: Path, run: Any) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(**options: Any) -> Reader:
        made.append(Reader(postgres, tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def short(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_op"], row["id"], row["item"]) for row in rows]


def test_the_snapshot_comes_first_and_then_each_change_in_its_order(
    run: Callable[..., Any], read: Callable[..., Reader], tmp_path: Path
) -> None:
    run(MAKE, PUBLISH, "INSERT INTO orders VALUES (1, 'a'), (2, NULL), (3, 'c')")
    reader = read(max_records_per_batch=2)
    first = reader.define()
    run("UPDATE orders SET item = 'b' WHERE id = 2", "UPDATE orders SET id = 4 WHERE id = 3")
    rows = [reader.emitted(first)]
    assert short(rows[0]) == [("snapshot", 1, "a"), ("snapshot", 2, None)]
    reader.restart()
    rows.append(reader.batch())
    assert short(rows[1]) == [("snapshot", 3, "c")]
    run("INSERT INTO orders VALUES (5, 'e')", "DELETE FROM orders WHERE id = 1", "TRUNCATE orders")
    rows += [reader.batch(), reader.batch(), reader.batch()]
    assert [short(each) for each in rows[2:]] == [
        [("update", 2, "b"), ("update", 4, "c")],
        [("insert", 5, "e"), ("delete", 1, None)],
        [("truncate", None, None)],
    ]
    assert reader.batch() == []
    assert [row["_old"] for row in rows[2]] == [None, {"id": 3, "item": None}]
    places = [(row["_lsn"], row["_n"]) for batch in rows for row in batch]
    assert places == sorted(set(places))
    assert not list((tmp_path / "changes").iterdir()), "the snapshot is deleted once it is committed"


def test_a_large_transaction_is_divided_and_a_replay_gives_the_same_changes(
    run: Callable[..., Any], read: Callable[..., Reader]
) -> None:
    run(MAKE, PUBLISH)
    reader = read(max_records_per_batch=4)
    assert reader.batch() == []
    run("INSERT INTO orders VALUES (0, 'x')", "INSERT INTO orders SELECT n, 'y' FROM generate_series(1, 9) AS n")
    run("INSERT INTO orders VALUES (10, 'z')", "INSERT INTO orders VALUES (11, 'z')")
    batches = []
    while txid := reader.define():
        batches.append([row["id"] for row in reader.emitted(txid)])
        reader.restart()
    assert batches == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11]]
    assert [[row["id"] for row in reader.emitted(txid)] for txid in (4, 2, 5, 3)] == [
        batches[number] for number in (2, 0, 3, 1)
    ]
    for txid in range(1, 6):
        reader.coordinator.initialize_transaction(txid, None, reader.definitions[txid - 1])
    reader.coordinator.success(3)
    reader.batch()
    assert [row["id"] for row in reader.emitted(4)] == batches[2]
    with pytest.raises(SpoutError, match=r"has 1 changes from .* and not 1 to .*: another program has moved it"):
        reader.emitted(2)


def test_the_common_types_are_read_and_all_others_are_texts(
    run: Callable[..., Any], read: Callable[..., Reader]
) -> None:
    run(
        "CREATE DOMAIN amount AS int CHECK (VALUE > 0)",
        "CREATE TABLE kinds (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, s smallint, l bigint, "
        "price numeric(10,2), any_number numeric, part real, whole double precision, ok boolean, name varchar(5), "
        "padded char(3), raw bytea, day date, at timestamptz, clock timestamp, data jsonb, key uuid, list int[], "
        "span int4range, money amount, twice int GENERATED ALWAYS AS (s * 2) STORED)",
        "CREATE PUBLICATION shop FOR TABLE kinds",
    )
    values = (
        "1, 2, 4.50, 1e30, 0.1, 'NaN', false, 'x\\y\tz', 'a', '\\x00ff', '2026-11-28', '2026-11-28 13:00:00+01', "
        "'2026-11-28 12:00:00.000001', '{\"a\": [1]}', '00000000-0000-0000-0000-000000000001', '{1,NULL}', '[1,5)', 7"
    )
    names = "s, l, price, any_number, part, whole, ok, name, padded, raw, day, at, clock, data, key, list, span, money"
    insert = f"INSERT INTO kinds ({names}) VALUES ({values})"  # noqa: S608
    run(insert)
    reader = read()
    (before,) = reader.batch()
    run(insert, "INSERT INTO kinds DEFAULT VALUES")
    after, empty = reader.batch()
    for row in (before, after):
        for name in ("_op", "_lsn", "_n", "id"):
            del row[name]
    assert str(before) == str(after)  # as NaN is not equal to itself
    noon = datetime(2026, 11, 28, 12, tzinfo=UTC)
    assert [*before.values()][:4] == [1, 2, Decimal("4.50"), "1000000000000000000000000000000"]
    assert [*before.values()][6:] == [
        *(False, "x\\y\tz", "a  ", b"\x00\xff", date(2026, 11, 28), noon, noon.replace(tzinfo=None, microsecond=1)),
        *('{"a": [1]}', "00000000-0000-0000-0000-000000000001", "{1,NULL}", "[1,5)", 7, None, None),
    ]
    assert {value for name, value in empty.items() if name[0] != "_" and name != "id"} == {None}


def test_large_values_that_stay_are_named_or_taken_from_the_full_old_row(
    run: Callable[..., Any], read: Callable[..., Reader]
) -> None:
    run(
        "CREATE TABLE named (id int PRIMARY KEY, n int, doc text)",
        "CREATE TABLE full_rows (id int, n int, doc text)",
        "ALTER TABLE full_rows REPLICA IDENTITY FULL",
        "ALTER TABLE named ALTER doc SET STORAGE EXTERNAL",
        "ALTER TABLE full_rows ALTER doc SET STORAGE EXTERNAL",
        "CREATE PUBLICATION shop FOR TABLE named, full_rows",
        "INSERT INTO named VALUES (1, 1, repeat('x', 9000))",
        "INSERT INTO full_rows VALUES (1, 1, repeat('x', 9000))",
    )
    reader = read()
    assert [row["_table"] for row in reader.batch()] == ["public.full_rows", "public.named"]
    run("UPDATE named SET n = 2", "UPDATE full_rows SET n = 2", "TRUNCATE named, full_rows")
    named, full, *emptied = reader.batch()
    assert (named["n"], named["doc"], named["_unchanged"], named["_old"]) == (2, None, ["doc"], None)
    large = "x" * 9000
    assert (full["n"], full["doc"], full["_unchanged"]) == (2, large, None)
    assert full["_old"] == {"id": 1, "n": 1, "doc": large}
    assert [(row["_op"], row["_table"]) for row in emptied] == [
        ("truncate", "public.named"),
        ("truncate", "public.full_rows"),
    ]


def test_only_published_rows_and_columns_are_read(run: Callable[..., Any], read: Callable[..., Reader]) -> None:
    run(
        MAKE, "ALTER TABLE orders ADD secret text", "CREATE PUBLICATION shop FOR TABLE orders (id, item) WHERE (id > 1)"
    )
    run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    reader = read()
    assert short(reader.batch()) == [("snapshot", 2, "b")]
    run("UPDATE orders SET id = 3 WHERE id = 1", "INSERT INTO orders VALUES (0, 'z')")
    assert short(reader.batch()) == [("insert", 3, "a")]


def test_an_idle_slot_moves_on_so_that_the_server_can_remove_the_log(
    run: Callable[..., Any], read: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "IDLE_BYTES", 100_000)
    run(MAKE, PUBLISH, "CREATE TABLE others (id int)")
    reader = read()
    reader.batch()
    run("INSERT INTO others VALUES (1)")
    assert not reader.define()
    run("INSERT INTO others SELECT generate_series(1, 5000)")
    before = run("SELECT pg_current_wal_flush_lsn()")
    txid = reader.define()
    assert reader.emitted(txid) == []
    assert not reader.define()
    reader.coordinator.success(txid)
    run("INSERT INTO orders VALUES (1, 'a')")
    assert short(reader.batch()) == [("insert", 1, "a")]
    assert run("SELECT confirmed_flush_lsn FROM pg_replication_slots") >= before


def dropped(run: Callable[..., Any]) -> None:
    run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def moved(run: Callable[..., Any]) -> None:
    run(
        "INSERT INTO orders VALUES (9, 'i')",
        "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_flush_lsn()) FROM pg_replication_slots",
    )


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (
            dropped,
            r"the replication slot trident_wordcount_\w+ is gone, and changes are missing; to fix this: `trident ",
        ),
        (moved, r"was moved to [0-9A-F/]+ by another program, and changes after [0-9A-F/]+ are missing"),
        ("DROP PUBLICATION shop", "the publication was dropped"),
        (
            f"DROP PUBLICATION shop; {PUBLISH}",
            "altered.*: publication was replaced or altered; table public.orders was",
        ),
        ("ALTER PUBLICATION shop SET (publish = 'insert')", "operations was replaced or altered"),
        (
            "CREATE TABLE more (id int PRIMARY KEY); ALTER PUBLICATION shop ADD TABLE more",
            "table public.more was added",
        ),
        (f"DROP TABLE orders; {MAKE}; ALTER PUBLICATION shop ADD TABLE orders", "table public.orders was replaced"),
        (
            "ALTER TABLE orders ADD more int; INSERT INTO orders VALUES (2)",
            "column 'more' was added to table public.orders; to fix this: start this topology again",
        ),
        (
            "ALTER TABLE orders ALTER id TYPE bigint; INSERT INTO orders VALUES (2)",
            "column 'id' of table public.orders was altered, and its field is int",
        ),
    ],
)
def test_changes_that_may_be_missing_or_do_not_fit_stop_it_by_name(
    lose: Any, why: str, run: Callable[..., Any], read: Callable[..., Reader]
) -> None:
    run(MAKE, PUBLISH)
    reader = read()
    reader.batch()
    run("INSERT INTO orders VALUES (1, 'a')")
    assert short(reader.batch()) == [("insert", 1, "a")]
    lose(run) if callable(lose) else run(*lose.split("; "))
    with pytest.raises(SpoutError, match=rf"topology 'wordcount', spout 'lines': .*{why}"):
        reader.batch()


def test_a_column_that_was_added_is_read_after_a_restart(run: Callable[..., Any], read: Callable[..., Reader]) -> None:
    run(MAKE, PUBLISH)
    reader = read()
    reader.batch()
    run("INSERT INTO orders VALUES (1, 'a')", "ALTER TABLE orders ADD more int", "ALTER TABLE orders DROP item")
    run("INSERT INTO orders VALUES (2, 3)")
    assert short(reader.batch()) == [("insert", 1, "a")], "what was logged before comes first"
    reader.restart()
    assert [(row["id"], row["more"]) for row in reader.batch()] == [(2, 3)]


@pytest.mark.parametrize(
    ("statements", "options", "refusal"),
    [
        ([MAKE], {}, "there is no publication 'shop'; to fix this: CREATE PUBLICATION shop FOR TABLE"),
        (["CREATE PUBLICATION shop"], {}, "no table is in the publication 'shop'"),
        (["CREATE TABLE t (id int)", "CREATE PUBLICATION shop FOR TABLE t"], {}, "table public.t has no key.*IDENTITY"),
        ([MAKE, PUBLISH], {"as_text": "gone"}, "there is no column 'gone' for as_text=; there are id, item"),
        ([MAKE, PUBLISH], {"max_records_per_batch": 0}, "max_records_per_batch is at least 1, not 0"),
        (
            [MAKE, "CREATE TABLE t (id text PRIMARY KEY)", "CREATE PUBLICATION shop FOR TABLE orders, t"],
            {},
            "column 'id' is string in table public.t and int in another one.*as_text='id'",
        ),
        (["CREATE TABLE t (_op int PRIMARY KEY)", "CREATE PUBLICATION shop FOR TABLE t"], {}, "'_op' is named twice"),
    ],
)
def test_a_publication_that_cannot_work_is_refused_at_once(
    statements: list[str], options: dict[str, Any], refusal: str, run: Callable[..., Any], postgres: str
) -> None:
    run(*statements)
    with pytest.raises(TopologyError, match=refusal):
        PostgresChangesSpout(postgres, "shop", **options)


def test_a_value_that_no_field_holds_is_named_and_can_be_read_as_text(
    run: Callable[..., Any], read: Callable[..., Reader]
) -> None:
    run("CREATE TABLE days (id int PRIMARY KEY, day date)", "CREATE PUBLICATION shop FOR TABLE days")
    reader = read()
    reader.batch()
    run("INSERT INTO days VALUES (1, 'infinity')")
    txid = reader.define()
    with pytest.raises(SpoutError, match=r"attempt 2:0: column 'day' has the value 'infinity', which is no date"):
        reader.emitted(txid)
    reader.options["as_text"] = "day"
    reader.restart()
    assert [row["day"] for row in reader.emitted(txid)] == ["infinity"]


def test_a_slot_that_an_older_process_holds_is_taken_from_it(
    run: Callable[..., Any], read: Callable[..., Reader], postgres: str
) -> None:
    run(MAKE, PUBLISH)
    reader = read()
    reader.batch()
    run("INSERT INTO orders VALUES (1, 'a')")
    ((slot,),) = run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
    zombie = psycopg.connect(
        postgres, autocommit=True, replication="database", application_name="trident changes of another process"
    )
    options = "proto_version '1', publication_names 'shop'"
    zombie.pgconn.send_query(f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 ({options})'.encode())
    zombie.pgconn.flush()
    while not run("SELECT 1 FROM pg_replication_slots WHERE active AND database = current_database()"):
        pass
    assert short(reader.batch()) == [("insert", 1, "a")]
    zombie.close()
