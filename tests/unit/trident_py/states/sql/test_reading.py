"""A table that one topology fills and another one asks, in both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.transactions import begin
from tests.unit.trident_py.states.sql import postgres_rows, test_sqlite
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.engine.ports.reads import StateReads
from trident_py.engine.wiring.assembly import states_of
from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import TopologyKey
from trident_py.interfaces.states import StateFactory
from trident_py.operations.queries import MapGet
from trident_py.participants.context import ParticipantContext
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.reading import TableReader
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology

FIELDS = "word string, `order` int, day date, price decimal(10,2)"
KEY = ("a", 1, date(2024, 2, 29), Decimal("1.50"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> StateFactory:
    """A state in a database that is there; the table is not."""
    if request.param == "postgres":
        return PostgresState(request.getfixturevalue("postgres"), table="counts")
    with closing(sqlite3.connect(tmp_path / "counts.db")) as connection:
        connection.execute("CREATE TABLE other (n)")
    return SQLiteState(tmp_path / "counts.db", table="counts")


@pytest.fixture
def filled(factory: StateFactory) -> Iterator[Any]:
    """The state, with one transaction committed."""
    typed = factory.for_fields(schema_of(FIELDS), schema_of("struct bigint").fields[0])
    state: Any = typed.make_state(TridentConfig(), Metrics(), 0, 1)
    state.recover(TOPOLOGY, 1)
    test_sqlite.commit(state, transaction(1), {KEY: 1})
    yield state
    state.close()


def reader_of(factory: StateFactory) -> TableReader:
    made = factory.for_reading().make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(made, TableReader)
    return made


def test_t9_a_table_is_asked_while_its_topology_goes_on_filling_it(factory: StateFactory, filled: Any) -> None:
    reader = reader_of(factory)
    other = ("b", 2, None, None)
    assert reader.multi_get([other, KEY]) == [None, 1]
    begin(filled, transaction(2))
    filled.multi_put([other], [5])
    assert reader.get_tuples() == [(*KEY, 1)]
    filled.commit_group()
    assert reader.multi_get([other, KEY, KEY]) == [5, 1, 1]
    assert sorted(reader.get_tuples()) == [(*KEY, 1), (*other, 5)]
    reader.close()


def test_t9_after_a_reset_of_its_topology_what_that_fills_then_is_asked(factory: StateFactory, filled: Any) -> None:
    reader = reader_of(factory)
    again = TopologyKey(TOPOLOGY.name, TOPOLOGY.uuid, 2)
    filled.close()
    filled.recover(again, 2)
    assert reader.multi_get([KEY]) == [None]
    test_sqlite.commit(filled, transaction(1, 0, 2, again), {KEY: 7})
    assert reader.multi_get([KEY]) == [7]
    reader.close()


def test_t9_a_table_that_no_topology_has_made_is_missed_at_the_start(factory: StateFactory) -> None:
    for _ in range(2):  # nothing is made on the way
        with pytest.raises(
            StateError, match=r"table 'counts' of .*: no topology has made such a table; to fix this: first start"
        ):
            reader_of(factory)


def test_t9_a_table_beside_those_of_states_is_not_asked(factory: StateFactory, filled: Any) -> None:
    assert isinstance(factory, SQLiteState | PostgresState)
    with pytest.raises(StateError, match="no topology has made such a table"):
        reader_of(evolve(factory, table="other"))


def test_t9_a_table_that_was_dropped_is_missed(factory: StateFactory, filled: Any) -> None:
    filled.close()
    if isinstance(factory, SQLiteState):
        test_sqlite.select(factory.path, "DROP TABLE counts")
    elif isinstance(factory, PostgresState):
        postgres_rows.select(factory.dsn.reveal(), "DROP TABLE counts")
    with pytest.raises(StateError, match="no topology has made such a table"):
        reader_of(factory)


def test_t9_a_file_that_is_not_there_is_missed_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no topology has made such a table"):
        reader_of(SQLiteState(tmp_path / "gone.db", table="counts"))
    assert not list(tmp_path.iterdir())


def test_t9_what_is_missed_at_the_start_is_said_with_the_topology_and_the_declaration(tmp_path: Path) -> None:
    topology = TridentTopology("asking")
    topology.new_static_state(SQLiteState(tmp_path / "gone.db", table="counts"))
    with pytest.raises(StateError, match=r"^topology 'asking', new_static_state\(.*\): table 'counts' of .*: no"):
        states_of([], topology._graph, ParticipantContext(config=TridentConfig(), metrics=Metrics()))


def test_t9_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but a text of some length" * 50)
    with pytest.raises(StateError, match="file is not a database; to fix this"):
        reader_of(SQLiteState(tmp_path / "text.db", table="counts"))


@pytest.mark.postgres
def test_t9_a_server_that_is_away_is_named_at_the_start() -> None:
    with pytest.raises(StateError, match="check the server, the DSN and the role"):
        reader_of(PostgresState("host=127.0.0.1 port=1 user=nobody", table="counts"))


def test_t9_a_table_of_ours_is_declared_as_a_state_that_is_only_asked(tmp_path: Path) -> None:
    topology = TridentTopology("asking")
    state = topology.new_static_state(SQLiteState(tmp_path / "counts.db", table="counts"))
    topology.new_drpc_stream("count").state_query(state, "args", MapGet(), "n bigint")
    assert state.name == "counts"
    assert "counts.db', table='counts')" in topology.explain()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("factory", ["sqlite"], indirect=True)
def test_t9_a_state_that_is_only_asked_is_closed_with_the_topology(filled: Any, factory: StateFactory) -> None:
    reader = reader_of(factory)
    StateReads("asking", {"counts": reader}).close_states()
    with pytest.raises(StateError, match="is closed"):
        reader.multi_get([KEY])


@pytest.mark.parametrize("factory", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("fields", "key"), [(["word", "order"], "struct<word:string,order:int>"), (["n"], "n:bigint")])
def test_t9_keys_of_other_types_are_refused_at_the_start(
    filled: Any, factory: StateFactory, fields: list[str], key: str
) -> None:
    topology = TridentTopology("asking")
    state = topology.new_static_state(factory)
    asking = topology.new_stream(
        "s", FixedBatchSpout("word string, order int, day date, price decimal(10,2), n long", 1)
    )
    asking.state_query(state, ["word", "order", "day", "price"], MapGet(), "count bigint")
    for reader in states_of(
        [], topology._graph, ParticipantContext(config=TridentConfig(), metrics=Metrics())
    ).values():
        reader.close()  # type: ignore[attr-defined]
    asking.state_query(state, fields, MapGet(), "count bigint")
    with pytest.raises(
        TopologyError, match=f"the keys of the state are struct<word.*, and what is asked for is .*{key}"
    ):
        states_of([], topology._graph, ParticipantContext(config=TridentConfig(), metrics=Metrics()))
