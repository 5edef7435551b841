"""What `SQLiteState` has beyond the contract of `test_fenced_state`: files, other clients, crashes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from trident_py.errors import FailedException, FencedError, StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionKey
from trident_py.rows.schema import schema_of
from trident_py.states.sql import sqlite_database
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.sql.state import SQLMapState

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[5])}
TOPOLOGY = TopologyKey("wordcount", "8d1f", 1)


def transaction(txid: int, attempt: int = 0, epoch: int = 1, topology: TopologyKey = TOPOLOGY) -> SinkTransaction:
    key = TransactionKey(topology.uuid, topology.incarnation, txid)
    return SinkTransaction(key, TransactionAttempt(txid, attempt), epoch)


@contextmanager
def opened(
    path: Path, keys: str | None = "word string", value: str = "count bigint", *, table: str = "counts"
) -> Iterator[SQLMapState]:
    fields = schema_of(keys) if keys else StructType([])
    factory = SQLiteState(path, table=table).for_fields(fields, schema_of(value).fields[0])
    state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, SQLMapState)
    try:
        yield state
    finally:
        state.close()


def commit(state: SQLMapState, tx: SinkTransaction, changes: dict[Any, Any]) -> None:
    assert begin(state, tx)
    state.multi_merge([key if isinstance(key, tuple) else (key,) for key in changes], list(changes.values()), Adding())
    state.commit_group()


def select(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "counts.db"


# --- an ordinary table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [1, 2, 40])
def test_any_number_of_keys_of_any_number_of_fields_is_written(tmp_path: Path, fields: int) -> None:
    names = ", ".join(f"k{number} int" for number in range(fields))
    keys = [tuple(range(number, number + fields)) for number in range(2_345)]
    with opened(tmp_path / "s.db", names) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), dict.fromkeys(keys[:2_222], 1))
        commit(state, transaction(2), dict.fromkeys(keys, 2))
        assert sorted(state.get_tuples()) == [(*key, 3 if number < 2_222 else 2) for number, key in enumerate(keys)]


def test_any_client_reads_the_committed_values(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1, None: 2})
        begin(state, transaction(2))
        state.multi_merge([("a",)], [5], Adding())
        assert select(path, "SELECT word, count FROM counts ORDER BY word") == [(None, 2), ("a", 1)]
        state.commit_group()
        assert select(path, "SELECT count FROM counts WHERE word = 'a'") == [(6,)]


def test_bookkeeping_begins_with_an_underscore(path: Path) -> None:
    with opened(path, "word string, day date") as state:
        state.recover(TOPOLOGY, 1)
        names = [row[1] for row in select(path, "PRAGMA table_info(counts)")]
        assert [name for name in names if not name.startswith("_")] == ["word", "day", "count"]
        tables = select(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        assert tables == [("_counts_removed",), ("_trident",), ("counts",)]


def test_what_is_not_grouped_is_one_row(path: Path) -> None:
    with opened(path, None) as state:
        state.recover(TOPOLOGY, 1)
        for txid in (1, 2, 3):
            commit(state, transaction(txid), {(): txid})
        assert select(path, "SELECT count, _key FROM counts") == [(6, "[]")]
        assert state.multi_get([()]) == [6]


def test_keys_of_every_type_and_their_nulls_are_rows_of_their_own(path: Path) -> None:
    at = datetime(2024, 2, 29, 12, tzinfo=UTC)
    with opened(path, "s string, i int, d double, day date, at timestamp, b boolean") as state:
        state.recover(TOPOLOGY, 1)
        key = ("a", 1, 0.5, date(2024, 2, 29), at, True)
        partly = [tuple(None if i == hole else value for i, value in enumerate(key)) for hole in range(len(key))]
        for txid in (1, 2):
            commit(state, transaction(txid), dict.fromkeys([key, *partly], 1))
        assert state.multi_get([key, *partly]) == [2] * 7
        shown = select(path, "SELECT s, i, d, day, at, b FROM counts WHERE i = 1 AND d IS NOT NULL AND s = 'a'")
        assert ("a", 1, 0.5, "2024-02-29", "2024-02-29T12:00:00.000000Z", 1) in shown


def test_a_key_born_in_a_replaced_attempt_is_deleted(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1, 0), {"a": 1, "b": 1})
        commit(state, transaction(1, 1), {"b": 2})
        assert select(path, "SELECT word, count FROM counts") == [("b", 2)]


def test_several_states_share_a_database(path: Path) -> None:
    with opened(path) as counts, opened(path, None, "total double", table="totals") as totals:
        for state in (counts, totals):
            assert state.recover(TOPOLOGY, 1) is None
        commit(counts, transaction(1), {"a": 1})
        commit(totals, transaction(1), {(): 0.5})
        commit(counts, transaction(2), {"a": 1})
        assert counts.recover(TOPOLOGY, 2) == CommitToken(2, 1, 0)
        assert totals.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)


def test_a_table_beside_ours_is_left_alone(path: Path) -> None:
    select(path, "CREATE TABLE users AS SELECT 'ann' AS name")
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
    assert select(path, "SELECT * FROM users") == [("ann",)]


# --- takeover ---------------------------------------------------------------------------------------------------------


def test_a_restart_finds_values_and_token(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1, 3), {"a": 1})
    with opened(path) as state:
        assert state.recover(TOPOLOGY, 2) == CommitToken(1, 1, 3)
        assert state.multi_get([("a",)]) == [1]
        commit(state, transaction(2, epoch=2), {"a": 1})
        assert state.multi_get([("a",)]) == [2]


def test_a_leader_that_was_taken_over_is_refused(path: Path) -> None:
    with opened(path) as zombie, opened(path) as leader:
        zombie.recover(TOPOLOGY, 1)
        commit(zombie, transaction(1), {"a": 1})
        leader.recover(TOPOLOGY, 2)
        with pytest.raises(FencedError, match="epoch 2"):
            begin(zombie, transaction(2))
        with pytest.raises(FencedError, match="epoch 2, ours is 1"):
            zombie.recover(TOPOLOGY, 1)
        commit(leader, transaction(2, epoch=2), {"a": 1})
        assert leader.multi_get([("a",)]) == [2]


def test_a_table_used_twice_by_one_topology_is_refused(path: Path) -> None:
    with opened(path) as one, opened(path, table="COUNTS") as other:
        one.recover(TOPOLOGY, 1)
        one.recover(TOPOLOGY, 1)
        with pytest.raises(
            StateError, match=r"'wordcount' uses table 'COUNTS' .* twice, .*give each state its own table"
        ):
            other.recover(TOPOLOGY, 1)


def test_a_table_of_another_topology_is_refused_by_name(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1})
    with (
        opened(path) as state,
        pytest.raises(StateError, match=r"belongs to topology 'wordcount' .uuid 8d1f.") as error,
    ):
        state.recover(TopologyKey("other", "77aa", 1), 9)
    assert str(path) in str(error.value)
    assert select(path, "SELECT word, count FROM counts") == [("a", 1)]


def test_a_table_that_no_topology_made_is_refused_and_left_alone(path: Path) -> None:
    select(path, "CREATE TABLE Counts AS SELECT 'a' AS word, 1 AS count")
    with (
        opened(path) as state,
        pytest.raises(StateError, match="exists and was not made by a topology; to fix this: use another"),
    ):
        state.recover(TOPOLOGY, 1)
    assert select(path, "SELECT name, sql FROM sqlite_master") == [
        ("Counts", "CREATE TABLE Counts(word,count)"),
    ]


def test_a_table_with_other_fields_is_refused(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
    with opened(path, value="count double") as state, pytest.raises(StateError) as error:
        state.recover(TOPOLOGY, 2)
    assert "has the fields word string, count bigint, declared are word string, count double" in str(error.value)


def test_a_new_incarnation_sets_the_old_table_aside_and_views_follow_the_new_one(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(7), {"a": 1})
    select(path, "CREATE VIEW top AS SELECT word, count FROM counts")
    newer = evolve(TOPOLOGY, incarnation=2)
    with opened(path, "word string, day date") as state:
        assert state.recover(newer, 2) is None
        commit(state, transaction(1, epoch=2, topology=newer), {("b", None): 1})
    assert select(path, "SELECT word, count FROM _counts_incarnation_1") == [("a", 1)]
    assert select(path, "SELECT * FROM top") == [("b", 1)]


def test_a_table_that_was_dropped_is_missed_until_the_topology_is_reset(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1})
    select(path, "DROP TABLE counts")
    with opened(path) as state:
        with pytest.raises(
            StateError, match=r"counts.* is gone, it was at 1:0 of epoch 1; to fix this: restore it, or `trident reset"
        ):
            state.recover(TOPOLOGY, 2)
        assert state.recover(evolve(TOPOLOGY, incarnation=2), 3) is None


def test_a_table_dropped_before_its_first_commit_is_made_again(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
    select(path, "DROP TABLE counts")
    with opened(path) as state:
        assert state.recover(TOPOLOGY, 2) is None
        commit(state, transaction(1, epoch=2), {"a": 1})


# --- bad files --------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"word,count\n" * 500)
    with (
        opened(path) as state,
        pytest.raises(StateError, match="file is not a database; to fix this: give another path") as error,
    ):
        state.recover(TOPOLOGY, 1)
    assert str(path) in str(error.value)
    assert path.read_bytes() == b"word,count\n" * 500


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "no" / "counts.db") as state,
        pytest.raises(StateError, match=r"there is no directory .*/no;"),
    ):
        state.recover(TOPOLOGY, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with opened(tmp_path) as state, pytest.raises(StateError, match="unable to open"):
        state.recover(TOPOLOGY, 1)


AS_NOBODY = """
import os, sys
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, Path, StateError, opened
if os.geteuid() == 0:  # root may write anywhere
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with opened(Path(sys.argv[1])) as state:
    try:
        state.recover(TOPOLOGY, 2)
    except StateError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("file_mode", "directory_mode"), [(0o444, 0o777), (0o444, 0o555), (None, 0o555), (0o000, 0o777)]
)
def test_a_file_or_directory_that_cannot_be_written_is_named(file_mode: int | None, directory_mode: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "counts.db")
        if file_mode is not None:
            with opened(path) as state:
                state.recover(TOPOLOGY, 1)
            path.chmod(file_mode)
        path.parent.chmod(directory_mode)
        run = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(path)], capture_output=True, text=True, check=False, env=ENV
        )
        path.parent.chmod(0o700)
    assert str(path) in run.stdout, run.stderr
    assert "make the file and its directory writable" in run.stdout


