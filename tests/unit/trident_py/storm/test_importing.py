"""Imports of what Storm 2.8.3 has stored, killed between each two of their steps; then our topology goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import evolve

from coordinators.backends.local import LocalRecordStore
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import RecordStore
from tests.servers.redis_server import RedisServer
from tests.storm_data.dumps import ExactLines, FullLines, OpaqueLines, counted, program, snapshot_of, wanted, words
from trident_py.errors import ConfigError, StateError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count, Sum
from trident_py.participants.states import StateParticipant
from trident_py.spouts.adapting import AnySpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.keys import decode_key
from trident_py.states.maps import IBackingMap, OpaqueMap, TransactionalMap
from trident_py.states.memory import MemoryMapState
from trident_py.states.redis.redis import RedisState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.values import TransactionalValue
from trident_py.storm import importing
from trident_py.storm.importing import Imported, ImportedState, Wanted, import_topology
from trident_py.storm.snapshot import StormSnapshot
from trident_py.streams.stream import Stream
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology
from trident_py.windows.windows import TumblingCount

PROGRAMS: Mapping[str, tuple[Callable[[], AnySpout], str, Sequence[int]]] = {
    "storm-exact": (ExactLines, "transactional,hash=storm-exact,tasks=1", [0, 1]),
    "storm-opaque": (OpaqueLines, "opaque,strings=*", [0, 1]),
    "storm-full": (FullLines, "opaque,hash=storm-full", [0]),
}
"""The recorded programs: our spout, where Storm has the counts, and the partitions that are read."""


def two_states(name: str, at: Path) -> TridentTopology:
    """Return our version of a recorded program, with the counts in two databases."""
    topology = TridentTopology("words")
    by_word = words(topology, name, PROGRAMS[name][0]())
    for table in ("one", "two"):
        by_word.persistent_aggregate(SQLiteState(at / f"{table}.db", table=table), Count(), "count")
    return topology


def wanted_of(name: str, moment: str = "killed") -> Wanted:
    return wanted(name, moment, one=PROGRAMS[name][1], two=PROGRAMS[name][1])


def run_import(topology: TridentTopology, coordination: LocalCoordination, what: Wanted) -> Imported:
    return import_topology(topology._graph, TridentConfig(), coordination, what)


def values(at: Path, table: str) -> dict[str, int]:
    with closing(sqlite3.connect(at / f"{table}.db")) as client:
        return dict(client.execute(f"SELECT word, count FROM {table}").fetchall())  # noqa: S608 - a name of this file


def ran(topology: TridentTopology, coordination: LocalCoordination) -> list[int]:
    return [each["txid"] for each in run_batches(topology, coordination)]


def check_end(name: str, at: Path, topology: TridentTopology, coordination: LocalCoordination, first: int) -> None:
    """Run to the end of the lines: each was counted once, half of them by Storm."""
    assert ran(topology, coordination) == list(range(first, 11))
    for table in ("one", "two"):
        assert values(at, table) == dict(counted(PROGRAMS[name][2]))


FIRST = {"storm-exact": 4, "storm-opaque": 3, "storm-full": 5}
"""Our first transaction. Storm was stopped in the commit of transaction 3, or after that of 4."""


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("moment", ["inactive", "killed"])
def test_each_line_counts_once_though_storm_was_stopped_in_a_commit(name: str, moment: str, tmp_path: Path) -> None:
    topology, coordination = two_states(name, tmp_path), LocalCoordination()
    done = run_import(topology, coordination, wanted_of(name, moment))
    assert done.record.current_txid == FIRST[name]
    assert done.record.attempt_ids == {txid: 0 for txid in range(FIRST[name], 6) if name != "storm-full"}
    check_end(name, tmp_path, topology, coordination, FIRST[name])


def test_a_running_topology_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'storm-exact' \(storm-exact-1-\d+\) is ACTIVE.*`storm deactivate storm-ex"):
        run_import(two_states("storm-exact", tmp_path), LocalCoordination(), wanted_of("storm-exact", "active"))


# --- kills ------------------------------------------------------------------------------------------------------------


class Killed(Exception):
    """The end of the process, as far as an exception can be one."""


STEPS = [(LocalCoordination, "lead"), (StateParticipant, "recover"), (StateParticipant, "load")]
LAST = (LocalRecordStore, "write")


def kill_at(step: int, patched: pytest.MonkeyPatch) -> list[str]:
    """Kill the process before or after one of the calls that change something; return the calls so far."""
    done: list[str] = []

    def killing(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def counted_call(*given: Any) -> Any:
            done.append(f"before {name}")
            if len(done) == step:
                raise Killed
            result = call(*given)
            done.append(f"after {name}")
            if len(done) == step:
                raise Killed
            return result

        patched.setattr(owner, name, counted_call)

    for owner, name in [*STEPS, LAST]:
        killing(owner, name)
    return done


def kills(name: str, at: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, LocalCoordination, list[str]]]:
    """Yield an import that was killed at each of its steps in turn."""
    for step in range(1, 100):
        place, coordination = at / str(step), LocalCoordination()
        place.mkdir()
        with monkeypatch.context() as patched:
            done = kill_at(step, patched)
            try:
                run_import(two_states(name, place), coordination, wanted_of(name))
            except Killed:
                for topology in coordination.topologies():
                    coordination.expire(topology)
            else:
                return
        yield place, coordination, done


def check_kills(name: str, at: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Import again after each kill, and go on; return how many kills there were."""
    count = 0
    for place, coordination, done in kills(name, at, monkeypatch):
        count += 1
        topology = two_states(name, place)
        run_import(topology, coordination, wanted_of(name))
        state = {table: values(place, table) for table in ("one", "two")}
        assert state["one"] == state["two"] != {}, done
        if done[-2:] == ["before load", "after load"] or done[-1] == "after write":
            check_end(name, place, topology, coordination, FIRST[name])
    return count


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_import_that_is_killed_between_any_two_steps_is_finished_by_the_next(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_kills(name, tmp_path, monkeypatch) == 2 * (1 + 2 + 2 + 1)


def test_no_topology_starts_with_a_part_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, coordination, done in kills("storm-opaque", tmp_path, monkeypatch):
        topology = two_states("storm-opaque", place)
        if "after load" in done and done[-1] != "after write":
            with pytest.raises(StateError, match="has transaction 2, committed as"):
                ran(topology, coordination)
            run_import(topology, coordination, wanted_of("storm-opaque"))
            assert values(place, "one") == values(place, "two") != {}


def first_the_record(store: RecordStore, record: CoordinatorRecord, states: Sequence[ImportedState]) -> Any:
    """Write the record before the values."""
    store.write(record)
    return TAKEN(store, evolve(record, seq=1), states)


def without_look(store: RecordStore, mark: str) -> None:
    """Import over any record."""


TAKEN = importing.taken


def test_values_that_come_after_the_record_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "taken", first_the_record)
    with pytest.raises((AssertionError, StateError, sqlite3.OperationalError)):
        check_kills("storm-opaque", tmp_path, monkeypatch)


