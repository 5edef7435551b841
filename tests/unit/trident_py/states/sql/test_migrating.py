"""Migration of a SQL state's table, killed before each statement: readers and takeovers find all old or all new."""
# ruff: noqa: S608 - the names are those of this file

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from pyspark.sql.types import StructType

from coordinators.values.attempt import CommitToken
from coordinators.values.secret import Secret
from tests.transactions import begin
from tests.unit.trident_py.states.sql.everywhere import select, url
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import FencedError, StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.rows.schema import schema_of
from trident_py.states.sql.dialect import Connection, Database
from trident_py.states.sql.factory import SQLState
from trident_py.states.sql.migrating import CHUNK_ROWS, ValueMigration, is_wider
from trident_py.states.sql.mysql import MySQLState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.sql.state import SQLMapState

__all__ = ["url"]

IDENTITY = "1234abcd"
OLD, NEW = "word string, count int", "word string, n string"


def factory(url: str, table: str, ttl: timedelta | None = None) -> SQLState:
    if url.startswith("sqlite"):
        return SQLiteState(Path(url.removeprefix("sqlite:///")), table=table, ttl=ttl)
    return (MySQLState if url.startswith("mysql") else PostgresState)(Secret(url), table=table, ttl=ttl)


@contextmanager
def opened(
    url: str,
    table: str,
    fields: str,
    migration: ValueMigration | None = None,
    *,
    epoch: int = 1,
    ttl: timedelta | None = None,
) -> Iterator[SQLMapState]:
    """A state of a leader."""
    *keys, value = schema_of(fields).fields
    made = factory(url, table, ttl).for_fields(StructType(keys), value)
    state = made.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, SQLMapState)
    if migration is not None:
        state.plan_migration(migration)
    try:
        state.recover(TOPOLOGY, epoch)
        yield state
    finally:
        state.close()


def put(state: SQLMapState, txid: int, changes: dict[Any, Any], *, attempt: int = 0, epoch: int = 1) -> None:
    assert begin(state, transaction(txid, attempt, epoch))
    state.multi_put([key if isinstance(key, tuple) else (key,) for key in changes], list(changes.values()))
    state.commit_group()


def fill(url: str, table: str, **options: Any) -> None:
    with opened(url, table, OLD, **options) as state:
        put(state, 1, {"a": 1, "b": 2, "gone": 3, None: 4})
        put(state, 2, {"a": 10, "new": 5})
        assert begin(state, transaction(3))
        state.multi_remove([("gone",)])
        state.multi_put([("b",), ("none",)], [20, None])
        state.commit_group()


def text_of(value: int) -> str:
    return f"<{value}>"


def tenfold(value: int) -> int:
    return 10 * value


def to_text(*names: str) -> ValueMigration:
    return ValueMigration(names=names, fields={"count": "n"}, function=text_of, called="text_of")


OLD_ROWS = [('["a"]', 10, 1), ('["b"]', 20, 2), ('["new"]', 5, None), ('["none"]', None, None), ("[null]", 4, None)]
NEW_ROWS = [
    ('["a"]', "<10>", "<1>"),
    ('["b"]', "<20>", "<2>"),
    ('["new"]', "<5>", None),
    ('["none"]', None, None),
    ("[null]", "<4>", None),
]


def rows(url: str, table: str, value: str) -> list[Any]:
    """Keys as texts, values and previous values, as another client sees them."""
    mark = "`" if url.startswith("mysql") else '"'
    found = select(url, f"SELECT _key, {mark}{value}{mark}, _prev FROM {table}")
    return [tuple(row) for row in found]


class Killed(BaseException):
    """The end of a process, before one of its statements."""


