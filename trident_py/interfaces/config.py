"""The settings of one run of a topology: frozen, validated where they are given."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import Attribute, evolve, field, fields, frozen
from attrs.converters import optional

from coordinators.backends.coordination import Coordination
from coordinators.backends.zookeeper.access import ZooKeeperAccess, ZooKeeperTLS, as_login
from coordinators.values.secret import Secret
from trident_py.errors import ConfigError

BAD_ROWS_MAX = 10_000
"""How many rows of a batch a branch leaves out at most: they are stored in one write, with the intent to commit."""


@frozen
class ServeAddress:
    """The address at which a page is served.

    Attributes:
        host: an address or name of this machine; IPv6 addresses without brackets.
        port: the TCP port; 0 for any free one.
    """

    host: str
    port: int

    @classmethod
    def of(cls, value: str | ServeAddress) -> ServeAddress:
        """Parse ``"host:port"``; return a `ServeAddress` unchanged.

        Raises:
            ConfigError: ``value`` has another form.
        """
        if isinstance(value, ServeAddress):
            return value
        try:
            parts = urlsplit(f"//{value}") if isinstance(value, str) else None
            if parts and parts.hostname and parts.port is not None and value in (parts.netloc, parts.hostname):
                return cls(parts.hostname, parts.port)
        except ValueError:  # there is no host, or the port is not a valid number
            pass
        raise ConfigError(f"serve must be 'host:port', such as '127.0.0.1:8080', not {value!r}")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def shown_host(self) -> str:
        """The host as it is written in URLs."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        return f"{self.shown_host}:{self.port}"