def test_an_import_over_a_topology_that_has_run_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology, coordination = two_states("storm-opaque", tmp_path), LocalCoordination()
    run_import(topology, coordination, wanted_of("storm-opaque"))
    ran(topology, coordination)
    monkeypatch.setattr(importing, "earlier", without_look)
    with pytest.raises(StateError, match="has transaction 10 of an earlier import, which was killed"):
        run_import(topology, coordination, wanted_of("storm-opaque"))


# --- again ------------------------------------------------------------------------------------------------------------


def test_the_same_import_again_changes_nothing_even_if_the_topology_has_run(tmp_path: Path) -> None:
    topology, coordination = two_states("storm-exact", tmp_path), LocalCoordination()
    first = run_import(topology, coordination, wanted_of("storm-exact", "inactive"))
    again = run_import(topology, coordination, wanted_of("storm-exact", "killed"))
    assert (again.verdict, again.record) == (None, evolve(first.record))
    check_end("storm-exact", tmp_path, topology, coordination, 4)
    assert run_import(topology, coordination, wanted_of("storm-exact")).record.current_txid == 11
    assert values(tmp_path, "one") == dict(counted([0, 1]))


def test_another_import_needs_a_reset(tmp_path: Path) -> None:
    topology, coordination = two_states("storm-exact", tmp_path), LocalCoordination()
    run_import(topology, coordination, wanted_of("storm-exact"))
    later = evolve(wanted_of("storm-exact"), states={**wanted_of("storm-exact").states, "two": None})
    with pytest.raises(TopologyError, match=r"is at transaction 4, and was imported from other data of Storm"):
        run_import(topology, coordination, later)
    coordination.reset("words")
    with pytest.raises(StateError, match="state 'one' has it, and 'two' may lack it"):
        run_import(topology, coordination, later)
    run_import(topology, coordination, wanted_of("storm-exact"))
    check_end("storm-exact", tmp_path, topology, coordination, 4)


def test_a_topology_that_has_run_is_refused(tmp_path: Path) -> None:
    topology, coordination = two_states("storm-full", tmp_path), LocalCoordination()
    ran(topology, coordination)
    with pytest.raises(TopologyError, match=r"'words' is at transaction 11; an import is for a topology that has nev"):
        run_import(topology, coordination, wanted_of("storm-full"))