@define
class Counted:
    """A connection that is killed before a statement."""

    connection: Any
    left: int
    seen: list[str] = field(factory=list)

    def execute(self, query: str, values: Any = ()) -> Any:
        if not self.left:
            raise Killed(query)
        self.left -= 1
        self.seen.append(query)
        return self.connection.execute(query, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def killed_before(database: type[Database], left: int, monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """Let every takeover of such a database be killed before its statement number ``left``."""
    counted: list[Counted] = []
    whole = database.takeover

    @contextmanager
    def takeover(self: Database, *given: Any) -> Iterator[Connection]:
        with whole(self, *given) as connection:
            counted.append(Counted(connection, left))
            yield counted[-1]

    monkeypatch.setattr(database, "takeover", takeover)
    return counted


@define
class Move:
    """A migration of one table to another, and what readers find before and after it."""

    url: str
    old: str
    new: str
    fields: str
    migration: ValueMigration
    after: list[Any]

    @property
    def value(self) -> str:
        return schema_of(self.fields).names[-1]

    def is_swapped(self) -> bool:
        """Whether a reader finds the new table; else it finds the old one, as it was."""
        tables = self.tables()
        assert len(tables & {self.old, self.new}) == 1
        if self.new in tables and (self.new != self.old or rows(self.url, self.new, self.value) != OLD_ROWS):
            assert rows(self.url, self.new, self.value) == self.after
            return True
        assert rows(self.url, self.old, "count") == OLD_ROWS
        return False

    def tables(self) -> set[str]:
        return {name for (name,) in select(self.url, NAMES[self.url.partition(":")[0]])}

    @contextmanager
    def opened(self, epoch: int) -> Iterator[SQLMapState]:
        with opened(self.url, self.new, self.fields, self.migration, epoch=epoch) as state:
            yield state


NAMES = {
    "sqlite": "SELECT name FROM sqlite_master",
    "postgresql": "SELECT relname FROM pg_class",
    "mysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = database()",
}


def to_other_table(url: str, number: int) -> Move:
    old, new = f"counts{number}", f"totals{number}"
    return Move(url, old, new, NEW, to_text(old), NEW_ROWS)


def in_place(url: str, number: int) -> Move:
    name, migration = f"counts{number}", ValueMigration(function=tenfold, called="tenfold")
    after = [(key, *(each and tenfold(each) for each in values)) for key, *values in OLD_ROWS]
    return Move(url, name, name, OLD, migration, after)


@pytest.mark.slow
@pytest.mark.parametrize("move_of", [to_other_table, in_place])
def test_a_migration_that_is_killed_before_any_statement_is_done_or_not_done(
    url: str, monkeypatch: pytest.MonkeyPatch, move_of: Callable[[str, int], Move]
) -> None:
    swaps = set()
    for left in count():
        move = move_of(url, left)
        fill(url, move.old, ttl=timedelta(days=1) if left % 2 else None)
        with move.opened(epoch=2) as state:
            assert state.check_migration() == 5
            with monkeypatch.context() as patched:
                counted = killed_before(type(state._database), left, patched)
                is_killed = attempted(partial(state.migrate, 1, 7, IDENTITY))
        swaps.add(move.is_swapped())
        ensure_continues(move, is_killed=is_killed)
        if not is_killed:
            assert left > 15, counted[0].seen
            break
    assert swaps == {False, True}


def ensure_continues(move: Move, *, is_killed: bool) -> None:
    """The next leader migrates what is not migrated; then the state commits, and undoes, as ever."""
    is_swapped, value = move.is_swapped(), move.after[0][1]
    with move.opened(epoch=3) as state:
        is_done = state.mark is not None and state.mark.is_of(1, 7) and state.mark.identity == IDENTITY
        assert is_done is is_swapped
        assert state.is_behind is (not is_swapped and move.new != move.old)
        assert is_killed or is_done
        if not is_done:
            assert state.check_migration() == 5
            state.migrate(1, 7, IDENTITY)
        assert state.known is not None
        assert state.known.token == CommitToken(3, 1, 0)
        assert move.is_swapped()
        assert state.multi_get([("a",), ("gone",)]) == [value, None]
        put(state, 4, {"a": move.after[1][1], "more": value}, epoch=3)
    with move.opened(epoch=4) as state:
        put(state, 4, {"b": value}, attempt=1, epoch=4)
        assert state.multi_get([("a",), ("b",), ("more",)]) == [value, value, None]
    assert not [name for name in move.tables() if name.startswith(f"_{move.new}_migrat")]


def attempted(call: Callable[[], None]) -> bool:
    try:
        call()
    except Killed:
        return True
    return False


def test_a_table_of_many_rows_is_migrated_in_portions(url: str) -> None:
    many = {f"k{number:05}": number for number in range(2 * CHUNK_ROWS + 1)}
    with opened(url, "counts", OLD) as state:
        put(state, 1, many)
    with opened(url, "counts", NEW, to_text(), epoch=2) as state:
        assert state.check_migration() == len(many)
        state.migrate(1, 1, IDENTITY)
        keys = [(key,) for key in many]
        assert state.multi_get(keys) == [f"<{number}>" for number in many.values()]


def test_a_state_without_keys_is_migrated(url: str) -> None:
    with opened(url, "total", "count int") as state:
        put(state, 1, {(): 7})
    with opened(url, "total", "n string", to_text(), epoch=2) as state:
        state.migrate(1, 1, IDENTITY)
        assert state.multi_get([()]) == ["<7>"]


WIDE = "day date, small smallint, rate float, price decimal(5,2), total decimal(5,2)"
WIDER = "day date, `large` bigint, rate double, price decimal(8,4), `sum` decimal(20,2)"


def test_keys_and_values_are_renamed_and_widened_and_stay_the_same_keys(url: str) -> None:
    key = (None, 3, 0.5, Decimal("1.50"))
    with opened(url, "prices", WIDE) as state:
        put(state, 1, {key: Decimal("999.99")})
    widening = ValueMigration(
        fields={"small": "large", "total": "sum"},
        widened={each.name: each.dataType for each in schema_of(WIDER).fields[1:]},
    )
    with opened(url, "prices", WIDER, widening, epoch=2) as state:
        assert state.check_migration() == 1
        state.migrate(1, 1, IDENTITY)
        assert state.multi_get([key]) == [Decimal("999.99")]
        put(state, 2, {key: Decimal(10**17)}, epoch=2)
        assert state.multi_get([key]) == [Decimal(10**17)]
        assert len(state.get_tuples()) == 1


def test_a_struct_gets_fields(url: str) -> None:
    with opened(url, "users", "name string, seen struct<n:int,at:string>") as state:
        put(state, 1, {"ada": (1, "now")})
        put(state, 2, {"ada": (2, "later")})
    fields = "name string, seen struct<n:int,at:string,by:string>"
    with opened(url, "users", fields, ValueMigration(added={"by": "?"}), epoch=2) as state:
        state.migrate(1, 1, IDENTITY)
        assert [tuple(each) for each in state.multi_get([("ada",)])] == [(2, "later", "?")]


@pytest.mark.parametrize(
    ("fields", "migration"),
    [
        ("word string, n int", ValueMigration()),
        ("word string, count bigint", ValueMigration(fields={"count": "n"})),
        ("word string, count string", ValueMigration()),
        ("word string, count smallint", ValueMigration(widened={"count": schema_of("n smallint").fields[0].dataType})),
        ("name string, count int", ValueMigration(function=text_of, called="text_of")),
        ("word string, day date, count int", ValueMigration(function=text_of, called="text_of")),
    ],
)
def test_what_does_not_lead_to_the_declared_fields_is_refused(url: str, fields: str, migration: ValueMigration) -> None:
    fill(url, "counts")
    with (
        opened(url, "counts", fields, migration, epoch=2) as state,
        pytest.raises(StateError, match=r"its stored fields are word string, count int, declared are .*To fix this"),
    ):
        state.check_migration()
    assert rows(url, "counts", "count") == OLD_ROWS
    with opened(url, "counts", OLD, epoch=3) as state:
        assert state.multi_get([("a",)]) == [10]


def raising(value: int) -> str:
    raise KeyError(value)


def returning_nothing(value: int) -> None:
    del value


def too_large(value: int) -> int:
    return 10**30


@pytest.mark.parametrize(
    ("fields", "function", "message"),
    [
        (
            NEW,
            raising,
            "can't be migrated: raising raised KeyError: 10 for the value 10 of the key .*'a'",
        ),
        (NEW, returning_nothing, "returning_nothing returned None for the value 10 of the key"),
        ("word string, n decimal(5,0)", too_large, "field 'n' is decimal.5,0. and cannot hold 10000"),
    ],
)
def test_a_function_that_fails_is_named_with_key_and_value_before_anything_is_changed(
    url: str, fields: str, function: Any, message: str
) -> None:
    fill(url, "counts")
    migration = ValueMigration(fields={"count": "n"}, function=function, called=function.__name__)
    with opened(url, "counts", fields, migration, epoch=2) as state, pytest.raises(StateError, match=message):
        state.check_migration()
    assert rows(url, "counts", "count") == OLD_ROWS


def test_a_leader_that_was_replaced_migrates_nothing(url: str) -> None:
    fill(url, "counts")
    with opened(url, "counts", NEW, to_text(), epoch=2) as late:
        with opened(url, "counts", NEW, to_text(), epoch=3):
            pass
        with pytest.raises(FencedError, match="a leader of epoch 3 has taken over from epoch 2"):
            late.migrate(1, 1, IDENTITY)
    assert rows(url, "counts", "count") == OLD_ROWS


def test_a_table_that_another_program_changed_is_refused(url: str) -> None:
    fill(url, "counts")
    select(url, "ALTER TABLE counts DROP COLUMN _prev")
    with (
        opened(url, "counts", NEW, to_text(), epoch=2) as state,
        pytest.raises(StateError, match=r"can't be migrated: .*its column '_prev' was made as .* and is gone"),
    ):
        state.check_migration()


def test_a_view_of_another_program_never_shows_the_table_before(url: str) -> None:
    """PostgreSQL binds a view to its table, so the migration is refused; elsewhere the view has the new table."""
    fill(url, "counts")
    select(url, "CREATE VIEW shown AS SELECT _key FROM counts")
    with opened(url, "counts", NEW, to_text(), epoch=2) as state:
        if url.startswith("postgres"):
            with pytest.raises(StateError, match="view shown depends on table _counts_migrated"):
                state.migrate(1, 1, IDENTITY)
            assert rows(url, "counts", "count") == OLD_ROWS
        else:
            state.migrate(1, 1, IDENTITY)
            assert len(select(url, "SELECT * FROM shown")) == len(NEW_ROWS)


def test_a_new_state_with_a_migration_is_a_new_state(url: str) -> None:
    with opened(url, "totals", NEW, to_text("counts")) as state:
        assert not state.is_behind
        assert state.mark is None
        put(state, 1, {"a": "x"})
    with opened(url, "totals", NEW, to_text("counts"), epoch=2) as state:
        assert not state.is_behind
        assert state.multi_get([("a",)]) == ["x"]


@pytest.mark.parametrize(
    ("before", "now", "holds"),
    [
        ("smallint", "bigint", True),
        ("bigint", "int", False),
        ("int", "int", False),
        ("float", "double", True),
        ("double", "float", False),
        ("decimal(5,2)", "decimal(6,2)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("decimal(5,2)", "decimal(5,2)", False),
        ("int", "double", False),
        ("string", "binary", False),
    ],
)
def test_a_type_is_wider_if_it_holds_every_value_as_it_is(before: str, now: str, *, holds: bool) -> None:
    first, second = (schema_of(f"n {kind}").fields[0].dataType for kind in (before, now))
    assert is_wider(first, second) is holds
