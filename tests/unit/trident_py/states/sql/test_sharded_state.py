"""A state in shards: after a crash between any two steps, readers and the next leader find whole transactions.

The oracle is a fold of the attempts that count, up to the central token. Each rule is switched off in turn, and the
same runs have to notice.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field, frozen

from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, transaction
from trident_py.errors import FencedError, StateError, StoreBusyException
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.rows.schema import schema_of
from trident_py.states.fenced import Fence
from trident_py.states.keys import encode_keys
from trident_py.states.shards import numbers_of_texts
from trident_py.states.sql import sharded_state
from trident_py.states.sql.central_token import CentralToken
from trident_py.states.sql.dialect import Connection
from trident_py.states.sql.shard import Shard
from trident_py.states.sql.sharded_reading import ShardsView
from trident_py.states.sql.sharded_state import ShardedSQLMapState, shard_paths
from trident_py.states.sql.sqlite_database import SQLITE, SQLiteDatabase, SQLiteLink
from trident_py.states.sql.table import Table

SHARDS = 2
ALL = "all"
Values = Mapping[str, int]
Changes = Mapping[str, Any]


class Crash(BaseException):
    """The process has died."""


@define
class Faults:
    """Faults of transactions by file: the number that may still commit, and a call before the next one begins."""

    error: BaseException = field(factory=Crash)
    allowed: dict[str, int] = field(factory=dict)
    before: dict[str, Callable[[], None]] = field(factory=dict)

    def begins(self, file: str) -> None:
        if hook := self.before.pop(file, None):
            hook()

    def commits(self, file: str) -> None:
        if file in self.allowed and self.allowed[file] == 0:
            raise self.error
        if file in self.allowed:
            self.allowed[file] -= 1


class FaultyLink(SQLiteLink):
    """A connection with faults."""

    faults: Faults

    def begin(self) -> sqlite3.Connection:
        self.faults.begins(self._path.name)
        return super().begin()

    def commit(self) -> None:
        self.faults.commits(self._path.name)
        super().commit()


@frozen
class FaultyDatabase(SQLiteDatabase):
    faults: Faults = field(eq=False)

    def link(self) -> SQLiteLink:
        link = FaultyLink(self.path, str(self.path), is_reader=False)
        link.faults = self.faults
        return link


TABLE = Table.of(SQLITE, "counts", schema_of("word string"), schema_of("count bigint").fields[0])
CENTRAL, *FILES = "s.db", *(path.name for path in shard_paths(Path("s.db"), "counts", SHARDS))
WORDS = [f"w{number}" for number in range(8)]
FIRST, SECOND = (
    [word for word in WORDS if numbers_of_texts(encode_keys([(word,)]), SHARDS) == [number]] for number in range(SHARDS)
)
"""Words of the one shard and of the other; there are some of each."""

ONE: Changes = {FIRST[0]: 1, SECOND[0]: 1, FIRST[1]: 5, SECOND[1]: 5}
TWO: Changes = {FIRST[0]: 10, SECOND[0]: 10, FIRST[1]: REMOVE, SECOND[1]: REMOVE, FIRST[2]: 1, SECOND[2]: 1}
AGAIN: Changes = {FIRST[0]: 20, SECOND[0]: 20, SECOND[2]: 7, FIRST[3]: 7}
"""The change of the second transaction when it comes again: its rows may differ."""
OTHER: Changes = {FIRST[0]: REMOVE, SECOND[0]: REMOVE, FIRST[1]: 3, SECOND[1]: 3, FIRST[2]: 4, SECOND[3]: 4}
"""Its change when it comes a third time."""
THREE: Changes = {FIRST[0]: 100, SECOND[0]: 100, FIRST[1]: 1, SECOND[1]: 1}


def fold(*changes: Changes) -> dict[str, int]:
    """The values after these transactions."""
    values: dict[str, int] = {}
    for each in changes:
        for word, change in each.items():
            values[word] = 0 if change is REMOVE else values.get(word, 0) + change
    return {word: value for word, value in values.items() if value}


@define(eq=False)
class Leader:
    """A leader's state over the files in a directory."""

    at: Path
    epoch: int
    kind: type[ShardedSQLMapState] = ShardedSQLMapState
    faults: Faults = field(factory=Faults)
    state: ShardedSQLMapState = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.state = self.kind(FaultyDatabase(self.at / CENTRAL, faults=self.faults), TABLE, SHARDS)

    def recover(self) -> CommitToken | None:
        return self.state.recover(TOPOLOGY, self.epoch)

    def commit(self, txid: int, changes: Changes, attempt: int = 0) -> None:
        tx = transaction(txid, attempt, self.epoch)
        try:
            if begin(self.state, tx):
                write(self.state, changes)
                self.state.commit_group()
        except BaseException:
            self.state.rollback()
            raise

    def __enter__(self) -> Leader:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.close()