def test_an_import_killed_before_storm_went_on_needs_a_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, coordination = next(
        (at, kept) for at, kept, done in kills("storm-full", tmp_path, monkeypatch) if done[-1] == "before write"
    )
    topology, what = two_states("storm-full", place), wanted_of("storm-full")
    went_on = evolve(snapshot_of("storm-full").spouts["storm-full"], current=6, metadata={5: {"from": 8, "to": 10}})
    later = evolve(snapshot_of("storm-full"), spouts={"storm-full": went_on})
    with pytest.raises(
        StateError, match="state 'one' has transaction 4 of an earlier import, which was killed, and St"
    ):
        run_import(topology, coordination, evolve(what, read=lambda _: later))


def test_a_topology_that_still_commits_is_refused(tmp_path: Path) -> None:
    before = snapshot_of("storm-full", "inactive")
    after = evolve(before, spouts={"storm-full": evolve(before.spouts["storm-full"], current=6)})
    waited: list[float] = []
    for settle in (60.0, 0.0):
        seen = iter([before, after])
        what = evolve(wanted_of("storm-full"), settle=settle, read=partial(_next_of, seen), wait=waited.append)
        with pytest.raises(ConfigError, match="during the import: it still commits"):
            run_import(two_states("storm-full", tmp_path), LocalCoordination(), what)
    assert waited == [60.0]


def _next_of(seen: Iterator[StormSnapshot], _: Sequence[str]) -> StormSnapshot:
    return next(seen)


# --- what can be taken ------------------------------------------------------------------------------------------------


def test_one_value_without_a_key_and_values_without_txids_are_taken(tmp_path: Path) -> None:
    topology = TridentTopology("words")
    by_word = words(topology, "storm-full", FullLines())
    state = SQLiteState(tmp_path / "plain.db", table="plain")
    by_word.persistent_aggregate(state, Count(), "count")
    stream: Stream = by_word.to_stream()
    stream.persistent_aggregate(SQLiteState(tmp_path / "total.db", table="total"), Count(), "total")
    what = wanted("storm-full", plain="non-transactional,strings=*", total="transactional,hash=storm-full-total")
    coordination = LocalCoordination()
    run_import(topology, coordination, what)
    assert values(tmp_path, "plain") == dict(counted([0], 8))
    assert ran(topology, coordination) == list(range(5, 11))
    assert values(tmp_path, "plain") == dict(counted([0]))
    with closing(sqlite3.connect(tmp_path / "total.db")) as client:
        assert client.execute("SELECT total FROM total").fetchall() == [(60,)]


