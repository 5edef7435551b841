"""What is Redis's own; what every fenced state does is in ``states/sql/test_fenced_state.py``."""

from __future__ import annotations

import functools
import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from redis import ConnectionError, Redis

from tests.servers.redis_server import RedisServer
from tests.transactions import begin
from tests.unit.trident_py.states.sql.test_fenced_state import (
    TOPOLOGY,
    MemoryAgainstModel,
    commit,
    few,
    made_by,
    transaction,
    values,
)
from trident_py.errors import FencedError, StateError, StoreBusyException
from trident_py.interfaces.sinks import TopologyKey
from trident_py.interfaces.states import FencedState
from trident_py.states.redis.redis import RedisState
from trident_py.states.redis.redis_state import CHUNK_KEYS, RedisMapState

pytestmark = pytest.mark.redis


def opened(url: str, prefix: str = "counts", epoch: int = 1) -> FencedState[Any]:
    state = made_by(RedisState(url, prefix=prefix))
    state.recover(TOPOLOGY, epoch)
    return state


def test_values_are_json_by_key_in_one_hash(redis: str, redis_server: RedisServer) -> None:
    state = opened(redis)
    commit(state, transaction(1), {"cat": 17, 'a "dog"': 2})
    with redis_server.client() as client:
        assert client.hgetall("counts") == {'["cat"]': "17", '["a \\"dog\\""]': "2"}
        others = [name for name in client.scan_iter() if name != "counts"]
    assert all(name.startswith("{counts}:_") for name in others)
    assert not [name for name in others if "staged" in name]


VALUES: list[tuple[str, Any]] = [
    ("bigint", 2**62),
    ("double", float("inf")),
    ("decimal(38,2)", Decimal("123456789012345678901234567890.12")),
    ("string", 'ü "\n'),
    ("boolean", False),
    ("binary", b"\x00\xff"),
    ("date", date(2026, 2, 3)),
    ("timestamp", datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)),
    ("array<int>", [1, None, 3]),
    ("map<string, array<double>>", {"a": [1.5], "b": None}),
    ("struct<x: int, y: string>", (1, None)),
]


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_comes_back_as_it_was(redis: str, kind: str, value: Any) -> None:
    state = made_by(RedisState(redis, prefix="v"), "k string", f"value {kind}")
    state.recover(TOPOLOGY, 1)
    tx = transaction(1)
    begin(state, tx)
    state.multi_put([("a",)], [value])
    assert state.multi_get([("a",)]) == [value]
    state.commit_group()
    assert state.multi_get([("a",)]) == [value]


def test_a_value_of_another_type_is_refused(redis: str) -> None:
    state = opened(redis)
    begin(state, transaction(1))
    with pytest.raises(StateError, match="field 'value' is declared bigint, got 'many'"):
        state.multi_put([("a",)], ["many"])