def write(state: ShardedSQLMapState, changes: Changes) -> None:
    merged = {word: value for word, value in changes.items() if value is not REMOVE}
    state.multi_merge([(word,) for word in merged], list(merged.values()), Adding())
    gone = [(word,) for word, value in changes.items() if value is REMOVE]
    state.multi_update(gone, [lambda old: REMOVE] * len(gone))


def script(at: Path) -> str:
    """The script that the central file has for readers."""
    with closing(sqlite3.connect(at / CENTRAL)) as client:
        ((found,),) = client.execute("SELECT script FROM _counts_shards").fetchall()
    return str(found)


def seen(at: Path) -> dict[str, int]:
    """Return the values that another client sees."""
    with closing(sqlite3.connect(at / CENTRAL)) as client:
        client.executescript(script(at))
        return dict(client.execute("SELECT word, count FROM counts").fetchall())


def tokens(at: Path) -> list[CommitToken]:
    """The central token, then that of each shard."""
    found = []
    for name in (CENTRAL, *FILES):
        with closing(sqlite3.connect(at / name)) as client:
            ((txid, epoch, attempt),) = client.execute("SELECT txid, epoch, attempt_id FROM _trident").fetchall()
        found.append(CommitToken(txid, epoch, attempt))
    return found


# --- crashes ----------------------------------------------------------------------------------------------------------

Fault = Mapping[str, int]
"""How many transactions of each file still commit."""

RECOVERING: list[Fault] = [
    {CENTRAL: 0, FILES[0]: one, FILES[1]: other} for one, other in itertools.product((0, 1), repeat=2)
]
"""A takeover ends before the central file, with each set of shards."""
COMMITTING = RECOVERING
"""So does a commit."""


@frozen
class Run:
    """The lives of two leaders.

    Attributes:
        committed: whether the first leader commits the second transaction before it comes again.
        first: where the first leader dies in the last of that.
        recovering: where the second leader dies while it recovers; None: it doesn't.
        second: where it dies in the replay.
    """

    committed: bool
    first: Fault
    recovering: Fault | None
    second: Fault


def runs() -> Iterator[Run]:
    for committed, first in itertools.product((False, True), COMMITTING):
        yield from (Run(committed, first, recovering, {}) for recovering in RECOVERING)
        yield from (Run(committed, first, None, second) for second in COMMITTING)


ATTEMPTS: Mapping[CommitToken, Changes] = {
    CommitToken(2, 1, 0): TWO,
    CommitToken(2, 1, 1): AGAIN,
    CommitToken(2, 2, 0): OTHER,
    CommitToken(2, 3, 5): AGAIN,
}
"""The attempts of the second transaction."""


def check_run(at: Path, run: Run, kind: type[ShardedSQLMapState] = ShardedSQLMapState) -> None:
    """Each leader continues where the one before has died; readers see whole transactions all the time."""
    with Leader(at, 1, kind) as leader:
        leader.recover()
        leader.commit(1, ONE)
        if run.committed:
            leader.commit(2, TWO)
        leader.faults.allowed = dict(run.first)
        with pytest.raises(Crash):
            leader.commit(2, AGAIN, attempt=1)
        check_seen(at)
    with Leader(at, 2, kind) as leader:
        leader.faults.allowed = dict(run.recovering or {})
        with suppress(Crash):
            leader.recover()
            leader.faults.allowed = dict(run.second)
            leader.commit(2, OTHER)
    check_seen(at)
    with Leader(at, 3, kind) as leader:
        assert leader.recover() == tokens(at)[0]
        leader.commit(2, AGAIN, attempt=5)
        check_seen(at)
        leader.commit(3, THREE)
    assert seen(at) == fold(ONE, AGAIN, THREE)
    assert tokens(at) == [CommitToken(3, 3, 0)] * 3


def check_seen(at: Path) -> None:
    """A reader sees the first transaction, and the attempt of the second one that the central token names."""
    second = ATTEMPTS.get(tokens(at)[0])
    assert seen(at) == (fold(ONE, second) if second else fold(ONE))


