"""Values and keys in `RedisState`, read by redis-py from its hash, and in `MemoryMapState`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

import pytest
from redis import Redis

from tests.transactions import begin
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from tests.values.odd import ODD, same
from tests.values.sql import Newest
from tests.values.store import Store, check_type
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import FencedState, StateFactory
from trident_py.rows.row import codec_of
from trident_py.rows.schema import arrow_table, check_comparable, schema_of
from trident_py.states.keys import decode_key, encode_key
from trident_py.states.memory import MemoryMapState
from trident_py.states.redis.redis import RedisState


class MapStore(Store):
    """Values by number, or numbers by the value as a key, to which the number belongs, too."""

    of_keys: bool

    def __init__(self, of_keys: bool) -> None:
        self.of_keys, self.stored = of_keys, 0

    def factory(self, name: str) -> StateFactory:
        return MemoryMapState.factory()

    def write(self, ddl: str, values: Sequence[Any]) -> None:
        self.stored += 1
        self.ddl, self.count = ddl, len(values)
        keys, value = (f"n int, v {ddl}", "x int") if self.of_keys else ("n int", f"v {ddl}")
        check_comparable(schema_of(keys))  # as where it is declared
        told = self.factory(f"t{self.stored}").for_fields(schema_of(keys), schema_of(value).fields[0])
        self.state: Any = told.make_state(TridentConfig(), Metrics(), 0, 1)
        assert isinstance(self.state, FencedState)
        self.state.recover(TOPOLOGY, 1)
        self.rows: list[tuple[tuple[Any, ...], Any]] = [
            ((n, each), n) if self.of_keys else ((n,), each) for n, each in enumerate(values)
        ]
        arrow_table([(*key, value) for key, value in self.rows], schema_of(f"{keys}, {value}"))  # as a job gives them
        tx = transaction(1)
        begin(self.state, tx)
        self.state.multi_merge([key for key, _ in self.rows], [value for _, value in self.rows], Newest())
        self.state.commit_group()

    def read(self) -> list[Any]:
        found = self.state.multi_get([key for key, _ in self.rows])
        return [key[1] for key, _ in self.rows] if self.of_keys and found == list(range(self.count)) else found

    def same(self, stored: Any, value: Any, ddl: str) -> bool:
        return same(stored, value) or (self.of_keys and bool(stored == value))  # 0.0 and -0.0 are one key


class RedisStore(MapStore):
    """The hash of a `RedisState`, whose fields are keys and whose values are JSON."""

    def __init__(self, of_keys: bool, url: str) -> None:
        super().__init__(of_keys)
        self.url = url

    def factory(self, name: str) -> StateFactory:
        return RedisState(self.url, prefix=name)

    def read(self) -> list[Any]:
        with closing(Redis.from_url(self.url, decode_responses=True)) as client:
            entries: dict[str, str] = client.hgetall(f"t{self.stored}")  # type: ignore[assignment]
        if self.of_keys:
            found = [(json.loads(value), decode_key(key)) for key, value in entries.items()]
            return [key[1] for _, key in sorted(found, key=itemgetter(0))]
        _, decode = codec_of(schema_of(f"v {self.ddl}").fields[0].dataType)
        texts = [entries.get(encode_key((n,)), "null") for n in range(self.count)]
        return [None if text == "null" else decode(json.loads(text)) for text in texts]


@pytest.mark.parametrize("of_keys", [False, True], ids=["values", "keys"])
def test_odd_values_in_memory_are_equal_or_refused(of_keys: bool) -> None:
    for ddl in ODD:
        check_type(MapStore(of_keys), "MemoryMapState keys" if of_keys else "MemoryMapState values", ddl)


@pytest.mark.redis
@pytest.mark.parametrize("of_keys", [False, True], ids=["values", "keys"])
def test_odd_values_in_redis_are_equal_or_refused(of_keys: bool, redis: str) -> None:
    store = RedisStore(of_keys, redis)
    for ddl in ODD:
        check_type(store, "RedisState keys" if of_keys else "RedisState values", ddl)
