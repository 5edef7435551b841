"""Values in a hash of a Redis server, stored with the commit token in one atomic step."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from decimal import localcontext
from itertools import islice
from typing import Any
from uuid import uuid4

from attrs import frozen
from pyspark.sql.types import StructField, StructType
from redis import Redis

from trident_py.errors import StateError
from trident_py.interfaces.operations import EXACT_DECIMALS
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import FencedState, ITupleCollection, Key, ValueUpdater
from trident_py.rows.row import json_rows, rows_of, rows_of_json
from trident_py.rows.schema import arrow_table, fields_text
from trident_py.states.fenced import Expiry, Fence, StateHeader, TableStep, portion
from trident_py.states.keys import decode_key, encode_keys
from trident_py.states.redis.server import COMMIT, Server, explained

CHUNK_KEYS = 5_000
"""The number of values that one command reads or stages."""

STAGED_SECONDS = 3_600
"""The time after which the server deletes staged data that a dead leader left and no later leader removed."""

NOTHING = ""
"""The stored form of a missing value; JSON is never empty."""


@frozen
class Names:
    """The keys of the server that belong to one state, in one slot of a cluster."""

    prefix: str

    @property
    def header(self) -> str:
        """The key of the header: the fence and the last commit."""
        return f"{{{self.prefix}}}:_trident"

    @property
    def undo(self) -> str:
        """The key of the values before the last transaction, for the keys that it changed."""
        return f"{{{self.prefix}}}:_undo"

    @property
    def count(self) -> str:
        """The key of the number of values, by which lost values are detected."""
        return f"{{{self.prefix}}}:_count"

    @property
    def times(self) -> str:
        """The key of the write times of values, as the scores of a sorted set; 0: unknown."""
        return f"{{{self.prefix}}}:_times"

    @property
    def undo_times(self) -> str:
        """The key of the times before the last transaction, for the keys that it changed; empty: there was no value."""
        return f"{{{self.prefix}}}:_undo_times"

    def staged(self, owner: str) -> list[str]:
        """Return the keys of a leader's staged data: values, the values before them, and the times of both."""
        words = ("staged", "staged_undo", "staged_times", "staged_undo_times")
        return [f"{{{self.prefix}}}:_{word}:{owner}" for word in words]

    def aside(self, incarnation: int) -> str:
        """Return the key under which the values of an older incarnation are kept."""
        return f"{{{self.prefix}}}:_incarnation_{incarnation}"


@frozen
class Stored:
    """The stored value of a key and its write time.

    Attributes:
        text: the value as JSON; `NOTHING`: the key has no value.
        time: when it was written, in milliseconds since 1970; 0: unknown.
    """

    text: str = NOTHING
    time: int = 0

    def alive(self, expiry: Expiry) -> str:
        """Return the value, or `NOTHING` if it has expired."""
        return NOTHING if expiry.has_expired(self.time or None) else self.text