@pytest.mark.long
def test_after_a_crash_between_any_two_steps_everybody_finds_whole_transactions(tmp_path: Path) -> None:
    for number, run in enumerate(runs()):
        check_run(made(tmp_path / str(number)), run)


HALF: Fault = {FILES[0]: 1, FILES[1]: 0}


@pytest.mark.parametrize(
    "run",
    [
        Run(committed=False, first=HALF, recovering=HALF, second={}),
        Run(committed=True, first=HALF, recovering=None, second=HALF),
    ],
)
def test_after_a_crash_between_two_shards_everybody_finds_whole_transactions(tmp_path: Path, run: Run) -> None:
    check_run(tmp_path, run)


def made(at: Path) -> Path:
    at.mkdir()
    return at


# --- leaders that were taken over -------------------------------------------------------------------------------------


def check_paused(at: Path, kind: type[ShardedSQLMapState], before: str) -> None:
    """A leader is taken over before it opens its shards, or before the central token: it changes nothing any more."""
    with Leader(at, 1, kind) as old, Leader(at, 2, kind) as new:
        old.recover()
        old.commit(1, ONE)
        found: list[Any] = []

        def take_over() -> None:
            new.recover()
            new.faults.allowed = dict(HALF)
            with suppress(Crash):
                new.commit(2, OTHER)
            new.state.rollback()
            found.extend(tokens(at))

        assert begin(old.state, transaction(2))
        if before == FILES[0]:
            take_over()
        else:
            old.faults.before[before] = take_over
        with suppress(FencedError):
            write(old.state, TWO)
            old.state.commit_group()
        old.state.rollback()
        assert tokens(at) == found
        check_seen(at)
        with pytest.raises(FencedError):
            old.commit(2, TWO)


@pytest.mark.parametrize("before", [CENTRAL, FILES[0]])
def test_a_leader_that_was_taken_over_in_mid_commit_changes_nothing_more(tmp_path: Path, before: str) -> None:
    check_paused(tmp_path, ShardedSQLMapState, before)


def test_a_shard_that_is_busy_fails_the_attempt_and_the_next_one_replaces_it(tmp_path: Path) -> None:
    check_busy(tmp_path, ShardedSQLMapState)


def check_busy(at: Path, kind: type[ShardedSQLMapState]) -> None:
    with Leader(at, 1, kind, Faults(error=StoreBusyException("busy"))) as leader:
        leader.recover()
        leader.commit(1, ONE)
        leader.faults.allowed = {FILES[1]: 0}
        with pytest.raises(StoreBusyException):
            leader.commit(2, TWO)
        check_seen(at)
        assert leader.state.multi_get([(FIRST[0],)]) == [1]
        leader.faults.allowed = {}
        leader.commit(2, AGAIN, attempt=1)
        check_seen(at)


# --- what does not fit together ---------------------------------------------------------------------------------------


def check_moment(at: Path, kind: type[ShardedSQLMapState]) -> None:
    """A file that was restored from the past is refused."""
    with Leader(at, 1, kind) as leader:
        leader.recover()
        leader.commit(1, ONE)
    copy(at, made(at / "old"))
    with Leader(at, 2, kind) as leader:
        leader.recover()
        leader.commit(2, TWO)
        leader.commit(3, THREE)
    for name in (CENTRAL, *FILES):
        copy(at, made(at / f"restored {name}"))
        shutil.copy(at / "old" / name, at / f"restored {name}" / name)
        with (
            Leader(at / f"restored {name}", 3, kind) as leader,
            pytest.raises(StateError, match=r"not of one moment; to fix this: restore"),
        ):
            leader.recover()


def copy(at: Path, to: Path) -> None:
    """Copy all files, each with what is in its log."""
    for name in (CENTRAL, *FILES):
        with closing(sqlite3.connect(at / name)) as client:
            client.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(at / name, to / name)


def test_files_that_are_not_of_one_moment_are_refused(tmp_path: Path) -> None:
    check_moment(tmp_path, ShardedSQLMapState)


def test_a_shard_that_is_gone_or_swapped_is_missed(tmp_path: Path) -> None:
    with Leader(tmp_path, 1) as leader:
        leader.recover()
        leader.commit(1, ONE)
    one, other = (tmp_path / name for name in FILES)
    one.rename(tmp_path / "kept")
    with Leader(tmp_path, 2) as leader, pytest.raises(StateError, match=r"s\.db-counts-0 is at no transaction"):
        leader.recover()
    shutil.copy(other, one)
    with Leader(tmp_path, 3) as leader, pytest.raises(StateError, match=r"'counts_0' of .*s\.db-counts-0 is at no"):
        leader.recover()