def test_a_file_that_is_damaged_while_in_use_is_named(path: Path) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {f"word {number:06}" * 10: 1 for number in range(5000)})
    with opened(path) as state:
        state.recover(TOPOLOGY, 2)
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(3 * 4096)
            file.write(b"\x55" * (size - 3 * 4096))
        with pytest.raises(StateError, match=r"counts.db: .*malformed; to fix this: restore the file from a backup"):
            commit(state, transaction(2, epoch=2), {f"word {number:06}" * 10: 1 for number in range(5000)})
        state.rollback()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_vanishes_while_in_use_is_missed(path: Path, replaced: bool) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 1})
        path.unlink()
        if replaced:
            path.touch()
        with pytest.raises(StateError, match="removed or replaced while in use"):
            commit(state, transaction(2), {"a": 1})


def test_another_process_that_keeps_the_lock_fails_the_attempt_and_not_the_state(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_database, "BUSY_SECONDS", 0.05)
    with opened(path) as state, closing(sqlite3.connect(path, isolation_level=None)) as other:
        state.recover(TOPOLOGY, 1)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FailedException, match="another process keeps it locked"):
            begin(state, transaction(1))
        state.rollback()
        with (
            opened(path) as late,
            pytest.raises(StateError, match=r"'wordcount'.* keeps it locked.*; end that process, or use"),
        ):
            late.recover(TOPOLOGY, 2)
        other.execute("ROLLBACK")
        commit(state, transaction(1, 1), {"a": 1})