def test_all_values_are_read_with_their_keys(redis: str) -> None:
    keys = "word string, day date, at timestamp, price decimal(10,2), x double, raw binary, tags array<string>"
    state = made_by(RedisState(redis, prefix="v"), keys, "n int")
    state.recover(TOPOLOGY, 1)
    assert isinstance(state, RedisMapState)
    key = ("a", date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.5"), float("inf"), b"\x01", ["x", None])
    begin(state, transaction(1))
    state.multi_put([key, (None,) * 7], [1, 2])
    state.commit_group()
    assert sorted(state.get_tuples(), key=lambda row: row[-1]) == [(*key, 1), (*(None,) * 7, 2)]


def test_a_commit_may_be_of_any_number_of_keys_and_is_seen_as_a_whole(redis: str, redis_server: RedisServer) -> None:
    words = [f"w{number}" for number in range(2 * CHUNK_KEYS + 1)]
    state = opened(redis)
    for txid in (1, 2):
        commit(state, transaction(txid), dict.fromkeys(words, txid))
    assert set(values(state, *words)) == {3}
    assert commit(state, transaction(2, 1), {"w0": 1})
    assert values(state, "w0", "w1") == [2, 1]


def test_values_that_somebody_has_deleted_are_missed_at_a_takeover(redis: str, redis_server: RedisServer) -> None:
    commit(opened(redis), transaction(1), {"a": 1, "b": 1})
    with redis_server.client() as client:
        client.hdel("counts", '["a"]')
    with pytest.raises(StateError, match="prefix 'counts' is gone, it was at 1:0"):
        opened(redis, epoch=2)


def test_a_hash_that_no_topology_has_made_is_left_alone(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.hset("counts", "a", "1")
    with pytest.raises(StateError, match="prefix 'counts' exists and was not made by a topology"):
        opened(redis)


def test_what_an_older_incarnation_has_counted_is_set_aside(redis: str, redis_server: RedisServer) -> None:
    commit(opened(redis), transaction(1), {"a": 1})
    newer = TopologyKey(TOPOLOGY.name, TOPOLOGY.uuid, 2)
    state = made_by(RedisState(redis, prefix="counts"))
    assert state.recover(newer, 2) is None
    assert values(state, "a") == [None]
    with redis_server.client() as client:
        assert client.hgetall("{counts}:_incarnation_1") == {'["a"]': "1"}
    assert state.recover(newer, 3) is None


def test_a_leader_that_was_taken_over_in_mid_commit_changes_nothing(redis: str) -> None:
    old = opened(redis)
    commit(old, transaction(1), {"a": 1})
    begin(old, transaction(2))
    old.multi_put([("a",)], [100])
    new = opened(redis, epoch=2)
    with pytest.raises(StateError, match="another writer has changed it meanwhile"):
        old.commit_group()
    with pytest.raises(FencedError, match="belongs to epoch 2"):
        begin(old, transaction(2))
    assert commit(new, transaction(2, 1, epoch=2), {"a": 1})
    assert values(new, "a") == [2]


def test_a_commit_whose_answer_was_lost_is_replaced_by_its_replay_and_counts_once(
    redis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(redis)
    commit(state, transaction(1), {"a": 1})
    run = Redis.eval

    def unanswered(client: Redis, *arguments: Any) -> None:
        monkeypatch.undo()
        run(client, *arguments)
        raise ConnectionError("the connection broke")

    monkeypatch.setattr(Redis, "eval", unanswered)
    with pytest.raises(StoreBusyException, match="the connection broke"):
        commit(state, transaction(2), {"a": 1, "b": 1})
    assert commit(state, transaction(2, 1), {"a": 1, "c": 1})
    assert values(state, "a", "b", "c") == [2, None, 1]


def test_what_a_dead_leader_has_staged_is_swept(redis: str, redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.hset("{counts}:_staged:dead", "a", "1")
        client.hset("{counts2}:_staged:alive", "a", "1")
        opened(redis)
        assert not client.exists("{counts}:_staged:dead")
        assert client.exists("{counts2}:_staged:alive")


# --- servers ----------------------------------------------------------------------------------------------------------


def test_what_is_committed_survives_the_death_of_a_server_that_syncs(fresh_redis: RedisServer) -> None:
    state = opened(fresh_redis.url)
    assert RedisState(fresh_redis.url, prefix="counts").guarantee == "exactly-once"
    commit(state, transaction(1), {"a": 1})
    fresh_redis.kill()
    with pytest.raises(StoreBusyException, match="the server doesn't answer"):
        begin(state, transaction(2))
    fresh_redis.start()
    assert commit(state, transaction(2), {"a": 1})
    assert values(opened(fresh_redis.url, epoch=2), "a") == [2]


def test_a_server_that_has_lost_commits_stops_the_topology_by_name(fresh_redis: RedisServer) -> None:
    fresh_redis.stop()
    fresh_redis.options = {"appendonly": "no"}
    fresh_redis.start()
    state = opened(fresh_redis.url)
    assert "may lose confirmed commits" in RedisState(fresh_redis.url, prefix="counts").guarantee
    commit(state, transaction(1), {"a": 1})
    with fresh_redis.client() as client:
        client.save()
    commit(state, transaction(2), {"a": 1})
    fresh_redis.kill()
    fresh_redis.start()
    with pytest.raises(StateError, match="its server has lost commits that it had confirmed"):
        begin(state, transaction(3))


def test_a_server_without_memory_refuses_a_commit_as_a_whole(fresh_redis: RedisServer) -> None:
    state = opened(fresh_redis.url)
    commit(state, transaction(1), {"a": 1})
    with fresh_redis.client() as client:
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", used + 200_000)
        with pytest.raises(StateError, match="nothing was committed"):
            commit(state, transaction(2), {f"w{number}": 1 for number in range(20_000)})
        state.rollback()
        client.config_set("maxmemory", 0)
    assert values(state, "a", "w1") == [1, None]
    assert commit(state, transaction(2, 1), {"a": 1})
    assert values(state, "a") == [2]


def test_a_server_that_evicts_is_refused(fresh_redis: RedisServer) -> None:
    with fresh_redis.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(StateError, match=r"it may evict values \(maxmemory-policy allkeys-lru"):
        RedisState(fresh_redis.url, prefix="counts").ensure_usable()


def test_a_wrong_password_is_named_and_not_shown(fresh_redis: RedisServer) -> None:
    with fresh_redis.client() as client:
        client.config_set("requirepass", "s3cret")
    wrong = RedisState(fresh_redis.url.replace("unix://", "unix://:wr0ng@"), prefix="counts")
    with pytest.raises(StateError, match="the server refuses the user") as told:
        wrong.ensure_usable()
    assert "wr0ng" not in f"{told.value!r} {wrong!r} {wrong.guarantee}"


def test_a_server_that_is_away_is_busy(tmp_path: Path) -> None:
    away = RedisState(f"unix://{tmp_path}/none.sock", prefix="counts")
    with pytest.raises(StoreBusyException, match="prefix 'counts': the server doesn't answer"):
        away.ensure_usable()
    assert "doesn't tell just now" in away.guarantee


@pytest.mark.parametrize("prefix", ["", "{a}", "a b", "ü", "_x", 5, None])
def test_a_prefix_that_can_t_be_is_refused(prefix: Any) -> None:
    with pytest.raises(StateError, match="can't be a prefix"):
        RedisState("redis://localhost", prefix=prefix)


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(StateError, match="a Redis URL is redis://"):
        RedisState("localhost:6379", prefix="counts")


class RedisAgainstModel(MemoryAgainstModel):
    prefixes = itertools.count()

    def __init__(self, url: str) -> None:
        super().__init__()
        self.factory = RedisState(url, prefix=f"counts{next(self.prefixes)}")

    def opened(self) -> FencedState[Any]:
        return made_by(self.factory)

    def reopened(self) -> FencedState[Any]:
        self.state.close()
        return self.opened()


def test_redis_against_model(redis: str) -> None:
    machine: Any = functools.partial(RedisAgainstModel, redis)
    run_state_machine_as_test(machine, settings=settings(few, max_examples=20))
