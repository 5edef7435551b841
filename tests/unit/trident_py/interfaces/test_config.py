"""The settings: what they are, what is refused, and Storm's keys."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError

from coordinators.backends.local import LocalCoordination
from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess, ZooKeeperTLS
from coordinators.values.secret import Secret
from trident_py.errors import ConfigError, TridentError
from trident_py.interfaces.config import RetryPolicy, ServeAddress, TridentConfig


def test_changes_that_are_meant_are_written_as_refusals_print_them() -> None:
    assert TridentConfig(accept=["state:counts:1a2b3c4d"]).accept == ("state:counts:1a2b3c4d",)
    for wrong, complaint in [
        ("state:counts:1a2b3c4d", "accept is a list of"),
        (["counts"], "not 'counts'"),
        (3, "not 3"),
    ]:
        with pytest.raises(ConfigError, match=complaint):
            TridentConfig(accept=wrong)


def test_the_defaults_are_those_of_the_documentation() -> None:
    assert TridentConfig() == TridentConfig(
        max_spout_pending=4,
        batch_interval=0,
        message_timeout=30,
        session_timeout=10,
        retry=RetryPolicy(attempts=5, backoff=0.1, backoff_max=30),
        zookeeper=None,
        root="/trident",
        state_dir=Path(".trident"),
    )


def test_a_config_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        TridentConfig().max_spout_pending = 2  # type: ignore[misc]


def test_durations_are_seconds_or_timedeltas() -> None:
    config = TridentConfig(
        batch_interval=timedelta(milliseconds=250), message_timeout=timedelta(minutes=2), session_timeout=5
    )
    assert (config.batch_interval, config.message_timeout, config.session_timeout) == (0.25, 120.0, 5.0)
    assert isinstance(config.session_timeout, float)


def test_a_state_dir_may_be_text() -> None:
    assert TridentConfig(state_dir="somewhere/else").state_dir == Path("somewhere/else")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_spout_pending", 0),
        ("max_spout_pending", -1),
        ("max_spout_pending", 1.5),
        ("max_spout_pending", "3"),
        ("max_spout_pending", True),
        ("batch_interval", -1),
        ("message_timeout", 0),
        ("session_timeout", 0.5),
        ("root", "trident"),
        ("root", "/trident/"),
        ("root", "/a//b"),
        ("root", "/"),
        ("root", None),
        ("zookeeper", ""),
        ("zookeeper", "  "),
        ("zookeeper", 2181),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name_with_its_value(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        TridentConfig(**{setting: value})
    assert str(refused.value).startswith(setting)
    assert repr(value) in str(refused.value) or repr(float(value)) in str(refused.value)
    assert isinstance(refused.value, TridentError)


@pytest.mark.parametrize("value", ["10s", None, True, float("nan"), float("inf")])
def test_what_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="a duration is a finite number of seconds or a timedelta"):
        TridentConfig(message_timeout=value)


def test_the_waits_of_a_retry_policy_are_durations_too() -> None:
    policy = RetryPolicy(backoff=timedelta(milliseconds=500), backoff_max=timedelta(minutes=1))
    assert (policy.backoff, policy.backoff_max) == (0.5, 60.0)


def test_a_batch_gets_at_least_one_attempt() -> None:
    with pytest.raises(ConfigError, match="attempts must be a whole number of at least 1, not 0"):
        RetryPolicy(attempts=0)


def test_storms_keys_are_read_with_their_units() -> None:
    conf = {
        "topology.max.spout.pending": 3,
        "topology.trident.batch.emit.interval.millis": 500,
        "topology.message.timeout.secs": 60,
        "storm.zookeeper.session.timeout": 20000,
        "transactional.zookeeper.root": "/transactional",
        "storm.zookeeper.servers": ["zk1", "zk2"],
        "storm.zookeeper.port": 2182,
    }
    assert TridentConfig.from_storm(conf) == TridentConfig(
        max_spout_pending=3,
        batch_interval=0.5,
        message_timeout=60,
        session_timeout=20,
        root="/transactional",
        zookeeper="zk1:2182,zk2:2182",
    )


def test_storms_nulls_are_our_defaults() -> None:
    conf = {"topology.max.spout.pending": None, "transactional.zookeeper.servers": None}
    assert TridentConfig.from_storm(conf) == TridentConfig()


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("topology.workers", "spark.executor.instances"),
        ("topology.acker.executors", "leave the key out"),
        ("topology.component.resources.onheap.memory.mb", "spark.executor.memory"),
        ("drpc.request.timeout.secs", "TridentQuery.execute, or over HTTP TridentConfig"),
        ("storm.zookeeper.retry.times", "session_timeout says how long"),
        ("topology.debug", r"known are .*max\.spout"),
    ],
)
def test_a_key_of_storm_without_counterpart_is_named_with_what_to_use(key: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{key}' has no counterpart here; .*{instead}"):
        TridentConfig.from_storm({key: 4})


def test_the_servers_of_transactional_go_before_those_of_storm() -> None:
    shared = {"storm.zookeeper.servers": ["a", "b"], "storm.zookeeper.port": 2182}
    own = {"transactional.zookeeper.servers": ["c"], "transactional.zookeeper.port": 2183}
    for conf in ({**shared, **own}, {**own, **shared}):
        assert TridentConfig.from_storm(conf).zookeeper == "c:2183"
    assert TridentConfig.from_storm({**shared, "transactional.zookeeper.servers": None}).zookeeper == "a:2182,b:2182"
    assert TridentConfig.from_storm({"storm.zookeeper.servers": ["a"]}).zookeeper == "a:2181"


@pytest.mark.parametrize(
    "conf",
    [
        {"storm.zookeeper.servers": "zk1"},
        {"transactional.zookeeper.servers": [1]},
        {"storm.zookeeper.port": "2181"},
        {"transactional.zookeeper.port": 0},
    ],
)
def test_servers_are_names_and_ports_are_numbers(conf: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"ZooKeeper (servers are a list of host names|port is a number from 1 to)"):
        TridentConfig.from_storm(conf)


def test_storms_keys_are_validated_as_ours() -> None:
    with pytest.raises(ConfigError, match="max_spout_pending must be a whole number of at least 1, not 0"):
        TridentConfig.from_storm({"topology.max.spout.pending": 0})


# --- access to ZooKeeper ----------------------------------------------------------------------------------------------


def test_a_login_and_tls_are_for_the_servers_that_are_named() -> None:
    tls = ZooKeeperTLS(ca_file="ca.pem")
    config = TridentConfig(zookeeper="a:1", zookeeper_auth="anna:hush", zookeeper_tls=tls)
    assert config.zookeeper_access == ZooKeeperAccess(login="anna:hush", tls=tls)
    assert "hush" not in f"{config!r} {config}"
    assert TridentConfig(zookeeper="a:1").zookeeper_access == ANONYMOUS
    for settings in ({"zookeeper_auth": "anna:hush"}, {"zookeeper_tls": tls}):
        with pytest.raises(ConfigError, match="for the servers that `zookeeper` names") as refused:
            TridentConfig(**settings)
        assert "hush" not in str(refused.value)


def test_tls_is_more_than_the_name_of_a_file() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper_tls must be a ZooKeeperTLS, not 'ca\.pem'"):
        TridentConfig(zookeeper="a:1", zookeeper_tls="ca.pem")  # type: ignore[arg-type]


def test_a_history_is_a_file_of_the_state_dir_or_elsewhere_a_database_or_nowhere() -> None:
    assert TridentConfig(state_dir="s").history_place == Path("s/history.db")
    assert TridentConfig(state_dir="s", history="past/h.db").history_place == Path("s/past/h.db")
    assert TridentConfig(state_dir="s", history=Path("/past/h.db")).history_place == Path("/past/h.db")
    assert TridentConfig(history="sqlite:////past/h.db").history_place == Path("/past/h.db")
    assert TridentConfig(history="sqlite:///past/h.db").history_place == Path("past/h.db").absolute()
    assert TridentConfig(history=None).history_place is None
    for dsn in ("postgresql://me:canary@db/past", "host=db password=canary", "mysql://me:canary@db/past"):
        config = TridentConfig(history=dsn)
        assert config.history_place == Secret(dsn)
        assert "canary" not in repr(config)


@pytest.mark.parametrize(
    "history", ["", ".", "oracle://me:canary@db/past", "sqlite:///:memory:", "sqlite:///", 7, True]
)
def test_what_is_no_place_for_a_history_is_refused_without_its_password(history: object) -> None:
    with pytest.raises(ConfigError, match="history must be the path of a file") as caught:
        TridentConfig(history=history)
    assert "canary" not in str(caught.value)


def test_a_coordination_in_memory_has_files_of_its_own_and_keeps_no_history_unless_one_is_asked_for() -> None:
    coordination = LocalCoordination()
    placed = TridentConfig().placed(coordination)
    assert (placed.state_dir, placed.history_place) == (coordination.state_dir, None)
    assert TridentConfig(history="h.db").placed(coordination).history_place == coordination.state_dir / "h.db"
    assert TridentConfig(state_dir="s").placed(coordination).state_dir == Path("s")
    assert TridentConfig().placed(None) == TridentConfig()


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1:8080"),
        ("localhost:0", "localhost", 0, "localhost:0"),
        ("[::1]:8080", "::1", 8080, "[::1]:8080"),
    ],
)
def test_a_page_is_served_at_a_host_and_a_port(text: str, host: str, port: int, shown: str) -> None:
    address = TridentConfig(serve=text).serve
    assert address == ServeAddress(host, port)
    assert str(address) == shown


@pytest.mark.parametrize(
    "serve",
    ["", "8080", ":8080", "localhost", "localhost:", "localhost:x", "localhost:70000", "http://a:1", "a:1/b", 8080],
)
def test_what_is_no_place_for_a_page_is_refused(serve: object) -> None:
    with pytest.raises(ConfigError, match="serve must be 'host:port'"):
        TridentConfig(serve=serve)


@pytest.mark.parametrize("serve", ["0.0.0.0:8080", "[::]:8080", "10.0.0.7:8080", "example.com:8080"])
def test_beyond_this_machine_a_page_is_served_by_https_only(serve: str) -> None:
    with pytest.raises(ConfigError, match="needs HTTPS"):
        TridentConfig(serve=serve)
    assert TridentConfig(serve=serve, serve_cert=Path("a.pem"), serve_key=Path("b.pem")).serve_key == Path("b.pem")
    with pytest.raises(ConfigError, match="belong together"):
        TridentConfig(serve=serve, serve_cert=Path("a.pem"))
    with pytest.raises(ConfigError, match="belong together"):
        TridentConfig(serve=serve, serve_key=Path("b.pem"))
    with pytest.raises(ConfigError, match="belong together"):
        TridentConfig(serve_cert=Path("a.pem"), serve_key=Path("b.pem"))
