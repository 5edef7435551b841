"""`RedisQuery`: what other programs keep in a Redis, looked up for rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.servers.redis_server import RedisServer
from trident_py.errors import PoisonBatchError, StateError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.operations.builtin import Count
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.states.redis.query import RedisQuery
from trident_py.testing import LocalCoordination, run_batches
from trident_py.topology import TridentTopology


def looked_up(url: str, key: str, out: str, *items: str | None, field: str | None = None) -> dict[Any, int]:
    """Return how often each row of item and output fields goes on."""
    topology, rows = TridentTopology("asking"), MemoryMapState.factory()
    asked = RedisQuery(url, key=key, field=field)
    stream = topology.new_stream("items", FixedBatchSpout("item string", 10, *[(item,) for item in items]))
    found = stream.state_query(topology.new_static_state(asked), "item", asked, out)
    names = ["item", *[each.split()[0] for each in out.split(", ")]]
    found.group_by(*names).persistent_aggregate(rows, Count(), "count")
    run_batches(topology)
    return rows.values()


@pytest.mark.redis
def test_a_string_is_one_row_of_the_declared_type(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.mset({"price:pen": "3.75", "price:ink": "-1", "n:a": str(2**63 - 1)})
    rows = looked_up(redis, "price:{item}", "price decimal(9,2)", "pen", "ink", "gone", None, "pen")
    assert rows == {("pen", Decimal("3.75")): 2, ("ink", Decimal(-1)): 1}
    assert looked_up(redis, "n:{item}", "n bigint", "a") == {("a", 2**63 - 1): 1}
    assert looked_up(redis, "price:{item}", "raw binary", "pen") == {("pen", b"3.75"): 1}


@pytest.mark.redis
def test_a_set_is_a_row_for_each_member_and_a_hash_one_with_its_fields(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.sadd("tags:pen", "blue", "ü")
        client.hset("user:ann", mapping={"name": "Ann", "age": "41", "other": "x"})
    assert looked_up(redis, "tags:{item}", "tag string", "pen") == {("pen", "blue"): 1, ("pen", "ü"): 1}
    assert looked_up(redis, "user:{item}", "age int, mail string", "ann") == {("ann", 41, None): 1}


@pytest.mark.redis
def test_one_field_of_a_hash_is_looked_up_as_a_string_is(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.hset("prices", mapping={"of pen": "3", "of ink": "x"})
        client.set("one", "3")
    rows = looked_up(redis, "prices", "price int", "pen", "gone", None, "pen", field="of {item}")
    assert rows == {("pen", 3): 2}
    assert looked_up(redis, "no {item}", "price int", "pen", field="{item}") == {}
    with pytest.raises(PoisonBatchError, match=r"key 'prices of ink' holds b'x' .*, which is no int for the field"):
        looked_up(redis, "prices", "price int", "ink", field="of {item}")
    with pytest.raises(PoisonBatchError, match="key 'one' holds a string, which has no fields; to fix this: leave fie"):
        looked_up(redis, "one", "price int", "pen", field="{item}")


@pytest.mark.redis
def test_what_is_not_of_the_declared_type_is_named_with_its_key(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.set("price:pen", "cheap")
        client.rpush("price:ink", "1")
    with pytest.raises(PoisonBatchError, match=r"key 'price:pen' holds b'cheap' .*, which is no double for the field"):
        looked_up(redis, "price:{item}", "price double", "pen")
    with pytest.raises(PoisonBatchError, match="key 'price:pen' holds a string: one output field, not"):
        looked_up(redis, "price:{item}", "price string, other string", "pen")
    with pytest.raises(
        PoisonBatchError,
        match="StateError: RedisQuery: key 'price:ink' holds a list; it looks up strings, sets and hashes only",
    ):
        looked_up(redis, "price:{item}", "price double", "ink")


def test_a_server_that_is_away_is_waited_for_and_ends_the_topology_when_patience_does() -> None:
    topology, asked = TridentTopology("asking"), RedisQuery("redis://127.0.0.1:1", key="{item}")
    stream = topology.new_stream("items", FixedBatchSpout("item string", 1, ("pen",)))
    stream.state_query(topology.new_static_state(asked), "item", asked, "n int").persistent_aggregate(
        MemoryMapState.factory(), Count(), "count"
    )
    config = TridentConfig(store_patience=0.5)
    with pytest.raises(StateError, match=r"the store could not be used for .* StoreBusyException: RedisQuery: the s"):
        topology.start(config, coordination=LocalCoordination()).process_all_available()


@pytest.mark.parametrize("key", ["", "{", "{}", "{0}", "{a.b}", "{a:>5}", 5, None])
def test_what_is_no_key_is_refused_where_it_is_written(key: Any) -> None:
    with pytest.raises(TopologyError, match="key= of RedisQuery is a text such as"):
        RedisQuery("redis://localhost", key=key)
    if key is not None:
        with pytest.raises(TopologyError, match="field= of RedisQuery is a text such as"):
            RedisQuery("redis://localhost", key="a", field=key)


@pytest.mark.parametrize(
    ("key", "out", "message"),
    [("{itme}", "price double", "the key has {itme}, and the input fields are item"), ("{item}", "at date", "declare")],
)
def test_fields_that_cannot_be_are_refused_where_they_are_declared(key: str, out: str, message: str) -> None:
    topology, asked = TridentTopology("asking"), RedisQuery("redis://localhost", key=key)
    stream = topology.new_stream("items", FixedBatchSpout("item string", 1))
    with pytest.raises(TopologyError, match=message):
        stream.state_query(topology.new_static_state(asked), "item", asked, out)
