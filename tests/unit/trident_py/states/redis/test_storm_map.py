"""The values that Storm's RedisMapState has stored, in hashes and in strings."""

from __future__ import annotations

import pytest

from coordinators.values.secret import Secret
from tests.servers.redis_server import RedisServer
from trident_py.errors import StateError, StoreBusyException
from trident_py.states.redis.server import Server
from trident_py.states.redis.storm_map import stored_texts

pytestmark = pytest.mark.redis


def test_a_hash_is_all_of_a_state(redis: str, redis_server: RedisServer) -> None:
    texts = {f"word-{number}": f"[{number},1,null]" for number in range(2_500)}
    with redis_server.client() as client:
        client.hset("counts", mapping=dict(texts))
        client.set("counts2", "x")
    assert stored_texts(Server(Secret(redis)), hash="counts") == texts
    assert stored_texts(Server(Secret(redis)), hash="none") == {}
    with pytest.raises(StateError, match=r"^hash 'counts2' of Storm's RedisMapState: WRONGTYPE"):
        stored_texts(Server(Secret(redis)), hash="counts2")


def test_strings_are_those_with_the_prefix_and_without_it(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.mset({"c[1]:a": "[1,2]", "c[1]:ü": "[1,3]", "c1:b": "[1,4]", "c[1]:": "[1,5]"})
        client.hset("c[1]:hash", "x", "y")
    server = Server(Secret(redis))
    assert stored_texts(server, strings="c[1]:*") == {"a": "[1,2]", "ü": "[1,3]", "": "[1,5]"}
    assert stored_texts(server, strings="c1:b") == {"c1:b": "[1,4]"}
    assert stored_texts(server, strings="none") == {}
    assert len(stored_texts(server, strings="*")) == 4


def test_what_is_no_text_is_refused(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.hset("kryo", "a", b"\xff\x00")
    with pytest.raises(StateError, match=r"^hash 'kryo' of Storm's RedisMapState: a key or value is not UTF-8"):
        stored_texts(Server(Secret(redis)), hash="kryo")


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(StoreBusyException, match=r"^hash 'a' of Storm's RedisMapState: the server doesn't answer"):
        stored_texts(Server(Secret("redis://127.0.0.1:1/0")), hash="a")