def seconds(value: float | timedelta) -> float:
    """Return a duration in seconds; durations are given in seconds or as `timedelta`."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"a duration is a finite number of seconds or a timedelta, not {value!r}")
    return float(value)


def _at_least(minimum: float) -> Callable[[Any, Attribute[Any], Any], None]:
    def check(_: object, attribute: Attribute[Any], value: float) -> None:
        if value < minimum:
            raise ConfigError(f"{attribute.name} must be at least {minimum:g}, not {value!r}")

    return check


def _patience(_: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and value < 0:
        raise ConfigError(f"{attribute.name} must be at least 0, or None to wait forever, not {value!r}")


def _whole(minimum: int) -> Callable[[Any, Attribute[Any], Any], None]:
    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if type(value) is not int or value < minimum:
            raise ConfigError(f"{attribute.name} must be a whole number of at least {minimum}, not {value!r}")

    return check


def _tasks(_: object, attribute: Attribute[Any], value: object) -> None:
    if value != "auto" and (type(value) is not int or value < 0):
        raise ConfigError(f"{attribute.name} must be 'auto' or a whole number of at least 0, not {value!r}")


def _one_of(*known: str) -> Callable[[Any, Attribute[Any], Any], None]:
    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if value not in known:
            raise ConfigError(f"{attribute.name} must be {' or '.join(map(repr, known))}, not {value!r}")

    return check


def _bad_rows(_: object, attribute: Attribute[Any], value: object) -> None:
    is_share = isinstance(value, float) and 0 < value < 1
    if not is_share and not (type(value) is int and 0 < value <= BAD_ROWS_MAX):
        raise ConfigError(
            f"{attribute.name} must be a number of rows from 1 to {BAD_ROWS_MAX:,}, or a share of the batch such as "
            f"0.01, not {value!r}"
        )


def _absolute_znode(_: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or value in ("", "/") or value != "/" + value.strip("/") or "//" in value:
        raise ConfigError(f"{attribute.name} must be an absolute ZooKeeper path such as '/trident', not {value!r}")


def _connection_string(_: object, attribute: Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(
            f"{attribute.name} must be 'host:port,…/chroot', or None for the embedded server, not {value!r}"
        )


def _history(value: Any) -> Path | Secret | None:
    if value is None or isinstance(value, Path | Secret):
        return value
    if isinstance(value, str) and re.match(r"(postgres(ql)?|mysql|mariadb)://|\s*[a-z_]+\s*=", value):
        return Secret(value)
    if isinstance(value, str) and (found := re.fullmatch(r"sqlite:///(/?[^/:].*)", value)):
        return Path(found[1]).absolute()
    if not isinstance(value, str) or value in ("", ".") or "://" in value:  # it may hold a password
        shown = f"a URL with {value.partition('://')[0]}://" if "://" in str(value) else repr(value)
        raise ConfigError(
            f"history must be the path of a file, the URL of a PostgreSQL or MySQL database, or None, not {shown}"
        )
    return Path(value)


def _serve_address(value: Any) -> ServeAddress | None:
    return None if value is None else ServeAddress.of(value)


def _texts(value: Any) -> Any:
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def _changes(_: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, tuple):
        raise ConfigError(f"{attribute.name} is a list of the strings that a refusal prints, not {value!r}")
    for text in value:
        if not isinstance(text, str) or not re.fullmatch(r"[a-z]+:.+:[0-9a-f]{8}", text):
            raise ConfigError(f"{attribute.name} holds what a refusal prints, as 'state:counts:1a2b3c4d', not {text!r}")


def _of_servers(config: Any, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, ZooKeeperTLS):
        raise ConfigError(f"{attribute.name} must be a ZooKeeperTLS, not {value!r}")
    if config.zookeeper is None and (value is not None or config.zookeeper_auth is not None):
        raise ConfigError(
            "zookeeper_auth and zookeeper_tls are for the servers that `zookeeper` names, and it names none"
        )


@frozen(kw_only=True)
class RetryPolicy:
    """Retries of a batch after failures of its user code, before the topology halts.

    Attributes:
        attempts: failures of one transaction, raised by user code, after which the topology halts with
            `PoisonBatchError`. Failures of Spark, of a store, and replays because an earlier batch failed don't count.
        backoff: wait before the first replay; doubles with each further one.
        backoff_max: the longest wait between two replays.
    """

    attempts: int = field(default=5, validator=_whole(1))
    backoff: float = field(default=0.1, converter=seconds, validator=_at_least(0))
    backoff_max: float = field(default=30.0, converter=seconds, validator=_at_least(0))


# large: one field for each setting
@frozen(kw_only=True)
class TridentConfig:
    """How to run a topology. Durations are seconds or `timedelta`.

    Attributes:
        max_spout_pending: the number of transactions that may be processed at once; commits are always in order. Large
            batches need a few, so that one commits while the next is processed. If batches are small, up to 256 of them
            share jobs (docs/explanation/performance.md has the measurements).
        batch_interval: start at most one new batch in this time; 0: start as soon as there is data. Replays don't wait.
        spout_max_batch_size: the largest number of rows in a batch of an `IRichSpout`.
        message_timeout: a phase of an attempt fails after this time without any ack, report or living job.
        session_timeout: the timeout of the ZooKeeper session; a crashed leader is replaced at most this long plus 5 s
            later.
        retry: how a failing batch is retried; see `RetryPolicy`.
        source_patience: how long to wait for an unreachable source; None: forever. It is tried again up to 30 s apart,
            and ``TridentQuery.status`` shows the source.
        store_patience: how long batches are replayed while the store of a state or sink is locked or unreachable; None:
            forever. After that the topology ends with a `StateError`.
        on_poison: ``"halt"`` or ``"park"``: whether a transaction that has failed as often as `retry` allows ends the
            topology, or is left out until it is released (docs/how-to/mending.md).
        park_max: the number of parked transactions at which the next poisoned one ends the topology all the same.
        trial_seconds: how long one trial of a bisection may take between two commits, which wait for it; a search with
            a longer one ends.
        on_bad_row: ``"fail"`` or ``"quarantine"``: whether a row that makes a row function raise fails its batch, or is
            left out and becomes a dead letter. The latter calls `Stream.on_error` for each spout.
        bad_rows_max: the number of rows that one branch may leave out of a batch, up to 10,000, or their share of the
            batch, below 1.0. A batch with more bad rows fails.
        parked_dir: the directory for rows of parked transactions whose spouts can't emit them again; it must be one
            that all machines share on which the topology may run. None: ``state_dir``.
        resident_tasks: how many Spark tasks stay while the topology runs. A small batch goes to one of them instead of
            a Spark job, and takes a few milliseconds. ``"auto"``: up to half of the slots, while small batches come; a
            number: so many, also on a standby, and each keeps a slot; 0: none (docs/how-to/milliseconds.md).
        driver_host: the address of this machine that executors reach, for resident tasks. None: that of the Spark
            session.
        accept: the intended changes of the topology: strings that a start prints when it refuses the changes. Each
            string matches one change and is used once; after that it may be kept or removed
            (docs/how-to/changing-a-topology.md).
        zookeeper: ``"host:port,…/chroot"``; None starts the embedded server, with its data under ``state_dir``.
        zookeeper_auth: ``"user:password"`` for those servers; only this user can access the znodes created there.
        zookeeper_tls: the certificates of the servers and of this client; None: the connection is not protected.
        root: the znode under which each topology has its own znode.
        state_dir: the directory for the data of the embedded server and of windows. With a `LocalCoordination` the
            default is a separate directory.
        history: the store of each transaction's history, which ``trident tx`` and ``trident watch`` read. It is a
            SQLite file (below ``state_dir`` unless its path is absolute), a PostgreSQL or MySQL database (a URL such as
            ``postgresql://user:password@host/database``), or None: no history. A `LocalCoordination` keeps none by
            default.
        serve: the ``"host:port"`` that serves the topology's page and answers requests; port 0 is any free one. None:
            nothing is served (docs/how-to/dashboard.md).
        serve_cert, serve_key: PEM files for HTTPS at that address; required unless it is a loopback address.
    """

    max_spout_pending: int = field(default=4, validator=_whole(1))
    batch_interval: float = field(default=0.0, converter=seconds, validator=_at_least(0))
    spout_max_batch_size: int = field(default=1000, validator=_whole(1))
    message_timeout: float = field(default=30.0, converter=seconds, validator=_at_least(0.1))
    session_timeout: float = field(default=10.0, converter=seconds, validator=_at_least(1))
    retry: RetryPolicy = field(factory=RetryPolicy)
    source_patience: float | None = field(default=None, converter=optional(seconds), validator=_patience)
    store_patience: float | None = field(default=None, converter=optional(seconds), validator=_patience)
    on_poison: str = field(default="halt", validator=_one_of("halt", "park"))
    park_max: int = field(default=100, validator=_whole(1))
    trial_seconds: float = field(default=5.0, converter=seconds, validator=_at_least(0))
    on_bad_row: str = field(default="fail", validator=_one_of("fail", "quarantine"))
    bad_rows_max: float = field(default=1000, validator=_bad_rows)
    parked_dir: Path | None = field(default=None, converter=optional(Path))
    resident_tasks: int | str = field(default="auto", validator=_tasks)
    driver_host: str | None = None
    accept: tuple[str, ...] = field(default=(), converter=_texts, validator=_changes)
    zookeeper: str | None = field(default=None, validator=_connection_string)
    zookeeper_auth: Secret | None = field(default=None, converter=as_login)
    zookeeper_tls: ZooKeeperTLS | None = field(default=None, validator=_of_servers)
    root: str = field(default="/trident", validator=_absolute_znode)
    state_dir: Path = field(default=Path(".trident"), converter=Path)
    history: Path | Secret | None = field(default=Path("history.db"), converter=_history)
    serve: ServeAddress | None = field(default=None, converter=_serve_address)
    serve_cert: Path | None = field(default=None, converter=optional(Path))
    serve_key: Path | None = field(default=None, converter=optional(Path))

    def __attrs_post_init__(self) -> None:
        has_both, has_one = bool(self.serve_cert and self.serve_key), bool(self.serve_cert or self.serve_key)
        if has_one and not (has_both and self.serve):
            raise ConfigError("serve, serve_cert and serve_key belong together: where, the certificate, and its key")
        if self.serve and not (has_both or self.serve.is_loopback):
            raise ConfigError(
                f"serve={str(self.serve)!r} is reached from other machines, and needs HTTPS: give serve_cert and "
                f"serve_key, or serve at 127.0.0.1 and put a proxy in front of it"
            )

    def placed(self, coordination: Coordination | None) -> TridentConfig:
        """Return these settings with the defaults that ``coordination`` requires; explicit settings don't change.

        Files are kept in the directory of ``coordination``, if it has one. If it is in memory, no history is kept.
        """
        if coordination is None:
            return self
        defaults, placed = fields(TridentConfig), self
        if coordination.state_dir is not None and self.state_dir == defaults.state_dir.default:
            placed = evolve(placed, state_dir=coordination.state_dir)
        if coordination.is_in_memory and self.history == defaults.history.default:
            placed = evolve(placed, history=None)
        return placed

    @property
    def history_place(self) -> Path | Secret | None:
        """The place of the history: a SQLite file, the URL of a database, or None for no history."""
        return self.state_dir / self.history if isinstance(self.history, Path) else self.history

    @property
    def embedded_dir(self) -> Path:
        """The directory in which the embedded server keeps its data."""
        return self.state_dir / "zookeeper"

    @property
    def zookeeper_access(self) -> ZooKeeperAccess:
        """The login and the certificates for the servers that `zookeeper` names."""
        return ZooKeeperAccess(login=self.zookeeper_auth, tls=self.zookeeper_tls)

    @classmethod
    def from_storm(cls, conf: Mapping[str, object]) -> TridentConfig:
        """Translate settings from Storm's keys.

        Raises:
            ConfigError: a key has no counterpart here (the message names it), or its value is out of range.
        """
        settings: dict[str, Any] = {}
        for key, value in conf.items():
            if key not in _STORM_KEYS:
                raise ConfigError(f"{key!r} has no counterpart here; {_way_out(key)}")
            name, convert = _STORM_KEYS[key]
            if value is not None:
                settings[name] = convert(value)
        own, shared = (
            {name: settings.pop(f"{kind}{name}", None) for name in ("servers", "port")} for kind in ("", "storm_")
        )
        servers = own["servers"] or shared["servers"]
        if servers:
            port = own["port"] or shared["port"] or 2181
            settings["zookeeper"] = ",".join(f"{server}:{port}" for server in servers)
        return cls(**settings)


def _millis(value: Any) -> float:
    return seconds(value) / 1000


def _servers(value: Any) -> list[str]:
    if isinstance(value, str) or not all(isinstance(each, str) and each for each in value):
        raise ConfigError(f"ZooKeeper servers are a list of host names, not {value!r}")
    return list(value)


def _port(value: Any) -> int:
    if type(value) is not int or not 0 < value < 1 << 16:
        raise ConfigError(f"a ZooKeeper port is a number from 1 to 65535, not {value!r}")
    return value


def _way_out(key: str) -> str:
    for start, instead in _INSTEAD.items():
        if key.startswith(start):
            return instead
    return f"known are {', '.join(sorted(_STORM_KEYS))}"


_STORM_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "topology.max.spout.pending": ("max_spout_pending", lambda value: value),
    "topology.trident.batch.emit.interval.millis": ("batch_interval", _millis),
    "topology.spout.max.batch.size": ("spout_max_batch_size", lambda value: value),
    "topology.message.timeout.secs": ("message_timeout", seconds),
    "storm.zookeeper.session.timeout": ("session_timeout", _millis),
    "transactional.zookeeper.root": ("root", str),
    "transactional.zookeeper.servers": ("servers", _servers),
    "transactional.zookeeper.port": ("port", _port),
    "storm.zookeeper.servers": ("storm_servers", _servers),
    "storm.zookeeper.port": ("storm_port", _port),
}
"""Storm's keys, each with the name of our setting and the conversion of its value. ``transactional.…`` keys win over
``storm.…`` keys, which Storm uses if the former are null."""

_INSTEAD: dict[str, str] = {
    "storm.zookeeper.": "connections are retried as long as the session can live; session_timeout says how long",
    "topology.enable.message.timeouts": "silence always ends; raise message_timeout",
    "topology.acker.": "every batch is tracked, by the driver itself; leave the key out",
    "topology.workers": "Spark's executors do the work: spark.executor.instances and spark.executor.cores",
    "topology.max.task.parallelism": "parallelism_hint sets the number of partitions",
    "topology.tick.tuple.freq.secs": "nothing ticks in tasks; leave the key out",
    "topology.spout.wait.strategy": "the driver waits for events; leave the key out",
    "topology.component.": "Spark assigns resources: spark.executor.memory, spark.task.cpus, and Stream.resources",
    "drpc.": "requests need no servers: TridentQuery.execute, or over HTTP TridentConfig(serve=...)",
    "topology.transactional.id": "the topology's name is the key of the stored data",
}
"""Advice for other keys, by the beginning of the key."""