# --- bad values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ["sum", None])
def test_a_sum_beyond_64_bits_is_an_error_and_changes_nothing(path: Path, hint: Any) -> None:
    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": 2**63 - 1, "b": -(2**63)})
        for word, more in (("a", 1), ("b", -1), ("a", 2**63)):
            begin(state, transaction(2))
            with pytest.raises(
                StateError, match=r"beyond 64 bits|CHECK constraint failed.*; to fix this: correct the value"
            ):
                state.multi_merge([(word,)], [more], Adding(hint))
            state.rollback()
        assert state.multi_get([("a",), ("b",)]) == [2**63 - 1, -(2**63)]


def test_infinities_that_cancel_out_are_nan_and_not_null(path: Path) -> None:
    with opened(path, value="total double") as state:
        state.recover(TOPOLOGY, 1)
        commit(state, transaction(1), {"a": float("inf")})
        commit(state, transaction(2), {"a": float("-inf")})
        commit(state, transaction(3), {"a": 1.0})
    assert select(path, "SELECT total FROM counts") == [("NaN",)]


def test_a_state_that_does_not_know_its_types_says_where_it_is_used(path: Path) -> None:
    with pytest.raises(StateError, match="gets their types only from persistent_aggregate"):
        SQLiteState(path, table="counts").make_state(TridentConfig(), Metrics(), 0, 1)


