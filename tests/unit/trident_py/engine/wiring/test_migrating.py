"""`migrate`, from declaration to stored values, in memory: what is killed between any two steps is done at the end."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from coordinators.backends.local import LocalRecordStore
from trident_py.errors import StateError, TopologyError, TridentError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.operations.builtin import Count
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.sql.state import SQLMapState
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology

WORDS = ["a", "b", "a", "c", "a", "b"]


class Texts(CombinerAggregator[str]):
    """Counts in texts."""

    def init(self, row: Any) -> str:
        return "1"

    def combine(self, left: str, right: str) -> str:
        return str(int(left) + int(right))

    def zero(self) -> str:
        return "0"


class Other(CombinerAggregator[str]):
    """Does the same under another name."""

    init, combine, zero = Texts.init, Texts.combine, Texts.zero


called: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    called.clear()


def as_text(value: int) -> str:
    called.append(value)
    return str(value)


DATABASES = {"counts": 0, "totals": 0, "sums": 1}


@define
class Program:
    """The versions of a program, over what they have stored."""

    at: Path
    monkeypatch: pytest.MonkeyPatch
    coordination: LocalCoordination = field(factory=LocalCoordination)

    def version(self, spout: str, *tables: str, texts: bool, words: int) -> TridentTopology:
        """Read the first words, by one spout into a database for each table."""
        topology = TridentTopology("wc")
        stream = topology.new_stream(spout, FixedBatchSpout("word string", 2, *[(word,) for word in WORDS[:words]]))
        for table in tables:
            state = SQLiteState(self.at / f"{DATABASES[table]}.db", table=table)
            by_word = stream.name(table).group_by("word")
            if texts:
                by_word.persistent_aggregate(state, Texts(), "n string")
            else:
                by_word.persistent_aggregate(state, Count(), "count")
        return topology

    def old(self, words: int = 2) -> TridentTopology:
        return self.version("lines", "counts", "sums", texts=False, words=words)

    def new(self, words: int = 4) -> TridentTopology:
        topology = self.version("log", "totals", "sums", texts=True, words=words)
        topology.migrate("lines", rename="log")
        topology.migrate("counts", rename="totals", with_=as_text)
        topology.migrate("totals", rename={"count": "n"})
        topology.migrate("sums", rename={"count": "n"}, with_=as_text)
        return topology

    def run(self, topology: TridentTopology) -> list[int]:
        """Run it to the end of its words; return the transactions."""
        return [each["txid"] for each in run_batches(topology, self.coordination)]

    def killed(self, topology: TridentTopology, migrated: int = 2) -> None:
        """Start it, and kill it when so many states are migrated; at the latest before it writes the record."""
        with self.monkeypatch.context() as patched:
            patched.setattr(SQLMapState, "migrate", killing(SQLMapState.migrate, migrated))
            patched.setattr(LocalRecordStore, "write", killing(LocalRecordStore.write, 0))
            with pytest.raises(Killed):
                self.run(topology)

    def rows(self, table: str) -> list[Any]:
        with closing(sqlite3.connect(self.at / f"{DATABASES[table]}.db")) as client:
            return sorted(client.execute(f"SELECT * FROM {table}").fetchall())  # noqa: S608 - a name of this file

    def values(self, table: str) -> dict[str, Any]:
        return {row[0]: row[1] for row in self.rows(table)}


class Killed(Exception):
    """The end of the process, as far as an exception can be one."""


def killing(call: Callable[..., Any], after: int) -> Callable[..., Any]:
    """Let ``call`` raise from its call number ``after`` on."""
    calls = iter(range(after))

    def killed(*given: Any) -> Any:
        if next(calls, None) is None:
            raise Killed
        return call(*given)

    return killed


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path, monkeypatch)


def test_renamed_spouts_and_states_go_on_with_migrated_values(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    assert program.run(program.old(words=4)) == [1, 2]
    with caplog.at_level(logging.WARNING):
        assert program.run(program.new(words=6)) == [3]
    for table in ("totals", "sums"):
        assert program.values(table) == {"a": "3", "b": "2", "c": "1"}
    assert "spout 'lines' is called 'log' from transaction 3 on" in caplog.text
    assert "state 'totals' is migrated, 3 keys" in caplog.text


def test_a_call_that_was_carried_out_changes_nothing(program: Program) -> None:
    program.run(program.old())
    program.run(program.new(words=4))
    called.clear()
    assert program.run(program.new(words=6)) == [3]
    assert called == []
    assert program.values("totals") == {"a": "3", "b": "2", "c": "1"}


def test_a_new_topology_with_migrations_begins_as_any_other(program: Program) -> None:
    assert program.run(program.new(words=6)) == [1, 2, 3]
    assert called == []
    assert program.values("sums") == {"a": "3", "b": "2", "c": "1"}


@pytest.mark.parametrize("migrated", [0, 1, 2])
def test_a_start_that_is_killed_between_two_states_or_before_the_record_is_finished_by_the_next(
    program: Program, migrated: int
) -> None:
    program.run(program.old())
    before = [program.rows("counts"), program.rows("sums")]
    program.killed(program.new(), migrated)
    seen = [program.rows("totals" if migrated else "counts"), program.rows("sums")]
    assert [now == then for now, then in zip(seen, before, strict=True)] == [migrated < 1, migrated < 2]
    called.clear()
    assert program.run(program.new()) == [2]
    assert len(called) == 2 * 2 * (2 - migrated)  # two values of each state, to check and to store
    for table in ("totals", "sums"):
        assert program.values(table) == {"a": "2", "b": "1", "c": "1"}


@pytest.mark.parametrize("migrated", [1, 2])
def test_the_version_before_never_goes_on_with_migrated_values(program: Program, migrated: int) -> None:
    program.run(program.old())
    program.killed(program.new(), migrated)
    with pytest.raises(StateError, match=r"'counts'|'sums'"):
        program.run(program.old(words=4))
    assert program.run(program.new()) == [2]
    assert program.values("totals") == {"a": "2", "b": "1", "c": "1"}


def retold(value: str) -> str:
    called.append(int(value))
    return value


def told_back(value: str) -> str:
    return f"{value}0"


def odd(
    program: Program,
    words: int,
    function: Callable[[str], str] | None = retold,
    aggregator: CombinerAggregator[str] | None = None,
) -> TridentTopology:
    """Count in texts, by `Texts` without a migration, and by `Other` with one."""
    topology = TridentTopology("wc")
    stream = topology.new_stream("lines", FixedBatchSpout("word string", 2, *[(word,) for word in WORDS[:words]]))
    counting = aggregator or (Other() if function else Texts())
    state = SQLiteState(program.at / "0.db", table="counts")
    stream.group_by("word").persistent_aggregate(state, counting, "n string")
    if function is not None:
        topology.migrate("counts", with_=function)
    return topology


def test_values_are_migrated_again_by_another_function(program: Program) -> None:
    program.run(odd(program, 2, None))
    program.run(odd(program, 2))
    with pytest.raises(TopologyError, match="and function 'retold' of migrate"):
        program.run(odd(program, 2, retold, Texts()))
    program.run(odd(program, 2, told_back, Texts()))
    assert program.values("counts") == {"a": "10", "b": "10"}


def test_values_of_the_same_type_are_migrated_once_for_another_aggregator(program: Program) -> None:
    program.run(odd(program, 2, None))
    program.killed(odd(program, 4))
    with pytest.raises(StateError, match=r"'counts' was migrated by another version of the program.*start that"):
        program.run(odd(program, 4, None))
    called.clear()
    assert program.run(odd(program, 4)) == [2]
    assert called == []
    with pytest.raises(TopologyError, match="its aggregator changed from 'Other' to 'Texts'"):
        program.run(odd(program, 6, None))


def test_a_value_that_does_not_migrate_leaves_all_states_as_they_were(program: Program) -> None:
    def failing(value: int) -> str:
        raise ValueError(value)

    program.run(program.old())
    topology = program.version("lines", "totals", "sums", texts=True, words=4)
    topology.migrate("counts", rename="totals", with_=as_text)
    topology.migrate("totals", rename={"count": "n"})
    topology.migrate("sums", rename={"count": "n"}, with_=failing)
    with pytest.raises(
        StateError, match=r"topology 'wc': table 'sums' of .* can't be migrated: .*failing raised Value"
    ):
        program.run(topology)
    assert called
    assert program.run(program.old(words=4)) == [2]
    assert program.values("counts") == {"a": 2, "b": 1, "c": 1}


def test_a_state_of_which_others_lack_the_last_transaction_is_not_migrated(program: Program) -> None:
    program.run(program.old())
    with program.monkeypatch.context() as patched:
        patched.setattr(SQLMapState, "commit_group", killing(SQLMapState.commit_group, 1))
        with pytest.raises(TridentError):
            program.run(program.old(words=4))
    before = [program.rows("counts"), program.rows("sums")]
    with pytest.raises(TopologyError, match=r"because of a crash between their commits.*start the version") as raised:
        program.run(program.new())
    accepted = TridentConfig(accept=re.findall(r"accept=\['(torn:[^']+)'\]", str(raised.value)))
    with pytest.raises(StateError, match=r"state 'totals' can't be migrated now: the topology is at transaction 2"):
        program.new().start(accepted, coordination=program.coordination)
    assert [program.rows("counts"), program.rows("sums")] == before
    assert program.run(program.old(words=4)) == [2]
    assert program.run(program.new(words=6)) == [3]
    assert program.values("sums") == {"a": "3", "b": "2", "c": "1"}


def test_dropped_parts_are_let_go(program: Program) -> None:
    program.run(program.old())
    topology = program.version("log", "sums", texts=False, words=2)
    with pytest.raises(TopologyError, match="spout 'log' is new and would be read from the beginning"):
        program.run(topology)
    topology.migrate("lines", drop=True)
    topology.migrate("counts", drop=True)
    assert program.run(topology) == []
    assert program.values("counts") == {"a": 1, "b": 1}
    assert program.run(program.version("log", "sums", texts=False, words=4)) == [2]
    assert program.values("sums") == {"a": 2, "b": 1, "c": 1}