def test_a_reader_whose_files_are_of_different_moments_is_told_so(tmp_path: Path) -> None:
    check_torn_reader(tmp_path, ShardedSQLMapState)


def check_torn_reader(at: Path, kind: type[ShardedSQLMapState]) -> None:
    """A read that began in the central file, and comes to the shards two transactions later."""
    with Leader(at, 1, kind) as leader, closing(sqlite3.connect(at / CENTRAL, isolation_level=None)) as client:
        leader.recover()
        leader.commit(1, ONE)
        client.executescript(script(at))
        for condition in ("", f"WHERE word = '{FIRST[1]}'", f"WHERE word = '{SECOND[7 % len(SECOND)]}'"):
            client.execute("BEGIN")
            client.execute("SELECT txid FROM main._trident").fetchall()
            txid = leader.state._central.token.txid if leader.state._central.token else 0
            leader.commit(txid + 1, TWO)
            leader.commit(txid + 2, THREE)
            with pytest.raises(sqlite3.OperationalError, match="run it again"):
                client.execute(f"SELECT word, count FROM counts {condition}").fetchall()  # noqa: S608
            client.execute("ROLLBACK")
        assert dict(client.execute("SELECT word, count FROM counts").fetchall()) == seen(at)


def test_a_reader_that_began_before_a_replaced_attempt_sees_no_mix(tmp_path: Path) -> None:
    check_replaced_reader(tmp_path, ShardedSQLMapState)


def check_replaced_reader(at: Path, kind: type[ShardedSQLMapState]) -> None:
    """A read that began in the central file at one attempt, and comes to the shards after another one and the next."""
    with Leader(at, 1, kind) as leader, closing(sqlite3.connect(at / CENTRAL, isolation_level=None)) as client:
        leader.recover()
        leader.commit(1, ONE)
        leader.commit(2, TWO)
        client.executescript(script(at))
        client.execute("BEGIN")
        client.execute("SELECT txid FROM main._trident").fetchall()
        leader.commit(2, AGAIN, attempt=1)
        leader.commit(3, THREE)
        with pytest.raises(sqlite3.OperationalError, match="run it again"):
            client.execute("SELECT word, count FROM counts").fetchall()


# --- each rule switched off -------------------------------------------------------------------------------------------


class CentralFirst(ShardedSQLMapState):
    """Makes a transaction the central token before the shards have it."""

    def commit_group(self) -> None:
        self._threads.settle()
        opened = self._opened()
        self._central.advance(self._members)
        self._threads.each(lambda shard: shard.commit_group(), opened)
        self._members, self._open, self._has_changed = [], None, False


class Incomplete(ShardedSQLMapState):
    """Makes a transaction the central token if some shard has it."""

    def commit_group(self) -> None:
        self._threads.settle()
        with suppress(StoreBusyException):
            self._threads.each(lambda shard: shard.commit_group(), self._opened())
        self._central.advance(self._members)
        self._members, self._open, self._has_changed = [], None, False


class Trusting(CentralToken):
    """Doesn't compare the epoch when a transaction becomes the central token."""

    def locked_header(self, connection: Connection, tx: SinkTransaction) -> Any:
        header = super().locked_header(connection, tx)
        return evolve(header, fence=evolve(header.fence, epoch=tx.epoch))


class Unfenced(ShardedSQLMapState):
    """Raises the fence in the central file only."""

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        for shard in self._shards:
            shard._claim = evolving(shard._claim)  # type: ignore[method-assign]
        return super().recover(topology, epoch)


def evolving(claim: Callable[..., Any]) -> Callable[..., Any]:
    def lowered(connection: Connection, fence: Fence, found: Any, *, exists: bool) -> Any:
        header = claim(connection, fence, found, exists=exists)
        connection.execute("UPDATE _trident SET fence = 1")
        return evolve(header, fence=evolve(header.fence, epoch=1))

    return lowered


class Overwriting(Shard):
    """Keeps nothing of the attempt that it replaces."""

    def _before_undo(self, connection: Connection, txid: int) -> None:
        pass