class Stored(IBackingMap[Any]):
    """A store of Storm's values, which stays where it is."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kept = kept

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        return [self.kept.get(key[0]) for key in keys]

    def multi_put(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self.kept.update({key[0]: value for key, value in zip(keys, values, strict=True)})


def test_a_map_keeps_each_keys_txid_where_storm_has_it() -> None:
    before, after = counted([0, 1], 4), counted([0, 1], 6)
    kept = {key: TransactionalValue(2, count) for key, count in before.items()}
    kept |= {key: TransactionalValue(3, after[key]) for key in ("all", "w1")}  # the others are of another task
    topology = program("storm-exact", ExactLines(), lambda: TransactionalMap.factory(lambda: Stored(kept)))
    coordination = LocalCoordination()
    done = run_import(topology, coordination, wanted("storm-exact"))
    assert (done.record.current_txid, len(done.others)) == (3, 1)
    assert ran(topology, coordination) == list(range(3, 11))
    assert {key: each.value for key, each in kept.items()} == dict(counted([0, 1]))


def test_what_nobody_says_anything_of_is_refused(tmp_path: Path) -> None:
    topology = two_states("storm-full", tmp_path)
    with pytest.raises(TopologyError, match=r"nothing says what state 'two' begins with.*--state two=KIND,hash=KEY"):
        run_import(topology, LocalCoordination(), wanted("storm-full", one=PROGRAMS["storm-full"][1]))
    with pytest.raises(TopologyError, match="there is no state 'three'; there is one, two"):
        run_import(topology, LocalCoordination(), wanted("storm-full", three="empty"))
    with pytest.raises(StateError, match="state 'one': there is nothing in hash 'none'"):
        run_import(topology, LocalCoordination(), wanted("storm-full", one="opaque,hash=none", two="empty"))


def test_an_empty_state_begins_with_our_first_transaction(tmp_path: Path) -> None:
    topology, coordination = two_states("storm-full", tmp_path), LocalCoordination()
    done = run_import(topology, coordination, wanted("storm-full", one=PROGRAMS["storm-full"][1], two="empty"))
    assert done.others == ["two"]
    ran(topology, coordination)
    assert values(tmp_path, "one") == dict(counted([0]))
    assert values(tmp_path, "two") == dict(counted([0]) - counted([0], 8))


def test_a_volatile_state_is_empty_as_in_storm_and_a_map_is_not_imported() -> None:
    topology = program("storm-full", FullLines(), MemoryMapState.factory)
    (name,) = run_import(topology, LocalCoordination(), wanted("storm-full")).others
    maps = program("storm-full", FullLines(), lambda: OpaqueMap.factory(lambda: Stored({})))
    with pytest.raises(TopologyError, match=r"can't be imported.*A map over an IBackingMap keeps what its store has"):
        run_import(maps, LocalCoordination(), wanted("storm-full", **{name: "opaque,hash=storm-full"}))


def test_spouts_that_are_not_connected_have_other_transactions_in_storm(tmp_path: Path) -> None:
    topology = program("a", FullLines(), lambda: SQLiteState(tmp_path / "a.db", table="a"))
    words(topology, "b", FullLines()).persistent_aggregate(SQLiteState(tmp_path / "b.db", table="b"), Count(), "count")
    with pytest.raises(TopologyError, match=r"has 2 groups of spouts that are not joined or merged \(a; b\)"):
        run_import(topology, LocalCoordination(), wanted("storm-full", a="empty", b="empty"))


def test_a_spout_that_keeps_another_position_is_refused(tmp_path: Path) -> None:
    topology = program(
        "storm-full", FixedBatchSpout("value string", 1, ("a",)), lambda: SQLiteState(tmp_path / "a.db", table="a")
    )
    with pytest.raises(
        TopologyError, match="spout 'storm-full' is a FixedBatchSpout, which keeps its position in a fo"
    ):
        run_import(topology, LocalCoordination(), wanted("storm-full", a=PROGRAMS["storm-full"][1]))


def test_a_value_of_another_type_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    topology = TridentTopology("words")
    lines = topology.new_stream("storm-full", FullLines()).flat_map(lambda row: [(len(row.value), 1)], "n int, one int")
    state = SQLiteState(tmp_path / "sums.db", table="sums")
    lines.group_by("n").persistent_aggregate(state, Sum("one"), "count")
    coordination = LocalCoordination()
    with pytest.raises(
        StateError, match="state 'sums', key 'all': 'all' is no int, which field 'n' is; nothing was im"
    ):
        run_import(topology, coordination, wanted("storm-full", sums=PROGRAMS["storm-full"][1]))
    assert coordination.describe("words").record is None
    assert not (tmp_path / "sums.db").exists()


@pytest.mark.redis
@pytest.mark.postgres
def test_values_go_into_redis_and_postgresql_too(redis: str, redis_server: RedisServer, postgres: str) -> None:
    factories: list[Callable[[], StateFactory]] = [
        lambda: RedisState(redis, prefix="counts"),
        lambda: PostgresState(postgres, table="counts"),
    ]
    for make in factories:
        topology, coordination = program("storm-opaque", OpaqueLines(), make), LocalCoordination()
        run_import(topology, coordination, wanted("storm-opaque", counts="opaque,strings=*"))
        assert ran(topology, coordination) == list(range(3, 11))
    with redis_server.client() as client, psycopg.connect(postgres) as connection:
        found: Any = client.hgetall("counts")
        assert {decode_key(key)[0]: int(text) for key, text in found.items()} == dict(counted([0, 1]))
        assert dict(connection.execute("SELECT word, count FROM counts").fetchall()) == dict(counted([0, 1]))


def test_a_window_can_only_begin_empty() -> None:
    topology = TridentTopology("words")
    lines = topology.new_stream("storm-full", FullLines())
    lines.window(TumblingCount(2), "value", Count(), "count")
    with pytest.raises(TopologyError, match="nothing says what window 'storm-full-window' begins with"):
        run_import(topology, LocalCoordination(), wanted("storm-full"))
    with pytest.raises(
        TopologyError, match=r"window 'storm-full-window' can't be imported: .* An import takes the state of a persi"
    ):
        run_import(
            topology, LocalCoordination(), wanted("storm-full", **{"storm-full-window": "opaque,hash=storm-full"})
        )
    done = run_import(topology, LocalCoordination(), wanted("storm-full", **{"storm-full-window": "empty"}))
    assert (done.others, done.record.current_txid) == (["storm-full-window"], 5)
