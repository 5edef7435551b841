"""A fenced state in several SQLite files, which commit side by side under one central token."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from coordinators.values.errors import our_bug
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import FencedState, ITupleCollection, Key, ValueUpdater
from trident_py.states.fenced import group_first
from trident_py.states.keys import encode_key, encode_keys
from trident_py.states.shards import gathered, numbers_of_texts
from trident_py.states.sql.central_token import CentralToken
from trident_py.states.sql.local_files import check_local
from trident_py.states.sql.shard import Shard
from trident_py.states.sql.shard_threads import ShardThreads
from trident_py.states.sql.sharded_reading import ShardedDatabase, ShardedTableReader, ShardPlace, ShardsView
from trident_py.states.sql.sqlite_database import SQLiteDatabase, ensure_usable
from trident_py.states.sql.state import CHUNK_ROWS, updated_values
from trident_py.states.sql.table import Table


def shard_paths(path: Path, table: str, shards: int) -> list[Path]:
    """Return the files of the shards: ``counts.db-counts-0`` and others next to ``counts.db``."""
    return [path.with_name(f"{path.name}-{table}-{number}") for number in range(shards)]


def shard_table(table: Table, number: int) -> Table:
    """Return the table of a shard; another name for each, so files that were swapped are noticed."""
    return evolve(table, name=f"{table.name}_{number}")


class ShardedSQLMapState(FencedState[Any], ITupleCollection):
    """Values by key in several files; the shard of a key follows from the key and the number of shards.

    Each shard has its own thread: while SQLite runs a statement, other threads run. Updaters run on the thread that
    commits. See `central_token` for the steps of a commit.
    """

    can_tell_rolled_back = True
    takes_groups = False

    def __init__(self, database: SQLiteDatabase, table: Table, shards: int, ttl: int | None = None) -> None:
        self._database, self._table = database, table
        self._central = CentralToken(database, table, shards, ttl)
        self._threads = ShardThreads(
            [
                Shard(evolve(database, path=path), shard_table(table, number), ttl)
                for number, path in enumerate(shard_paths(database.path, table.name, shards))
            ]
        )
        self._reader: ShardedTableReader | None = None
        self._thread = 0
        self._first = 0  # the first transaction of the open group
        self._members: list[SinkTransaction] = []  # those that commit next; only the last one may have changes
        self._open: list[bool] | None = None  # which shards the members change; None: the shards are not open
        self._has_changed = False

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: raise the fence in all shards, then in the central file, and read its token.

        In this order, an older leader that still commits can't add a transaction after the token was read.
        """
        self.close()
        where = f"topology {topology.name!r}: {self._central.shown}"
        check_local(self._database.path, where)
        with self._database.starting(where):
            ensure_usable(self._database.path, where)
        self._central.check_claim(topology, epoch)
        self._threads.start(self._table.name)
        self._threads.each(lambda shard: shard.recover(topology, epoch))
        self._central.script = self._script()
        token = self._central.recover(topology, epoch)
        for shard in self._shards:
            check_ahead(token, shard, where)
        database = ShardedDatabase(self._database.path, table=self._table.name, shards=len(self._shards))
        self._reader = ShardedTableReader.of_table(database, self._table)
        return token

    @property
    def _shards(self) -> Sequence[Shard]:
        return self._threads.shards

    def _script(self) -> str:
        """Return the script for readers; the shards have recovered."""
        paths = shard_paths(self._database.path, self._table.name, len(self._shards))
        tables = [
            evolve(shard_table(self._table, number), timed=shard.is_timed) for number, shard in enumerate(self._shards)
        ]
        places = [ShardPlace(*each) for each in zip(range(len(paths)), paths, tables, strict=True)]
        return ShardsView(self._table, places).script

    # --- transactions -------------------------------------------------------------------------------------------------

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Begin ``members``; the shards are locked at the first change, or else at the commit."""
        self.rollback()
        due = self._central.due(members)
        self._thread, self._first = threading.get_ident(), group_first(members)
        return members[len(members) - due :]

    def begin_member(self, tx: SinkTransaction) -> None:
        """Begin with ``tx``; the members before have no changes, because it takes no groups."""
        if self._has_changed:
            raise AssertionError(our_bug(f"{tx.attempt} comes in one group with {self._members[-1].attempt}"))
        self._close_shards()
        self._members.append(evolve(tx, group_first=self._first))

    def commit_group(self) -> None:
        """Commit in all shards, side by side, then in the central file."""
        opened = self._opened()
        self._threads.settle()
        self._threads.each(lambda shard: shard.commit_group(), opened)
        self._central.advance(self._members)
        self._members, self._open, self._has_changed = [], None, False

    def rollback(self) -> None:
        """Roll the shards back that have not committed; those that have will undo it in the next attempt."""
        self._threads.abandon()
        self._members, self._has_changed = [], False
        self._close_shards()

    @property
    def rolled_back(self) -> Sequence[Key]:
        if not self._members:
            return []
        self._opened()
        return sorted((key for shard in self._shards for key in shard.rolled_back), key=encode_key)

    def _opened(self) -> list[bool]:
        """Open the shards, if they are not open; return which of them have to apply the members.

        Raises:
            StateError: no member has begun.
        """
        if not self._members:
            raise StateError(f"{self._central.shown} changes only between begin_group and commit_group")
        if self._open is None:
            self._open = [True] * len(self._shards)  # so that they are closed if one can't be opened
            self._open = self._threads.each(self._begin)
        return self._open

    def _begin(self, shard: Shard) -> bool:
        shard.tells_rolled_back, shard.central = self.tells_rolled_back, self._central.token
        if self._members[0].attempt.is_trial and shard.token != self._central.token:
            raise StoreBusyException(f"{shard.shown} is at {shard.token}: a trial waits until all shards have it")
        due = shard.begin_group(self._members)
        for tx in due:
            shard.begin_member(tx)
        return bool(due)

    def _close_shards(self) -> None:
        if self._open is not None:
            self._threads.each(lambda shard: shard.rollback())
        self._open = None

    # --- values -------------------------------------------------------------------------------------------------------

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """Return the values of the open transaction on its thread; elsewhere, those as of the central token."""
        if not self._members or threading.get_ident() != self._thread:
            return self._committed().multi_get(keys)
        self._opened()
        self._threads.settle()
        parts = self._parts(encode_keys(keys))
        found = self._threads.each_with(parts, lambda shard, places: shard.multi_get([keys[place] for place in places]))
        return gathered([*zip(parts, found, strict=True)], len(keys))

    def get_tuples(self) -> list[tuple[Any, ...]]:
        return self._committed().get_tuples()

    def _committed(self) -> ShardedTableReader:
        if self._reader is None:
            raise StateError(f"{self._central.shown} is not open: it was not recovered, or is closed")
        return self._reader

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        """Replace the value of each key by the result of its updater; `REMOVE` removes the key."""
        self._opened()
        values: list[Any] = []
        size = CHUNK_ROWS * len(self._shards)
        for start in range(0, len(keys), size):
            part = slice(start, start + size)
            values += self._update(keys[part], updaters[part])
        return [None if value is REMOVE else value for value in values]

    def _update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        texts = encode_keys(keys)
        values = updated_values(dict(zip(texts, self.multi_get(keys), strict=True)), texts, updaters)
        self._write(texts, keys, values)
        return values

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        self._write(encode_keys(keys), keys, values)

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Remove each key; its row is kept in another table until the next transaction commits."""
        self.multi_put(keys, [REMOVE] * len(keys))

    def multi_merge(
        self, keys: Sequence[Key], values: Sequence[Any], aggregator: CombinerAggregator[Any], *, returns: bool = False
    ) -> Sequence[Any]:
        """Combine ``values[i]`` into the stored value of ``keys[i]``: in SQL, if that gives the same."""
        if aggregator.merge not in self._table.value.merges:
            return super().multi_merge(keys, values, aggregator)
        self._write(encode_keys(keys), keys, values, aggregator.merge)
        return self.multi_get(keys) if returns else ()

    def _write(
        self, texts: Sequence[str], keys: Sequence[Key], values: Sequence[Any], merge: str | None = None
    ) -> None:
        """Let each shard write its keys. The caller prepares the next rows meanwhile; the commit waits for all of them.

        A shard that has the transaction already writes nothing.
        """
        opened = self._opened()
        self._threads.settle()
        self._has_changed = self._has_changed or bool(texts)
        rows: list[list[tuple[str, Key, Any]]] = [[] for _ in self._shards]
        for number, row in zip(numbers_of_texts(texts, len(rows)), zip(texts, keys, values, strict=True), strict=True):
            rows[number].append(row)
        for number, its in enumerate(rows):
            if its and opened[number]:
                its_texts, its_keys, its_values = zip(*its, strict=True)
                self._threads.begin(number, partial(_written, its_texts, its_keys, its_values, merge))
        if self._members[0].attempt.is_trial:  # which never commits, so nothing else would wait
            self._threads.settle()

    def close(self) -> None:
        self.rollback()
        self._threads.close()
        for shard in self._shards:
            shard.close()
        self._central.close()
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _parts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the positions of the keys of each shard."""
        parts: list[list[int]] = [[] for _ in self._shards]
        for place, number in enumerate(numbers_of_texts(texts, len(parts))):
            parts[number].append(place)
        return parts


def _written(texts: Sequence[str], keys: Sequence[Key], values: Sequence[Any], merge: str | None, shard: Shard) -> None:
    shard.write_rows(texts, keys, values, merge)


def check_ahead(token: CommitToken | None, shard: Shard, where: str) -> None:
    """Check that a shard is at the central token ``token``, or one commit after it.

    Raises:
        StateError: it is behind, or further ahead: the files are not of one moment.
    """
    own = shard.token
    if token not in (own, shard.after):
        raise StateError(
            f"{where} is at {token or 'no transaction'}, and its shard {shard.shown} is at {own or 'no transaction'}, "
            f"which is not at most one commit ahead: the files are not of one moment; to fix this: restore the central "
            f"file and all shards from one backup, or `trident reset` the topology"
        )