class KeepingTheLast(Shard):
    """Keeps the changes of the last attempt that it replaces, which readers don't see."""

    def _before_undo(self, connection: Connection, txid: int) -> None:
        self.central = self.token
        super()._before_undo(connection, txid)


class Forgetful(Shard):
    """Doesn't store the central token that its commit came after."""

    def _finish(self, connection: Connection) -> None:
        self.central = None
        super()._finish(connection)


def with_shards(kind: type[Shard]) -> type[ShardedSQLMapState]:
    class Mutant(ShardedSQLMapState):
        def __init__(self, database: SQLiteDatabase, table: Table, shards: int, ttl: int | None = None) -> None:
            super().__init__(database, table, shards, ttl)
            for shard in self._shards:
                shard.__class__ = kind

    return Mutant


def with_central(kind: type[CentralToken]) -> type[ShardedSQLMapState]:
    class Mutant(ShardedSQLMapState):
        def __init__(self, database: SQLiteDatabase, table: Table, shards: int, ttl: int | None = None) -> None:
            super().__init__(database, table, shards, ttl)
            self._central = kind(database, table, shards, ttl)

    return Mutant


def crashes(at: Path, kind: type[ShardedSQLMapState]) -> None:
    check_run(made(at / "new"), Run(committed=False, first=HALF, recovering=None, second=HALF), kind)
    check_run(made(at / "replaced"), Run(committed=True, first=HALF, recovering=None, second=HALF), kind)


Check = Callable[[Path, type[ShardedSQLMapState]], None]
KINDS: Sequence[tuple[str, type[ShardedSQLMapState], Check]] = (
    ("the central token comes last", CentralFirst, crashes),
    ("all shards must have a transaction", Incomplete, check_busy),
    ("a shard keeps what it replaces", with_shards(Overwriting), crashes),
    ("it keeps that until the central token moves", with_shards(KeepingTheLast), crashes),
    ("it stores the central token", with_shards(Forgetful), crashes),
    ("the central token is fenced", with_central(Trusting), lambda at, kind: check_paused(at, kind, CENTRAL)),
    ("shards are fenced", Unfenced, lambda at, kind: check_paused(at, kind, FILES[0])),
)


@pytest.mark.parametrize(("kind", "check"), [each[1:] for each in KINDS], ids=[each[0] for each in KINDS])
def test_each_rule_of_commits_is_needed(tmp_path: Path, kind: type[ShardedSQLMapState], check: Check) -> None:
    with pytest.raises((AssertionError, sqlite3.OperationalError, StateError, pytest.fail.Exception)):
        check(tmp_path, kind)


VIEWS: Sequence[tuple[str, str, str, Check]] = (
    ("values above the central token", "THEN r._prev ELSE", 'THEN r."count" ELSE', crashes),
    ("keys born above it", "WHERE r._born <= v.upto", "WHERE 1", crashes),
    ("keys removed above it", "r._txid > v.upto AND r._born", "0 AND r._born", crashes),
    ("transactions that come again", " - coalesce(s.txid = c.txid", " - 0 * coalesce(s.txid = c.txid", crashes),
    ("keys of a replaced attempt", "AND NOT (v.replaces", "AND NOT (0", crashes),
    ("values of a replaced attempt", "WHERE v.replaces AND", "WHERE 0 AND", crashes),
    ("values that it doesn't have", "WHERE v.replaces AND", "WHERE", crashes),
    ("keys that it removed", "r._gone = 0", "1", crashes),
    (
        "attempts of other moments",
        "(b.txid, b.epoch, b.attempt_id) IS (c.txid, c.epoch, c.attempt_id)",
        "b.txid IS c.txid",
        check_replaced_reader,
    ),
    ("shards of other moments", "CASE WHEN EXISTS", "CASE WHEN NOT EXISTS (SELECT 1) AND EXISTS", check_torn_reader),
)


@pytest.mark.parametrize(("old", "new", "check"), [each[1:] for each in VIEWS], ids=[each[0] for each in VIEWS])
def test_each_rule_of_readers_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, check: Check
) -> None:
    class Changed(ShardsView):
        @property
        def script(self) -> str:
            before, found, after = super().script.partition(old)
            if not found:
                raise LookupError(old)
            return before + new + after.replace(old, new)

    monkeypatch.setattr(sharded_state, "ShardsView", Changed)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(tmp_path, ShardedSQLMapState)


def test_the_comparison_of_tokens_at_the_start_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded_state, "check_ahead", lambda *_: None)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_moment(tmp_path, ShardedSQLMapState)
