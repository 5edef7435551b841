"""A state in a Redis server: its factory, which needs no redis-py to be imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import Factory, evolve, field, frozen
from pyspark.sql.types import StructField, StructType

from coordinators.values.canonical import Json
from coordinators.values.secret import Secret, as_secret
from trident_py.errors import ConfigError, StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import StateFactory, StateKind
from trident_py.states.fenced import checked_ttl, milliseconds, ttl_detail

if TYPE_CHECKING:
    from trident_py.states.redis.redis_state import RedisMapState

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")


@frozen
class RedisState(StateFactory):
    """Keeps values in one hash of a Redis server, ``HGETALL <prefix>``, which changes as a whole with each commit.

    A field of the hash is a key as canonical JSON, its value JSON: ``HGET counts '["cat"]'`` returns ``17``. The names
    of all other data of the state begin with ``{<prefix>}:_``. A commit is one script of the server: it writes the
    commit token, the values, and the values before them, for a replay. It takes about 30 µs a key, and the server
    answers no other client meanwhile.

    The server must not drop data: eviction (a ``maxmemory-policy`` that is not ``noeviction``) is refused. Commits
    survive a crash of the server if it runs with ``appendonly yes`` and ``appendfsync always``, and `explain` says so.
    Otherwise a crash may lose confirmed commits, and so may a failover to a replica that lagged. Then the topology
    stops, and names the missing commits.

    Args:
        url: ``redis://[user:password@]host:port/db``, ``rediss://…`` with TLS, or ``unix://…``; never printed.
        prefix: the name of the hash; letters, digits, ``_``, ``.``, ``:`` and ``-``.
        ttl: how long a key stays without a write, by the times of transactions; None: forever. See
            `docs/how-to/removing-keys.md`.

    Raises:
        ConfigError: redis-py is not installed.
        StateError: ``prefix`` can't be used, or ``url`` is not a Redis URL.
    """

    kind = StateKind.FENCED

    url: Secret = field(converter=as_secret)
    prefix: str = field(kw_only=True)
    ttl: timedelta | None = field(default=None, converter=checked_ttl, kw_only=True, repr=False, eq=False)
    _keys: StructType | None = field(default=None, kw_only=True, repr=False)
    _value: StructField | None = field(default=None, kw_only=True, repr=False)
    name: str = field(init=False, repr=False, default=Factory(lambda self: self.prefix, takes_self=True))

    def __attrs_post_init__(self) -> None:
        try:
            from trident_py.states.redis.server import Server
        except ImportError as error:
            raise ConfigError(f"RedisState needs redis ({error}): pip install 'trident-py[redis]'") from error
        if not isinstance(self.prefix, str) or not _PREFIX.fullmatch(self.prefix):
            raise StateError(f"{self.prefix!r} can't be a prefix: use up to 100 ASCII letters, digits, _ . : and -")
        Server(self.url)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """The guarantee by the server's settings, which are read when it is needed."""
        from trident_py.states.redis.server import Server

        return Server(self.url).guarantee

    def details(self) -> Mapping[str, Json]:
        """Return how long keys stay without a write."""
        return ttl_detail(self.ttl)

    @property
    def lacks_fields(self) -> bool:
        """Whether the types of its values are still unknown."""
        return self._value is None

    def for_fields(self, keys: StructType, value: StructField) -> RedisState:
        """Return this factory for values of these types."""
        return evolve(self, keys=keys, value=value)

    def ensure_usable(self) -> None:
        """Check that the server answers, accepts the user, and doesn't evict data."""
        from trident_py.states.redis.server import Server

        Server(self.url).check(f"prefix {self.prefix!r}")

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> RedisMapState:
        """Return the state; it connects when it recovers."""
        from trident_py.states.redis.redis_state import RedisMapState
        from trident_py.states.redis.server import Server

        if self._keys is None or self._value is None:
            raise StateError(
                f"prefix {self.prefix!r}: RedisState keeps typed values, and gets their types only from "
                f"persistent_aggregate; to fix this: use it there, or call for_fields"
            )
        return RedisMapState(Server(self.url), self.prefix, self._keys, self._value, milliseconds(self.ttl))