def test_a_bad_table_name_and_a_path_without_file_are_refused_where_they_are_written(path: Path) -> None:
    table: Any
    for table in ("_trident", 5, None):
        with pytest.raises(StateError, match=f"table {table!r} cannot be a name"):
            SQLiteState(path, table=table)
    file: Any
    for file in (":memory:", "", ".", 5, "sqlite:///counts.db"):
        with pytest.raises(StateError, match="use MemoryMapState"):
            SQLiteState(file, table="counts")


def test_a_number_of_shards_out_of_range_is_refused_where_it_is_written(path: Path) -> None:
    shards: Any
    for shards in (0, 11, True, "2", None, 2.0):
        with pytest.raises(StateError, match="shards is the number of files for the values, from 1 to 10, not "):
            SQLiteState(path, table="counts", shards=shards)


def test_the_number_of_shards_is_shown_and_compared_only_if_there_are_several(path: Path) -> None:
    one, two = SQLiteState(path, table="counts"), SQLiteState(path, table="counts", shards=2)
    assert repr(one) == f"SQLiteState(path={str(path)!r}, table='counts')"
    assert repr(two) == f"SQLiteState(path={str(path)!r}, table='counts', shards=2)"
    assert (one.identity(), two.identity()) == ({}, {"shards": 2})
    assert one == two  # the same data: one topology can't use both


# --- crashes and readers ----------------------------------------------------------------------------------------------

COMMIT_FOR_EVER = """
import itertools, sys
from tests.transactions import begin
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, Adding, Path, opened, transaction
epoch = int(sys.argv[2])
with opened(Path(sys.argv[1])) as state:
    token = state.recover(TOPOLOGY, epoch)
    for txid in itertools.count(token.txid if token else 1):
        begin(state, transaction(txid, epoch=epoch))
        state.multi_merge([(f"w{number}",) for number in range(1000)], [1] * 1000, Adding())
        print("merged", txid, flush=True)
        state.commit_group()
        print("committed", txid, flush=True)
"""


def test_sigkill_at_any_moment_leaves_whole_transactions_and_none_that_was_committed_is_lost(path: Path) -> None:
    committed = 0
    for epoch in range(1, 5):
        with subprocess.Popen(
            [sys.executable, "-c", COMMIT_FOR_EVER, str(path), str(epoch)], stdout=subprocess.PIPE, text=True, env=ENV
        ) as child:
            assert child.stdout is not None
            for _ in range(2 + 3 * epoch):  # stops now after "merged", now after "committed"
                word, txid = child.stdout.readline().split()
                committed = int(txid) if word == "committed" else committed
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().splitlines()
        done = [int(line.split()[1]) for line in rest if line.startswith("committed ")]
        committed = max([committed, *done])
        values = select(path, "SELECT count, count(*) FROM counts GROUP BY count")
        ((value, keys),) = values
        assert keys == 1000
        token = select(path, "SELECT txid FROM _trident")[0][0]
        assert value == token >= committed


def test_a_reader_on_its_own_connection_sees_whole_transactions_only(path: Path) -> None:
    words = [f"w{number}" for number in range(500)]
    done, torn = threading.Event(), []

    def watch() -> None:
        with closing(sqlite3.connect(path)) as connection:
            while not done.is_set():
                low, high, rows = connection.execute("SELECT min(count), max(count), count(*) FROM counts").fetchone()
                if low != high or rows not in (0, 500):
                    torn.append((low, high, rows))

    with opened(path) as state:
        state.recover(TOPOLOGY, 1)
        reader = threading.Thread(target=watch)
        reader.start()
        for txid in range(1, 41):
            commit(state, transaction(txid), dict.fromkeys(words, 1))
        done.set()
        reader.join()
    assert torn == []