# large: one field for each thing that one state keeps between the calls of a transaction
class RedisMapState(FencedState[Any], ITupleCollection):
    """Values by key in one hash, committed together with the header by comparing and setting the header.

    A commit replaces the header that this state has read. If a newer leader has written another header, the commit
    changes nothing. So values can be read and computed before the commit.
    """

    def __init__(
        self, server: Server, prefix: str, keys: StructType, value: StructField, ttl: int | None = None
    ) -> None:
        self._server = server
        self._ttl = ttl
        self._is_timed = False  # whether it keeps when values were written
        self._names = Names(prefix)
        self._name = f"prefix {prefix!r}"
        self._columns = fields_text(StructType([*keys.fields, value]))
        self._schema = StructType([StructField("value", value.dataType)])
        self._owner = uuid4().hex
        self._client: Redis | None = None
        self._header = ""  # as it was read last
        self._known: Fence | None = None  # the fence that is known to be durable
        self._open: SinkTransaction | None = None
        self._writer = 0
        self._group: Sequence[SinkTransaction] = ()
        self._expiry = Expiry()  # as of the open transaction
        self._changed: dict[str, Stored] = {}  # by the open transaction
        self._before: dict[str, Stored] = {}  # the values before its last member
        self._written = 0  # by its last member

    # --- takeover -----------------------------------------------------------------------------------------------------

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: refuse older epochs from now on, in one step."""
        self._server.check(self._name)
        self._client = client = self._client or self._server.client()
        with self._explained():
            while True:
                text: Any = client.get(self._names.header) or ""
                found = _header(text, self._name) if text else None
                claim = StateHeader(Fence(topology, epoch), self._owner, self._columns)
                header, step = claim.claimed(found, exists=self._exists(client, found), state=self._name)
                values = "set aside" if step is TableStep.REPLACE else "keep"
                incarnation = found.fence.topology.incarnation if found else 0
                if self._replaced(text, _text(header), values, incarnation=incarnation) is None:
                    break
            for name in client.scan_iter(match=f"{{{self._names.prefix}}}:_staged*", count=1_000):
                client.delete(name)
            self._is_timed = self._ttl is not None or bool(client.exists(self._names.times))
            if self._is_timed:
                self._time_all(client)
        self._header, self._known = _text(header), header.fence
        return header.fence.token

    def _exists(self, client: Redis, found: StateHeader | None) -> bool:
        """Return whether all values are there; the server doesn't have a key for an empty hash."""
        count: Any = client.hlen(self._names.prefix)
        expected: Any = client.get(self._names.count)
        return bool(count) if found is None else int(expected or 0) == count

    def _time_all(self, client: Redis) -> None:
        """Store a time for every value that has none; values written without a ttl get 0, which means unknown."""
        if client.zcard(self._names.times) == client.hlen(self._names.prefix):
            return
        names: Any = client.hscan_iter(self._names.prefix, count=CHUNK_KEYS)
        while some := list(islice(names, CHUNK_KEYS)):
            client.zadd(self._names.times, dict.fromkeys([name for name, _ in some], 0), nx=True)

    # --- transactions -------------------------------------------------------------------------------------------------

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Return the members that must be applied, according to the current header."""
        self.rollback()
        client, where = self._recovered(), f"attempt {members[0].attempt}: {self._name}"
        with self._explained():
            there: Any = client.get(self._names.header) or ""
            self._header = there
            if not self._header:
                raise StateError(
                    f"{where} has lost its header; to fix this: restore the server's data", attempt=members[0].attempt
                )
            header = _header(self._header, self._name)
            if self._known is not None:
                header.fence.check_kept(self._known, where)
            due, redo = header.fence.due(members, self._name)
            if redo:
                undo: dict[Any, Any] = client.hgetall(self._names.undo)
                times: dict[Any, Any] = client.hgetall(self._names.undo_times)
                self._changed = {name: Stored(text, int(times.get(name) or 0)) for name, text in undo.items()}
        if due:
            self._group, self._expiry = members, header.expiry
            self._open, self._writer = due[0], threading.get_ident()
        return due

    def begin_member(self, tx: SinkTransaction) -> None:
        """Begin with ``tx``; its changes are undone alone if this transaction is replayed."""
        self._expire()
        self._open, self._before, self._written = tx, {}, 0
        self._expiry = self._expiry.after(tx.time, self._ttl)

    def commit_group(self) -> None:
        """Stage the changes, then commit them with the token in one step of the server."""
        self._in_transaction()
        self._expire()
        before = _header(self._header, self._name)
        header = StateHeader(before.fence.after(self._group), before.owner, before.columns, self._expiry)
        with self._explained():
            self._stage()
            found = self._replaced(self._header, _text(header), "change")
        if found is not None:
            there = _header(found, self._name).fence if found else None
            raise StateError(
                f"{self._name}: another writer has changed it meanwhile, to {there}; nothing was committed"
            )
        self._header, self._known = _text(header), header.fence
        self.rollback()

    def rollback(self) -> None:
        """Drop the open transaction; the server has at most staged data of it."""
        self._open, self._changed, self._before, self._written = None, {}, {}, 0

    def _stage(self) -> None:
        client, both = self._recovered(), (self._changed, self._before)
        values = [{name: stored.text for name, stored in each.items()} for each in both]
        times = [{name: stored.time if stored.text else "" for name, stored in each.items()} for each in both]
        staged: dict[str, Mapping[str, Any]] = dict(
            zip(self._names.staged(self._owner), [*values, *(times if self._is_timed else ({}, {}))], strict=True)
        )
        client.delete(*staged)
        for name, of_name in staged.items():
            for some in _chunks(list(of_name.items())):
                client.hset(name, mapping=dict(some))
            client.expire(name, STAGED_SECONDS)

    def _replaced(self, expected: str, header: str, values: str, *, incarnation: int = 0) -> str | None:
        """Replace the ``expected`` header by ``header``. Return None if that succeeded, else the stored header."""
        names = self._names
        keys = [
            names.header,
            names.prefix,
            names.undo,
            *names.staged(self._owner),
            names.aside(incarnation),
            names.count,
            names.times,
            names.undo_times,
        ]
        found: Any = self._recovered().eval(COMMIT, len(keys), *keys, expected, header, values, len(self._changed))
        return None if found is None or found == header else str(found)

    # --- values -------------------------------------------------------------------------------------------------------

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        names = encode_keys(keys)
        is_writer = self._open is not None and self._writer == threading.get_ident()
        found = self._read(names) if is_writer else {}
        expiry = self._expiry
        if not is_writer:
            found, expiry = self._committed(names)
        return self._loaded([found[name].alive(expiry) for name in names])

    def get_tuples(self) -> list[tuple[Any, ...]]:
        """Return the committed values: for each key its values, then the value."""
        with self._explained(), self._recovered().pipeline(transaction=True) as asked:
            asked.hgetall(self._names.prefix)
            asked.zrange(self._names.times, 0, -1, withscores=True)
            asked.get(self._names.header)
            found, times, header = asked.execute()
        scores, expiry = dict(times), _header(header or "", self._name).expiry
        kept = {name: Stored(text, int(scores.get(name, 0))).alive(expiry) for name, text in found.items()}
        names = [name for name, text in kept.items() if text]
        values = self._loaded([kept[name] for name in names])
        return [(*decode_key(name), value) for name, value in zip(names, values, strict=True)]

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        """Replace the value of each key by the result of its updater; `REMOVE` removes the key."""
        self._in_transaction()
        names = encode_keys(keys)
        found = self._read(names)
        texts = [stored.alive(self._expiry) for stored in found.values()]
        current = dict(zip(found, self._loaded(texts), strict=True))
        values: list[Any] = []
        with localcontext(EXACT_DECIMALS):
            for name, updater in zip(names, updaters, strict=True):
                value = updater(current[name])
                current[name] = None if value is REMOVE else value
                values.append(current[name])
        self._write(found, current)
        return values

    def multi_put(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Set the value of each key."""
        self._in_transaction()
        names = encode_keys(keys)
        given = [None if value is REMOVE else value for value in values]
        self._write(self._read(names), dict(zip(names, given, strict=True)))

    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Remove each key."""
        self.multi_put(keys, [REMOVE] * len(keys))

    def _write(self, found: Mapping[str, Stored], values: Mapping[str, Any]) -> None:
        texts, time = self._stored([values[name] for name in found]), self._open.time if self._open else 0
        self._written += len(found)
        for (name, before), text in zip(found.items(), texts, strict=True):
            self._before.setdefault(name, before)
            self._changed[name] = Stored(text, time)

    def _read(self, names: Sequence[str]) -> dict[str, Stored]:
        """Return the value of each distinct key in the open transaction."""
        found = {name: self._changed.get(name, Stored()) for name in names}
        found.update(self._committed([name for name in found if name not in self._changed])[0])
        return found

    def _committed(self, names: Sequence[str]) -> tuple[dict[str, Stored], Expiry]:
        """Return the committed value of each key, and the keys that have expired by then."""
        client, found, expiry = self._recovered(), dict[str, Stored](), Expiry()
        for some in _chunks(names):
            with self._explained(), client.pipeline(transaction=True) as asked:
                asked.hmget(self._names.prefix, some)
                if self._is_timed:
                    asked.zmscore(self._names.times, list(some))
                    asked.get(self._names.header)
                texts, *timed = asked.execute()
            times, header = timed or ([None] * len(some), None)
            expiry = _header(header, self._name).expiry if header else expiry
            found.update(
                (name, Stored(text or NOTHING, int(time or 0)))
                for name, text, time in zip(some, texts, times, strict=True)
            )
        return found, expiry

    def _expire(self) -> None:
        """Remove a portion of the expired keys, in the order of times and keys."""
        expiry, touched = self._expiry, self._changed
        if expiry.upto is None or expiry.since is None or expiry.since > expiry.upto:
            return  # every time that is known is later than that
        count = portion(self._written)
        with self._explained():
            first: Any = self._recovered().zrange(
                self._names.times, 0, expiry.upto, byscore=True, offset=0, num=count + len(touched), withscores=True
            )
        times = {name: int(time) for name, time in first if name not in touched}
        times |= {name: each.time for name, each in touched.items() if each.text and not each.alive(expiry)}
        gone = sorted(times, key=lambda name: (times[name] or expiry.since, name))[:count]
        for name, stored in self._read(gone).items():
            self._before.setdefault(name, stored)
            self._changed[name] = Stored()

    def _stored(self, values: Sequence[Any]) -> list[str]:
        try:
            typed = rows_of(arrow_table([(value,) for value in values], self._schema))
        except TypeError as error:
            raise StateError(f"{self._name}: {error}") from error
        rows: list[Any] = json_rows(typed, self._schema)
        return [NOTHING if row[0] is None else json.dumps(row[0], ensure_ascii=False) for row in rows]

    def _loaded(self, texts: Sequence[str]) -> list[Any]:
        rows = rows_of_json([[json.loads(text) if text else None] for text in texts], self._schema)
        return [value for (value,) in rows]

    def close(self) -> None:
        self.rollback()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _recovered(self) -> Redis:
        if self._client is None:
            raise StateError(f"{self._name} is not open: it was not recovered, or is closed")
        return self._client

    def _in_transaction(self) -> None:
        if self._open is None:
            raise StateError(f"{self._name} changes only between begin_group and commit_group")

    def _explained(self) -> AbstractContextManager[None]:
        return explained(self._name)


def _text(header: StateHeader) -> str:
    return json.dumps(header.row)


def _header(text: str, where: str) -> StateHeader:
    try:
        return StateHeader.of(json.loads(text))
    except (StateError, TypeError, ValueError) as error:
        raise StateError(
            f"{where}: its header {text[:80]!r} can't be read; to fix this: restore the server's data"
        ) from error


def _chunks(things: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (things[at : at + CHUNK_KEYS] for at in range(0, len(things), CHUNK_KEYS))
